"""How long points take during a search, on a machine that others use as well.

Problem: a search takes minutes, and meanwhile the machine is now twice as fast and now half. A
point that is timed alone while a neighbour rests seems faster than the untuned form did at the
start; the search goes on beside it, reports a gain, and in the last race nothing is left of that.
So a point runs in turns with the fastest so far, and what counts is the ratio of the two.

Example: the untuned form took 9 ms at first. Later it takes 18, as others work, and in the same
rounds a point takes 12: it is written down with 6. Then another one seems to take 5. The best of
many is chosen for its luck as well, so it runs once more, with more rounds, in turns with the
untuned form and with the point of 6 ms: it takes two thirds of the untuned form's time, and both
are written down with 6.

Invariant: seconds of all points are those of the untuned form when it was timed first, times a
ratio of rounds that both were in, or that lead there by points that were the fastest in between.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from ..measure import (
    Allowance,
    Clock,
    Compiled,
    Executor,
    Failure,
    JaxExecutor,
    Lap,
    Race,
    Way,
)
from .search.proposals import Measurement
from .space.traces import Trace

ROUNDS = 2
"""In which a point is timed during the search; the last race has more."""
CONTEST_ROUNDS = 6
"""In which one is timed that seems the fastest so far."""
FIRST_ROUNDS = 2
"""After so many of them it is over for what is not the fastest then."""
BEHIND = 1.15
"""A point that one round shows to be so many times slower than the fastest has no more rounds."""

PRECISE_SHARE = 0.1
"""Of the time of a search, for what the reference gives in float64."""
CHECKING_SHARE = 0.15
"""Of the time of a search, for what the reference gives on all kinds of inputs."""
LEAST_CHECKING = 2.0
"""Seconds for that at least, which a loud machine takes to load the reference."""
POINT_SHARE = 0.05
"""Of the time of a search, for the rounds of a point: what runs long has fewer of them."""


@dataclass(frozen=True)
class TuningBudget:
    """How much a search may take: seconds, points, or whichever ends first."""

    seconds: float | None = None
    trials: int | None = None

    def spent(self, seconds: float, trials: int) -> float:
        """The share that is spent, 1 where nothing is left."""
        shares = [0.0]
        if self.seconds is not None:
            shares.append(seconds / self.seconds)
        if self.trials is not None:
            shares.append(trials / self.trials)
        return min(1.0, max(shares))

    def share(self, share: float, least: float = 0.0) -> float | None:
        """A share of the seconds, or the `least`; nothing where any number may be taken."""
        return None if self.seconds is None else max(least, share * self.seconds)


@dataclass(frozen=True)
class Baseline:
    """What all others are compared with: the untuned form, or the reference without a trace."""

    trace: Trace | None
    compiled: Compiled
    seconds: float


@asynccontextmanager
async def device_executor() -> AsyncIterator[JaxExecutor]:
    """An executor of the device that jax runs on by default, set for tuning."""
    import jax

    from ..pool import usable_cores

    platform = "cpu" if jax.default_backend() == "cpu" else "cuda"
    allowance = Allowance(compile_seconds=30.0, run_seconds=10.0)
    compilers = max(1, min(8, usable_cores()))
    async with JaxExecutor(
        platform, allowance=allowance, compilers=compilers, ways=(Way.HOT,)
    ) as executor:
        yield executor


class PointTimer:
    """Times the points of one search, and holds those that are verified."""

    def __init__(
        self, executor: Executor, rounds: int, seed: int, seconds: float | None = None
    ) -> None:
        """Takes the `seconds` after which a race has no further round."""
        self.baseline: Baseline | None = None
        self.verified: dict[str, tuple[Measurement, Compiled]] = {}
        """By the keys of their traces."""
        self.unverified: dict[str, Compiled] = {}
        """What may tie with the fastest, by the keys of traces."""
        self._executor = executor
        self._rounds = rounds
        self._seed = seed
        self._seconds = seconds

    @property
    def fastest(self) -> Measurement | None:
        """Of all that are verified."""
        entries = [entry for entry, _ in self.verified.values() if entry.seconds is not None]
        return min(entries, key=lambda entry: entry.seconds or 0.0, default=None)

    async def timed(self, compiled: Compiled) -> float | Failure:
        """The least of a few rounds, as others on the machine can only add to it, over the least
        of those that the fastest so far has run in between; of one round where it is far behind.
        """
        if self.baseline is not None:
            beside, usual = self.baseline.compiled, self.baseline.seconds
            fastest = self.fastest
            if fastest is not None and fastest.seconds is not None and fastest.seconds < usual:
                beside, usual = self.verified[fastest.trace.key][1], fastest.seconds
            # Beside the fastest rather than the untuned form, which may take a hundred times as
            # long as what is timed.
            race = await self._race([compiled, beside], 1)
            if self._rounds > 1 and _ratio(race) < BEHIND:
                race = race.joined(await self._race([compiled, beside], self._rounds - 1))
            if failure := race.laps[0].failure:
                return failure
            if race.laps[1].failure is None:
                return _ratio(race) * usual
        race = await self._race([compiled], self._rounds)
        return race.laps[0].failure or _least(race.laps[0], race)

    async def contested(self, compiled: Compiled, seconds: float) -> float | Failure:
        """The seconds of what seemed to take so many, and the fewest so far, timed once more; those
        of the fastest before are corrected by the same race.
        """
        assert self.baseline is not None
        contenders, before = [self.baseline.compiled], self.fastest
        if before is not None and self.verified[before.trace.key][1] is not contenders[0]:
            contenders.append(self.verified[before.trace.key][1])
        race = await self._race([*contenders, compiled], FIRST_ROUNDS)
        lead = race.speedup(len(contenders), over=len(contenders) - 1)
        if lead is not None and lead.median > 1:
            last = await self._race([*contenders, compiled], CONTEST_ROUNDS - FIRST_ROUNDS)
            race = race.joined(last)
        ratio = race.speedup(len(contenders))
        if ratio is None:  # it has failed, or the untuned form has, of which it knows nothing
            return race.laps[-1].failure or seconds
        # It was once chosen for its luck as well, and nobody looks at it again.
        earlier = race.speedup(1)
        if before is not None and len(contenders) > 1 and earlier is not None:
            corrected = replace(before, seconds=self.baseline.seconds / earlier.median)
            self.verified[before.trace.key] = (corrected, contenders[1])
        return self.baseline.seconds / ratio.median

    async def _race(self, contenders: list[Compiled], rounds: int) -> Race:
        return await self._executor.race(
            contenders, rounds=rounds, seed=self._seed, seconds=self._seconds, least=1
        )


def _ratio(race: Race) -> float:
    """How many times as long as the second contender the first takes, which runs twice in each
    round; infinite where one of the two has failed.
    """
    if any(lap.failure is not None for lap in race.laps):
        return math.inf
    return min(_least(lap, race) for lap in (race.laps[0], race.again)) / _least(race.laps[1], race)


def _least(lap: Lap, race: Race) -> float:
    return min(lap.samples[race.deciding].of(Clock.WALL))
