"""What is called before a call is timed.

What other threads run is counted while they run, not at the system's next tick.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from statistics import median

import numpy as np
import pytest

from aiosearch.measure.race import Way
from aiosearch.measure.worker import timing
from aiosearch.measure.worker.inputs import ColdInputs, CopyRing
from aiosearch.measure.worker.timing import (
    MOST_IN_FLIGHT,
    SETTLING_CALLS,
    SETTLING_NS,
    UNSETTLED_NS,
    WARM_UP_CALLS,
    Runner,
    cpu_ns,
    in_flight,
    sample,
    settle,
)


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


def test_several_calls_are_in_flight_before_one_is_waited_for() -> None:
    """And never more than XLA has in flight, whose results need memory."""
    begun, waited = [0], []

    class Result:
        def __init__(self) -> None:
            begun[0] += 1

        def block_until_ready(self) -> Result:
            waited.append(begun[0])
            return self

    in_flight(Result, MOST_IN_FLIGHT + 3)
    assert waited == [MOST_IN_FLIGHT] * MOST_IN_FLIGHT + [MOST_IN_FLIGHT + 3] * 3


def test_other_work_runs_before_each_call_and_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(timing, "other_work", lambda: lambda: seen.append("other"))
    ring = CopyRing(np.array([1]), np.copy)
    runner = Runner(lambda array: seen.append("call"), None, ColdInputs([ring]), x64=False)
    runner.calls = 2
    sample(runner, Way.ALTERNATED)
    assert seen == ["other", "call"] * 2


def test_an_executor_does_not_time_what_needs_more_than_a_candidate() -> None:
    runner = Runner(lambda: None, None, ColdInputs([]), x64=False)
    with pytest.raises(ValueError, match="beside a busy core"):
        sample(runner, Way.BUSY)


def test_hot_calls_come_after_others_and_cold_ones_after_none() -> None:
    ring = CopyRing(np.array([1]), np.copy)
    ring.grow(2)
    seen: list[np.ndarray] = []
    runner = Runner(seen.append, None, ColdInputs([ring]), x64=False)
    runner.calls = 2
    sample(runner, Way.HOT)
    assert len(seen) == SETTLING_CALLS + 2
    assert all(each is ring.copies[0] for each in seen)
    seen.clear()
    sample(runner, Way.COLD)
    assert [id(each) for each in seen] == [id(ring.copies[1]), id(ring.copies[0])]


@pytest.mark.parametrize(
    ("call_ns", "warm_up", "hot"),
    [(UNSETTLED_NS - 1, WARM_UP_CALLS, 2), (UNSETTLED_NS, 1, 1)],
)
def test_nothing_goes_before_what_runs_long(
    call_ns: int, warm_up: int, hot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, seen = [0], []
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])

    def call(array: np.ndarray) -> None:
        seen.append(array)
        now[0] += call_ns

    runner = Runner(call, None, ColdInputs([CopyRing(np.array([1]), np.copy)]), x64=False)
    runner.warm_up()
    assert len(seen) == warm_up
    seen.clear()
    assert runner.hot().wall == call_ns
    assert len(seen) == hot


SAMPLE_NS = 1_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="where threads have clocks of their own")
def test_a_thread_that_stays_awake_is_counted_in_every_sample() -> None:
    """The clock of the process alone leaves it out of most, and adds four milliseconds to a few."""
    text = bytes(1 << 29)
    running = threading.Event()

    def work() -> None:
        running.set()
        hashlib.sha256(text)  # without the interpreter's lock

    worker = threading.Thread(target=work)
    worker.start()
    running.wait()
    clock = time.pthread_getcpuclockid(worker.ident or 0)
    missed = []
    for _ in range(40):
        cpu, both = cpu_ns(), time.thread_time_ns() + time.clock_gettime_ns(clock)
        end = time.perf_counter_ns() + SAMPLE_NS
        while time.perf_counter_ns() < end:
            pass
        cpu = cpu_ns() - cpu  # first, as who asks for the thread's time has it counted
        both = time.thread_time_ns() + time.clock_gettime_ns(clock) - both
        missed.append(abs(cpu - both))
    worker.join()
    assert median(missed) < SAMPLE_NS // 4


def test_it_goes_on_like_the_clock_of_the_process() -> None:
    began, own = time.process_time_ns(), cpu_ns()
    assert abs(own - began) < 1_000_000_000
    assert cpu_ns() > own
