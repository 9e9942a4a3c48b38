"""What other threads run is counted while they run, not at the system's next tick."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from statistics import median

import pytest

from aiosearch.measure.clocks import cpu_ns

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
