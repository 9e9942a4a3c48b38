"""How a race is run: rounds in which each contender has its turn, in an order drawn anew."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from .candidates import Compiled, Failure
from .errors import ExecutorError
from .race import Lap, Race, Samples, Way

LEAST_ROUNDS = 6
"""Fewer give no interval of 95 %."""
MOST_OUTAGES = 3
"""How often the stand may break down by itself before that is an error."""


class Sample(Struct, frozen=True, array_like=True):
    """Nanoseconds of one call."""

    wall: float
    cpu: float


class Fault(Struct, frozen=True):
    """A contender failed; the stand must be prepared again without it."""

    runner: int
    failure: Failure
    killed: bool = False
    """Whether its process was killed meanwhile: then it may be tried once more."""

    @property
    def final(self) -> Failure:
        """What is said of whoever is out."""
        if not self.killed:
            return self.failure
        return replace(self.failure, message=f"in both of two tries, {self.failure.message}")


class Outage(Struct, frozen=True):
    """The stand broke down while nobody ran; it must be prepared again, and nobody is out."""

    message: str

    def count(self, outages: int) -> None:
        """Raises ExecutorError where it was one too many."""
        if outages > MOST_OUTAGES:
            raise ExecutorError(f"the device broke down while nothing ran: {self.message}")


class Stand(Protocol):
    """Where contenders are timed. Runners are counted from 0; two may be the same contender."""

    async def prepare(
        self, runners: Sequence[Compiled], seed: int
    ) -> tuple[Way, ...] | Fault | Outage:
        """Makes ready, and gives the ways in which these can be timed."""
        ...

    async def round(self, order: Sequence[int]) -> Sequence[Sequence[Sample]] | Fault | Outage:
        """Times each once in every way, in this order; gives a row of samples for each way."""
        ...


async def run_race(
    stand: Stand,
    contenders: Sequence[Compiled],
    seed: int,
    rounds: int,
    seconds: float | None,
    clock: Callable[[], float],
) -> Race:
    """Runs the rounds; a contender that fails is taken out, and the others go on.

    Raises ExecutorError where the stand breaks down again and again.
    """
    field = _Field(contenders)
    order = random.Random(seed)
    end = None if seconds is None else clock() + seconds
    while field.rounds < rounds and field.has_incumbent:
        if end is not None and field.rounds >= LEAST_ROUNDS and clock() >= end:
            break
        await field.advance(stand, seed, order)
    return field.result()


class _Field:
    """The runners that are left, and what they have run."""

    def __init__(self, contenders: Sequence[Compiled]) -> None:
        if not contenders:
            raise ValueError("a race needs a contender")
        self.rounds = 0
        self._outages = 0
        self._runners = [*contenders, contenders[0]]
        self._left = list(range(len(self._runners)))
        self._failures: dict[int, Failure] = {}
        self._spared: set[Compiled] = set()
        """Those whose process was killed once."""
        self._ways: tuple[Way, ...] | None = None
        self._samples: dict[tuple[int, Way], list[Sample]] = {}

    @property
    def has_incumbent(self) -> bool:
        return 0 in self._left

    async def advance(self, stand: Stand, seed: int, order: random.Random) -> None:
        """Prepares the stand, or runs a round on it."""
        if self._ways is None:
            await self._prepare(stand, seed)
            return
        turns = order.sample(range(len(self._left)), len(self._left))
        found = await stand.round(turns)
        if isinstance(found, Fault | Outage):
            self._stop(found)
            return
        self.rounds += 1
        for way, row in zip(self._ways, found, strict=True):
            for turn, sample in zip(turns, row, strict=True):
                self._samples.setdefault((self._left[turn], way), []).append(sample)

    async def _prepare(self, stand: Stand, seed: int) -> None:
        found = await stand.prepare([self._runners[runner] for runner in self._left], seed)
        if isinstance(found, Fault | Outage):
            self._stop(found)
        else:
            self._ways = found

    def _stop(self, found: Fault | Outage) -> None:
        """Has the stand prepared again, without the runner whose fault it was."""
        self._ways = None
        if isinstance(found, Fault):
            if not self._spare(found):
                self._drop(found)
            return
        self._outages += 1
        found.count(self._outages)

    def _spare(self, fault: Fault) -> bool:
        """Whether it stays, because its process was killed for the first time."""
        runner = self._runners[self._left[fault.runner]]
        if not fault.killed or runner in self._spared:
            return False
        self._spared.add(runner)
        return True

    def _drop(self, fault: Fault) -> None:
        """Takes a runner out; where it is the incumbent, or its twin, both."""
        runner = self._left[fault.runner]
        twins = (0, len(self._runners) - 1)
        for gone in twins if runner in twins else (runner,):
            self._left.remove(gone)
            self._failures[gone] = fault.final

    def result(self) -> Race:
        laps = [self._lap(runner) for runner in range(len(self._runners))]
        seen = {way for _, way in self._samples}
        ways = tuple(way for way in Way if way in seen)
        return Race(tuple(laps[:-1]), laps[-1], ways, self.rounds)

    def _lap(self, runner: int) -> Lap:
        name = self._runners[runner].name
        if failure := self._failures.get(runner):
            return Lap(name, {}, failure)
        samples = {
            way: Samples(tuple(s.wall / 1e9 for s in run), tuple(s.cpu / 1e9 for s in run))
            for (owner, way), run in self._samples.items()
            if owner == runner
        }
        return Lap(name, samples)
