"""What is called before a call is timed."""

from __future__ import annotations

import time

import numpy as np
import pytest

from aiosearch.measure.race import Way
from aiosearch.measure.rotating import Inputs, Ring
from aiosearch.measure.timing import SETTLING_CALLS, SETTLING_NS, Runner, sample, settle


@pytest.mark.parametrize(
    ("call_ns", "calls"),
    [(1, SETTLING_CALLS), (SETTLING_NS // 4, 4), (2 * SETTLING_NS, 1)],
)
def test_what_is_short_settles_for_longer(
    call_ns: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, seen = [0], []
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])

    def call() -> None:
        seen.append(now[0])
        now[0] += call_ns

    settle(call)
    assert len(seen) == calls


def test_hot_calls_come_after_others_and_cold_ones_after_none() -> None:
    ring = Ring(np.array([1]), np.copy)
    ring.grow(2)
    seen: list[np.ndarray] = []
    runner = Runner(seen.append, None, Inputs([ring]), x64=False)
    runner.calls = 2
    sample(runner, Way.HOT)
    assert len(seen) == SETTLING_CALLS + 2
    assert all(each is ring.copies[0] for each in seen)
    seen.clear()
    sample(runner, Way.COLD)
    assert [id(each) for each in seen] == [id(ring.copies[1]), id(ring.copies[0])]
