"""What is called before a call is timed."""

from __future__ import annotations

import time
from itertools import count

import pytest

from aiosearch.measure.race import Way
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
    seen: list[str] = []
    runner = Runner(seen.append, None, [["one"], ["other"]], x64=False)
    runner.calls = 2
    sample(runner, Way.HOT, count())
    assert seen == ["one"] * (SETTLING_CALLS + 2)
    seen.clear()
    sample(runner, Way.COLD, count())
    assert seen == ["one", "other"]
