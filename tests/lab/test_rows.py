"""What runs come to: figures beside the base, and who gave another answer.

Figures as CSV and as a drawing.
"""

from __future__ import annotations

import csv
import io
import math
from random import Random
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from aiosearch.lab.arms import Arm
from aiosearch.lab.rows import ArmRow, Interval, interval, ratio, rows, to_csv
from aiosearch.lab.speedup_chart import MIDDLE, TOP, plot
from aiosearch.lab.trial import TrialOutcome
from aiosearch.testing.problems import Grid, Knapsack
from aiosearch.workloads.shapes import Tiny

BASE, OTHER = Arm("queue", "dfs", 1), Arm("other", "dfs", 2)


def outcome(arm: Arm = BASE, **figures: Any) -> TrialOutcome:
    usual = TrialOutcome(
        arm=arm, round=0, complete=True, seconds=8.0, nodes=100, solutions=3, answer="same",
        best_cost=None, memory=1 << 20, cpu=8.0, balance=0.9, busy=7.0, idle=1.0, waiting=2.0,
        messages=10, bytes=1000, steals=2, checks=50, queue_seconds=5.0,
    )  # fmt: skip
    return msgspec.structs.replace(usual, **figures)


def row_of(*outcomes: TrialOutcome, problem: Any = None) -> ArmRow:
    """The row of the other arm."""
    return rows(problem or Tiny(), [BASE, OTHER], outcomes, {})[1]


def test_figures_stand_beside_the_base_of_the_same_round() -> None:
    found = row_of(
        outcome(),
        outcome(round=1, seconds=16.0, checks=50),
        outcome(OTHER, seconds=5.0, cpu=10.0, checks=60),
        outcome(OTHER, round=1, seconds=10.0, cpu=10.0, checks=56),
    )
    assert found.speedup is not None
    assert found.speedup.low == found.speedup.mean == pytest.approx(1.6)
    assert found.efficiency == pytest.approx(0.8)
    assert found.cpu_efficiency == pytest.approx(0.8)
    assert found.redundant == 8
    assert found.queue_seconds == pytest.approx(5.0 / 58)
    assert found.idle_share == pytest.approx((1 / 10 + 1 / 20) / 2)
    assert found.contention == pytest.approx((2 / 10 + 2 / 20) / 2)


def test_cpu_seconds_tell_of_balance_and_of_speed_where_neighbours_spoil_time() -> None:
    found = row_of(
        outcome(busiest=6.0, worker_cpu=(3.0,)),
        outcome(OTHER, busiest=3.0, worker_cpu=(1.0, 2.0)),
        outcome(OTHER, round=1, busiest=3.0, worker_cpu=(2.0, 2.0)),
    )
    assert found.cpu_speedup == pytest.approx(2.0)
    assert found.cpu_balance == pytest.approx((0.75 + 1.0) / 2)
    assert found.cpu_least == pytest.approx((0.5 + 1.0) / 2)
    assert outcome(worker_cpu=(0.0, 0.0)).cpu_balance == 1.0


@pytest.mark.parametrize(
    "figures",
    [{"nodes": 101}, {"answer": "other"}, {"solutions": 4, "answer": "other"}, {"best_cost": 1.0}],
)
def test_an_arm_with_another_answer_is_wrong_and_has_no_figures(figures: dict[str, Any]) -> None:
    found = row_of(outcome(), outcome(OTHER), outcome(OTHER, round=1, **figures))
    assert found.wrong
    assert found.trouble.startswith("wrong: ")
    assert found.seconds is None


def test_equal_keys_may_be_explored_twice_and_pruning_may_explore_more() -> None:
    assert not row_of(outcome(), outcome(OTHER, nodes=120), problem=Grid()).wrong
    bnb = Arm("other", "bnb", 2)
    found = rows(Knapsack(), [bnb], [outcome(), outcome(bnb, nodes=20, answer="few")], {})
    assert not found[0].wrong


def test_an_arm_that_met_the_limit_has_no_speedup_and_is_not_wrong() -> None:
    found = row_of(outcome(), outcome(OTHER, complete=False, nodes=7))
    assert (found.trouble, found.wrong, found.runs) == ("stopped at the limit", False, 0)


def test_without_its_base_an_arm_has_times_and_no_speedup() -> None:
    found = row_of(outcome(complete=False), outcome(OTHER))
    assert found.seconds is not None
    assert found.speedup is None


def test_an_arm_that_could_not_be_run_says_why() -> None:
    found = rows(Tiny(), [OTHER], [], {OTHER: "it broke"})
    assert (found[0].trouble, found[0].wrong) == ("it broke", True)


def test_an_arm_that_was_never_reached_is_not_wrong() -> None:
    assert row_of(outcome()).trouble == "not run"


ROWS = [
    ArmRow(
        arm=Arm(strategy, "dfs", workers),
        runs=3,
        seconds=Interval(2.0, 1.0, 4.0),
        speedup=Interval(workers * 0.9, 0.5, 1e6),
        efficiency=0.9,
        idle_share=0.1 / workers,
    )
    for strategy in ("queue", "<other>")
    for workers in (1, 2, 4)
]
FAILED = ArmRow(arm=Arm("bad", "dfs", 2), runs=0, trouble="wrong: 3 nodes, not 4", wrong=True)


def test_a_line_of_csv_holds_the_arm_and_the_ends_of_its_intervals() -> None:
    first, *_, last = csv.DictReader(io.StringIO(to_csv([*ROWS, FAILED])))
    assert (first["strategy"], first["workers"]) == ("queue", "1")
    assert [first[name] for name in ("seconds", "seconds_low", "seconds_high")] == [
        "2.0", "1.0", "4.0",
    ]  # fmt: skip
    assert (last["trouble"], last["speedup"], last["seconds_low"]) == (FAILED.trouble, "", "")


def test_a_drawing_has_a_point_for_each_row_in_both_diagrams_and_stays_in_its_frame() -> None:
    drawn = ElementTree.fromstring(plot([*ROWS, FAILED], "a tree & its ways"))
    circles = drawn.findall(".//{*}circle")
    assert len(circles) == 2 * len(ROWS)
    height = float(drawn.attrib["height"])
    assert all(0 < float(circle.attrib["cy"]) < height for circle in circles)
    texts = [text.text for text in drawn.findall(".//{*}text")]
    assert "<other>" in texts
    assert "bad" not in texts


def test_every_interval_is_drawn_with_both_its_ends() -> None:
    drawn = ElementTree.fromstring(plot(ROWS, "a tree"))
    bars = [path.attrib["d"] for path in drawn.findall(".//{*}path") if "V" in path.attrib["d"]]
    assert len(bars) == len(ROWS)
    for bar in bars:
        high, low = (float(part.split("M")[0]) for part in bar[1:].split(" ", 1)[1].split("V"))
        assert bar.count("h8") == 2
        assert TOP < high < low <= MIDDLE


def test_a_drawing_of_nothing_is_still_one() -> None:
    assert ElementTree.fromstring(plot([FAILED], "nothing")).tag.endswith("svg")


def test_one_value_has_no_interval() -> None:
    assert interval([2.0]) == Interval(2.0)


def test_equal_values_have_an_interval_of_no_width() -> None:
    found = interval([3.0, 3.0, 3.0])
    assert found.low == found.mean == found.high == pytest.approx(3.0)


def test_two_values_have_the_interval_of_students_t() -> None:
    found = interval([1.0, math.e])
    assert found.mean == pytest.approx(math.exp(0.5))
    assert found.high == pytest.approx(math.exp(0.5 + 12.706 * 0.5))


def test_a_ratio_compares_round_by_round_so_that_a_busy_one_does_not_count() -> None:
    found = ratio([1.0, 10.0, 2.0], [0.5, 5.0, 1.0])
    assert found.low == found.mean == found.high == pytest.approx(2.0)


def test_the_interval_holds_the_true_mean_nineteen_times_in_twenty() -> None:
    random = Random(7)
    held = 0
    for _ in range(2_000):
        found = interval([math.exp(random.gauss(0.3, 0.2)) for _ in range(5)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= math.exp(0.3) <= found.high
    assert held / 2_000 == pytest.approx(0.95, abs=0.015)
