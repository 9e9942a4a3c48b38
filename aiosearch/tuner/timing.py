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

from dataclasses import dataclass

from msgspec.structs import replace

from ..measure import Clock, Compiled, Executor, Failure, Lap, Race
from .search.proposals import Measurement
from .space.traces import Trace

ROUNDS = 3
"""In which a point is timed during the search; the last race has more."""
CONTEST_ROUNDS = 9
"""In which one is timed that seems the fastest so far."""


@dataclass(frozen=True)
class Baseline:
    """What all others are compared with: the untuned form, or the reference without a trace."""

    trace: Trace | None
    compiled: Compiled
    seconds: float


class PointTimer:
    """Times the points of one search, and holds those that are verified."""

    def __init__(self, executor: Executor, rounds: int, seed: int) -> None:
        self.baseline: Baseline | None = None
        self.verified: dict[str, tuple[Measurement, Compiled]] = {}
        """By the keys of their traces."""
        self._executor = executor
        self._rounds = rounds
        self._seed = seed

    @property
    def fastest(self) -> Measurement | None:
        """Of all that are verified."""
        entries = [entry for entry, _ in self.verified.values() if entry.seconds is not None]
        return min(entries, key=lambda entry: entry.seconds or 0.0, default=None)

    async def timed(self, compiled: Compiled) -> float | Failure:
        """The least of a few rounds, as others on the machine can only add to it, over the least
        of those that the fastest so far has run in between.
        """
        if self.baseline is not None:
            beside, usual = self.baseline.compiled, self.baseline.seconds
            fastest = self.fastest
            if fastest is not None and fastest.seconds is not None and fastest.seconds < usual:
                beside, usual = self.verified[fastest.trace.key][1], fastest.seconds
            # Beside the fastest rather than the untuned form, which may take a hundred times as
            # long as what is timed.
            race = await self._race([beside, compiled], self._rounds)
            if race.laps[0].failure is None:
                failure = race.laps[1].failure
                now = min(_least(lap, race) for lap in (race.laps[0], race.again))
                return failure or _least(race.laps[1], race) * usual / now
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
        race = await self._race([*contenders, compiled], CONTEST_ROUNDS)
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
        return await self._executor.race(contenders, rounds=rounds, seed=self._seed)


def _least(lap: Lap, race: Race) -> float:
    return min(lap.samples[race.deciding].of(Clock.WALL))
