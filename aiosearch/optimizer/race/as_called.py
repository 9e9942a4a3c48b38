"""The last race: the returned object itself, called in this process in each way in which programs
call it.

Problem: an executor times what the device does, call after call. A program does more: it has the
way through Python in each call, several calls in flight, calls that wait for others' results, other
layers' work in between, and neighbours on the machine. A kernel that is 1.6 times as fast where
each call is waited for lost to XLA's in these: with calls in flight XLA runs two of them on two
cores, where a kernel on both threads shares them; behind other work its second thread sleeps and
has to be woken; beside a busy process it waits for a thread that does not run.

Example, ratios by paired rounds with their intervals:

    waited for              1.57 [1.52, 1.60]
    calls in flight         0.98 [0.95, 1.02]
    a chain of calls        1.05 [1.01, 1.08]
    behind other work       1.01 [0.97, 1.04]
    beside a busy core      1.30 [1.10, 1.45], slow calls 0.40 [0.31, 0.55]

Slow calls lose in the last row beyond what the original's differ from themselves, and so the
original is handed back, with these words for a reason.

The original, the drop-in and the original once more are timed in each round, in an order that is
drawn, as in a race of an executor: what comes out is a `Race`, and wins, loses and hides what any
race does. Cost: at most `RACE_SECONDS` for all ways, but for the `LEAST_ROUNDS` that a ratio needs.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import jax

from ...capture.jax_types import Function, Leaf, PyTree
from ...measure import Lap, Race, Ratio, Samples, Way
from ...measure.race import LEAST_ROUNDS
from ...measure.worker.timing import (
    LEAST_IN_FLIGHT,
    MOST_ALTERNATED,
    MOST_IN_FLIGHT,
    cpu_ns,
    in_flight,
    other_work,
    settle,
    wait_for,
)
from ...pool import usable_cores
from ..handback.dispatch import compiled_original
from ..handback.exported import is_key
from ..handback.optimized import Optimized
from ..jax_settings import use_settings

ROUNDS = 31
"""Rounds at most; an odd number has a median."""
SAMPLE_SECONDS = 0.002
"""Seconds for which short calls are repeated to make one sample.

A function that is called again and again finds the memory that it gave back, and the caches as it
left them; the first few calls after another function's do not.
"""
RACE_SECONDS = 4.0
"""Seconds for all ways but `Way.BUSY`, about; that has a third of it besides."""
RERUNS = 1
"""How often calls are timed again where noise may hide that they are faster."""
LONGEST = 0.02
"""Seconds of a call above which it is not called here: what differs between ways is some
microseconds, and what differs between threads the executor's race sees as well."""
SPIN = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1000000):
        pass
"""
"""What keeps a core busy, and ends when this process does."""

Call: TypeAlias = Callable[[], PyTree]
Chain: TypeAlias = Callable[[PyTree], PyTree]
"""Calls the function with this array in the place of one of its own."""


@dataclass(frozen=True)
class AsCalledTimes:
    """What calls took in each way: the original first, then the drop-in."""

    race: Race
    on_gpu: bool = False
    """Whether a call only hands its work to another device."""

    def joined(self, later: AsCalledTimes) -> AsCalledTimes:
        """The rounds of both."""
        return AsCalledTimes(self.race.joined(later.race), self.on_gpu)

    @property
    def original(self) -> float:
        """The median of seconds of a call that is waited for."""
        return self.race.laps[0].samples[Way.HOT].median()

    @property
    def fast(self) -> float:
        return self.race.laps[1].samples[Way.HOT].median()

    @property
    def ratio(self) -> Ratio:
        """How many times as fast, by pairs of samples in which each call waits for its result."""
        ratio = self.race.speedup(1, way=Way.HOT)
        assert ratio is not None, "nobody fails here: what fails raises"
        return ratio

    @property
    def faster(self) -> bool:
        """Faster where each call is waited for, and slower in no other way, also in the tails.

        On a GPU most of a call that is waited for is the way there and back, in which a gain that
        the device sees may drown: only what is slower here has lost.
        """
        if self.slower:
            return False
        return self.ratio.high > 1 if self.on_gpu else self.race.wins(1)

    @property
    def in_doubt(self) -> bool:
        """Whether it may be faster or not: noise may hide that it is."""
        return not self.faster and not self.slower and self.race.hides(1)

    @property
    def slower(self) -> str:
        """The ways in which the drop-in loses, each with its ratio, in words; empty where there are
        none."""
        clauses = [
            f"{ratio.median:.2f} times as fast {way.told}"
            for way in self.race.lost(1)
            if (ratio := self.race.speedup(1, way=way)) is not None
        ]
        clauses += [
            f"{tail.median:.2f} times as fast {way.told} in the slowest tenth of the calls"
            for way in self.race.lost_tails(1)
            if (tail := self.race.tail(1, way)) is not None
        ]
        return ", ".join(clauses)


@dataclass(frozen=True)
class AsCalledRace:
    """A function, and one call of it."""

    function: Function
    args: Sequence[PyTree]
    kwargs: Mapping[str, PyTree]
    leaves: Sequence[Leaf]
    """All arrays and numbers among the arguments."""

    @property
    def possible(self) -> bool:
        """Whether there are arrays, and not only `jax.ShapeDtypeStruct`s that stand for them."""
        return not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in self.leaves)

    def race(self, fast: Optimized[..., PyTree], seconds: float = RACE_SECONDS) -> AsCalledTimes:
        """Calls the function, compiled by `jax.jit`, and `fast` in turns, for so many seconds at
        most but for the `LEAST_ROUNDS`. Blocks."""
        cut = fast.spliced.cut
        with use_settings(cut.settings):
            # What a user has without us: the drop-in keeps static arguments out of the trace too.
            usual = compiled_original(cut)
            on_gpu = self._on_gpu(usual)
            chains = self._chains([usual, fast], [*cut.held.values()])
            calls = [partial(function, *self.args, **self.kwargs) for function in (usual, fast)]
            runners = [_Runner(call, chain) for call, chain in zip(calls, chains, strict=True)]
            race = _raced(runners, on_gpu, min(seconds, RACE_SECONDS))
            return AsCalledTimes(race, on_gpu)

    def _on_gpu(self, usual: Callable[..., object]) -> bool:
        """Whether the result of a call is on a GPU."""
        result = usual(*self.args, **self.kwargs)
        arrays = [leaf for leaf in jax.tree.leaves(result) if isinstance(leaf, jax.Array)]
        return any(place.platform == "gpu" for array in arrays for place in array.devices())

    def _chains(
        self, functions: Sequence[Function], held: Sequence[Leaf]
    ) -> Sequence[tuple[Chain, Leaf] | None]:
        """Each function of its smallest array, with that array; `None` where there is none.

        The smallest, since a chain copies it once in each link. One in `held` has to stay the same
        object, as something may have been packed of it.
        """
        leaves, tree = jax.tree_util.tree_flatten((tuple(self.args), dict(self.kwargs)))
        places = [
            at
            for at, leaf in enumerate(leaves)
            if isinstance(leaf, jax.Array)
            and not is_key(leaf)
            and not any(leaf is array for array in held)
        ]
        if not places:
            return [None] * len(functions)
        place = min(places, key=lambda at: int(leaves[at].nbytes))

        def chain(function: Function) -> Chain:
            def call(array: PyTree) -> PyTree:
                values = [*leaves[:place], array, *leaves[place + 1 :]]
                args, kwargs = jax.tree_util.tree_unflatten(tree, values)
                return function(*args, **kwargs)

            return call

        return [(chain(function), leaves[place]) for function in functions]


@dataclass
class _Runner:
    """One of those that are timed, and how many of its calls make a sample."""

    call: Call
    chain: tuple[Chain, Leaf] | None
    calls: int = field(default=1, init=False)

    def begin(self) -> None:
        """Compiles it, and finds how many calls make a sample."""
        for _ in range(3):
            wait_for(self.call())
        shortest = min(self._timed() for _ in range(3))
        self.calls = max(1, min(1000, round(SAMPLE_SECONDS / max(shortest, 1e-7))))

    def ways(self) -> tuple[Way, ...]:
        """How it is timed in an undisturbed process."""
        chained = (Way.CHAINED,) if self.chain is not None else ()
        return (Way.HOT, Way.QUEUED, *chained, Way.ALTERNATED)

    def sample(self, way: Way) -> tuple[float, float, list[float]]:
        """Seconds of a call by both clocks, and those of single calls where they are waited for."""
        if way in (Way.HOT, Way.BUSY):
            settle(lambda: wait_for(self.call()))
        elif way is not Way.ALTERNATED:
            wait_for(self.call())  # what ran before has left its traces
        cpu, wall = cpu_ns(), time.perf_counter_ns()
        count, single = self._run(way)
        wall, cpu = time.perf_counter_ns() - wall, cpu_ns() - cpu
        # Of what is alternated only its part counts, and the CPU time is that of both.
        seconds = sum(single) / count if single else wall / 1e9 / count
        return seconds, cpu / 1e9 / count, single

    def _run(self, way: Way) -> tuple[int, list[float]]:
        """Makes the calls of a sample; gives how many, and the seconds of those that are waited
        for."""
        match way:
            case Way.QUEUED:
                calls = max(LEAST_IN_FLIGHT, self.calls)
                in_flight(self.call, calls)
                return calls, []
            case Way.CHAINED:
                calls = max(LEAST_IN_FLIGHT, min(self.calls, MOST_IN_FLIGHT))
                self._chained(calls)
                return calls, []
            case Way.ALTERNATED:
                return self._waited(min(self.calls, MOST_ALTERNATED), other_work())
        return self._waited(self.calls)

    def _waited(
        self, calls: int, before: Callable[[], None] | None = None
    ) -> tuple[int, list[float]]:
        single = []
        for _ in range(calls):
            if before is not None:
                before()
            single.append(self._timed())
        return calls, single

    def _timed(self) -> float:
        began = time.perf_counter_ns()
        wait_for(self.call())
        return (time.perf_counter_ns() - began) / 1e9

    def _chained(self, calls: int) -> None:
        assert self.chain is not None
        call, first = self.chain
        array = first
        for _ in range(calls):
            result = call(array)
            array = _link(first, jax.tree.leaves(result)[0])
        wait_for(array)


@jax.jit
def _link(array: Leaf, result: Leaf) -> Leaf:
    """The array itself, when the result is there: its values must not drift along a chain."""
    return jax.lax.optimization_barrier((array, result))[0]  # type: ignore[no-untyped-call]  # jax's


def _raced(runners: Sequence[_Runner], on_gpu: bool, seconds: float) -> Race:
    """The times of both, and of the first once more."""
    for runner in runners:
        runner.begin()
    usual, fast = runners
    usual.calls = fast.calls = max(usual.calls, fast.calls)  # the same work for either
    turns = [usual, fast, _Runner(usual.call, usual.chain)]
    turns[2].calls = usual.calls
    samples: dict[tuple[int, Way], list[tuple[float, float, list[float]]]] = {}
    ways = usual.ways()
    order = random.Random(0)
    rounds = _rounds(turns, ways, samples, order, seconds)
    # A GPU's work is not done by the cores, and with one core all that counts is who has it.
    if not on_gpu and usable_cores() > 1:
        with busy_core():
            _rounds(turns, (Way.BUSY,), samples, order, seconds / 3)
        ways = (*ways, Way.BUSY)
    laps = [
        Lap(name, {way: _samples(samples[runner, way]) for way in ways})
        for runner, name in enumerate(("as written", "as called", "as written"))
    ]
    return Race((laps[0], laps[1]), laps[2], ways, rounds)


def _rounds(
    turns: Sequence[_Runner],
    ways: Sequence[Way],
    samples: dict[tuple[int, Way], list[tuple[float, float, list[float]]]],
    order: random.Random,
    seconds: float,
) -> int:
    """Adds a sample of each runner in each way, round by round; gives how many rounds."""
    end = time.monotonic() + seconds
    for number in range(ROUNDS):
        if number >= LEAST_ROUNDS and time.monotonic() >= end:
            return number
        for way in ways:
            for runner in order.sample(range(len(turns)), len(turns)):
                samples.setdefault((runner, way), []).append(turns[runner].sample(way))
    return ROUNDS


def _samples(rounds: Sequence[tuple[float, float, list[float]]]) -> Samples:
    wall, cpu, single = zip(*rounds, strict=True)
    return Samples(wall, cpu, tuple(seconds for calls in single for seconds in calls))


def is_quiet() -> bool:
    """Whether half of the cores have had nothing to do in the last minute, this process aside."""
    return os.getloadavg()[0] <= 1 + usable_cores() / 2


@contextmanager
def busy_core() -> Iterator[None]:
    """Another process computes meanwhile, as on a machine that does something else as well."""
    process = subprocess.Popen([sys.executable, "-S", "-E", "-c", SPIN])
    try:
        yield
    finally:
        process.kill()
        with suppress(ProcessLookupError):
            process.wait()
