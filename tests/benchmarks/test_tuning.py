"""The tuner's benchmark: its workloads for TVM, and what a search of many regions had reached."""

from __future__ import annotations

from lib.tuned_programs import reached
from lib.tuned_workloads import OPERATORS, WORKLOADS
from lib.tvm_side import WORKLOADS as TVM_WORKLOADS

from aiosearch.tuner import TuningProgress


def test_tvm_has_every_workload() -> None:
    assert list(TVM_WORKLOADS) == [*WORKLOADS, *OPERATORS]


def test_what_a_whole_had_reached_counts_each_region_as_often_as_it_runs() -> None:
    """Of ten seconds a loop's region takes three times 2, and then three times 1."""
    seen = [
        (1.0, TuningProgress("loop", 1, 1.0, None, 2.0)),
        (5.0, TuningProgress("loop", 2, 5.0, 1.0, 2.0)),
        (6.0, TuningProgress("end", 1, 1.0, 0.5, 1.5)),
    ]
    weights = {"loop": 3.0, "end": 1.0}
    assert reached(seen, weights, 10.0, 2) == 1.0
    assert reached(seen, weights, 10.0, 5) == round(10 / 7, 3)
    assert reached(seen, weights, 10.0, 9) == round(10 / 6, 3)
    assert reached(seen, weights, 0.1, 9) == round(7.5 / 3.5, 3)
