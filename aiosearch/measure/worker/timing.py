"""One timing sample: some calls of one `Runner`, each waited for, by wall clock and CPU time."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import methodcaller

import jax
import jax.numpy as jnp

from ..candidates import Array, PyTree
from ..race import Sample, Way
from .executables import CPU_LOOP, TimingLoop
from .inputs import ColdInputs

_THREADS = "/proc/self/task"
_OF_A_THREAD = 6
"""The kind of clock that Linux has for every thread, in the lowest bits of its number."""


def cpu_ns() -> int:
    """Nanoseconds that all threads of this process have run.

    Linux adds what a thread runs when that stops, or at the next tick of milliseconds. One that
    stays awake on another core counts nothing in most samples, and several milliseconds in a
    few. But who asks for the time of a thread is told all of it, and so is the process from
    then on.
    """
    before = time.thread_time_ns()
    with suppress(FileNotFoundError):  # elsewhere than on Linux
        for thread in os.listdir(_THREADS):
            with suppress(OSError):  # it has ended
                time.clock_gettime_ns(~int(thread) << 3 | _OF_A_THREAD)
    # Asking costs microseconds for each thread, which are not the candidate's
    asking = time.thread_time_ns() - before
    return time.process_time_ns() - asking


SAMPLE_NS = 1_000_000
"""Nanoseconds that a sample lasts at least, about: several calls of what is short."""
SETTLING_CALLS = 12
"""Calls that go before a hot sample: caches learn slowly what is read again and again."""
SETTLING_NS = 20_000_000
"""Nanoseconds that the `SETTLING_CALLS` take at most, about: of what is long, fewer go before."""
UNSETTLED_NS = 100_000_000
"""Nanoseconds from which on nothing goes before a call: caches that hold other things and threads
that sleep are a small part of it, and every run of it takes of what a search may take."""
MOST_CALLS = 1000
WARM_UP_CALLS = 3
WARM_UP_RUNS = WARM_UP_CALLS + CPU_LOOP.turns
LEAST_IN_FLIGHT = 4
"""Calls at least that are dispatched before one of them is waited for."""
LONG_IN_FLIGHT = 2
"""The same of what takes more than `SETTLING_NS`: enough for calls to share the cores."""
MOST_IN_FLIGHT = 32
"""Calls at most: XLA has so many in flight on a processor, and their results need memory."""
LONG_RUNS = {
    Way.HOT: 2,
    Way.COLD: 1,
    Way.LOOPED: CPU_LOOP.turns,
    Way.QUEUED: LEAST_IN_FLIGHT,
    Way.ALTERNATED: 1,
}
"""How often something that is long runs in a sample. A GPU's loop has more turns, which are short:
no candidate there takes as long as a single run may."""
SHORT_SECONDS = 2 * (SAMPLE_NS + SETTLING_NS) / 1e9
"""Seconds that a sample of something short takes at most."""


class Runner:
    """A candidate that is ready to be timed, and the `ColdInputs` that it is timed on."""

    def __init__(
        self,
        call: Callable[..., PyTree],
        looped: Callable[..., PyTree] | None,
        inputs: ColdInputs,
        x64: bool,
        timing_loop: TimingLoop = CPU_LOOP,
    ) -> None:
        self.call = call
        self.looped = looped
        self.inputs = inputs
        self.x64 = x64
        self.timing_loop = timing_loop
        self.calls = 1
        self.long = False
        self.settles = True
        """Whether calls that are not timed go before those that are."""
        self.wait: Callable[[PyTree], PyTree] = wait_for

    def begin(self) -> None:
        """Runs the candidate for the first time."""
        result = wait_for(self.call(*self.inputs.first))
        if isinstance(result, jax.Array):
            self.wait = methodcaller("block_until_ready")  # jax.block_until_ready takes longer

    def warm_up(self) -> None:
        """Runs the candidate a few times, and finds how many calls make a sample."""
        if self.looped is not None:
            wait_for(self.looped(*self.inputs.sets(self.timing_loop.copies)))
        shortest = math.inf
        for _ in range(WARM_UP_CALLS):
            shortest = min(shortest, self._timed([self.inputs.first]).wall)
            if shortest >= UNSETTLED_NS:
                break
        self.calls = max(1, min(MOST_CALLS, round(SAMPLE_NS / shortest)))
        self.long = shortest > SETTLING_NS
        self.settles = shortest < UNSETTLED_NS

    def hot(self) -> Sample:
        """Times calls on the first inputs, after others that wake threads and fill caches."""
        if self.settles:
            settle(lambda: self.wait(self.call(*self.inputs.first)))
        return self._timed([self.inputs.first] * self.calls)

    def cold(self) -> Sample:
        """Times calls, each on the inputs that were used longest ago."""
        return self._timed([self.inputs.next() for _ in range(self.calls)])

    def queued(self) -> Sample:
        """Times calls of which several are in flight."""
        calls = max(LONG_IN_FLIGHT if self.long else LEAST_IN_FLIGHT, self.calls)
        first = self.inputs.first
        cpu, wall = cpu_ns(), time.perf_counter_ns()
        in_flight(lambda: self.call(*first), calls)
        wall, cpu = time.perf_counter_ns() - wall, cpu_ns() - cpu
        return Sample(wall / calls, cpu / calls)

    def alternated(self) -> Sample:
        """Times calls by turns with `OtherWork`, whose time does not count."""
        other, first = other_work(), self.inputs.first
        wall = cpu = 0
        # A sample of work that is not counted lasts as long as one that is.
        calls = max(1, min(self.calls, MOST_ALTERNATED))
        for _ in range(calls):
            other()
            began, at = cpu_ns(), time.perf_counter_ns()
            self.wait(self.call(*first))
            wall += time.perf_counter_ns() - at
            cpu += cpu_ns() - began
        return Sample(wall / calls, cpu / calls)

    def loop(self) -> Sample:
        """Times one call that runs `TimingLoop.turns` times."""
        assert self.looped is not None
        turns, copies = self.timing_loop
        sample = _timed(self.looped, wait_for, [self.inputs.sets(copies)])
        return Sample(sample.wall / turns, sample.cpu / turns)

    def _timed(self, arguments: Sequence[list[Array]]) -> Sample:
        return _timed(self.call, self.wait, arguments)


def settle(call: Callable[[], object]) -> None:
    """Calls until a call finds what the others leave: `SETTLING_CALLS` times, or once if that
    is long."""
    end = time.perf_counter_ns() + SETTLING_NS
    for _ in range(SETTLING_CALLS):
        call()
        if time.perf_counter_ns() >= end:
            break


def wait_for(result: PyTree) -> PyTree:
    """Returns when every array of a result is there."""
    return jax.block_until_ready(result)  # type: ignore[no-untyped-call]  # jax's


def in_flight(call: Callable[[], PyTree], calls: int) -> None:
    """Makes so many calls, `MOST_IN_FLIGHT` at a time, and returns when all results are there."""
    while calls > 0:
        # All of them, as calls in flight may overtake each other.
        wait_for([call() for _ in range(min(calls, MOST_IN_FLIGHT))])
        calls -= MOST_IN_FLIGHT


MOST_ALTERNATED = 8
"""Calls at most of an alternated sample, each behind other work."""
OTHER_SIZE = 256
"""Rows and columns of what other work multiplies: some 0.3 ms on two cores."""


class OtherWork:
    """What runs between two calls in a program: a product, which XLA gives to its threads."""

    def __init__(self) -> None:
        self._array = jnp.full((OTHER_SIZE, OTHER_SIZE), 1 / OTHER_SIZE, jnp.float32)
        self._run = jax.jit(lambda array: jnp.tanh(array @ array))

    def __call__(self) -> None:
        """Returns when the work is done."""
        wait_for(self._run(self._array))


@functools.cache
def other_work() -> OtherWork:
    """That of this process, which is compiled once."""
    work = OtherWork()
    work()
    return work


def sample(runner: Runner, way: Way) -> Sample:
    """Times a runner in one `Way`."""
    match way:
        case Way.COLD:
            return runner.cold()
        case Way.LOOPED:
            return runner.loop()
        case Way.QUEUED:
            return runner.queued()
        case Way.ALTERNATED:
            return runner.alternated()
        case Way.HOT:
            return runner.hot()
    raise ValueError(f"an executor does not time candidates {way.told}")


def _timed(
    call: Callable[..., PyTree], wait: Callable[[PyTree], PyTree], arguments: Sequence[list[Array]]
) -> Sample:
    cpu, wall = cpu_ns(), time.perf_counter_ns()
    for inputs in arguments:
        wait(call(*inputs))
    wall, cpu = time.perf_counter_ns() - wall, cpu_ns() - cpu
    return Sample(wall / len(arguments), cpu / len(arguments))
