"""Which ceilings an answer is held to."""

from __future__ import annotations

import msgspec
import pytest
from answers import answer

from aiosearch.measure import Ceilings, machine_id, store_ceilings
from aiosearch.measure.ceilings import PROTOCOL
from aiosearch.measure.processor import cpu_kind
from aiosearch.optimizer.outcomes.answer import Answer
from aiosearch.optimizer.outcomes.evidence import Evidence
from aiosearch.optimizer.outcomes.plot import plot
from aiosearch.optimizer.outcomes.report import Found, Report
from aiosearch.optimizer.outcomes.roofline import ceilings_of, roofline_fraction, work
from aiosearch.tensor import Program, tensor

FLOPS = {"float32": 1e11, "bfloat16": 5e10}


def measured(platform: str, device: str, bandwidth: float) -> None:
    store_ceilings(
        Ceilings(
            machine_id(), platform, device, 2, "jax", PROTOCOL, "now", bandwidth, FLOPS, noise=0.1
        )
    )


def answered(device: str, evidence: Evidence) -> Answer:
    one = answer(evidence=evidence)
    return msgspec.structs.replace(one, key=msgspec.structs.replace(one.key, device=device))


def facts(dtype: str) -> Evidence:
    x = tensor("x", dtype, (64, 64))
    return work(Program("doubled", (x,), (x * 2,)))


@pytest.mark.parametrize("known", ["NVIDIA H200, 550.1", "NVIDIA H200"])
def test_an_answer_is_held_to_its_own_device(known: str) -> None:
    """A machine may have several, and an answer may be of another machine."""
    measured("cuda", "NVIDIA T4", 3e11)
    measured("cuda", "NVIDIA H200", 4e12)
    measured("cpu", "cpu", 2e10)
    found = ceilings_of(answered(f"cuda: {known}", Evidence()))
    assert found is not None
    assert found.bytes_per_second == 4e12
    here = ceilings_of(answered(cpu_kind(), Evidence()))
    assert here is not None
    assert here.bytes_per_second == 2e10
    for other in ("cuda: NVIDIA H20, 550.1", "cpu: another, 64 cores"):
        assert ceilings_of(answered(other, Evidence())) is None


def test_of_what_is_not_measured_nothing_is_said() -> None:
    """Products of float64 are not; those of float32 would be no ceiling for them."""
    measured("cpu", "cpu", 2e10)
    single, double = (answered(cpu_kind(), facts(dtype)) for dtype in ("f32", "f64"))
    assert roofline_fraction(single) is not None
    assert roofline_fraction(double) is None
    found = Found(double, False, ())
    assert "float64 is not among what is measured" in plot(Report((found,), (), 1.0))
