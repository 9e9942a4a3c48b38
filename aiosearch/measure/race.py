"""What a race found: the times of every contender, round by round, and what they mean."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from statistics import median

from msgspec import Struct

from .candidates import Failure
from .ratios import Ratio, hidden, loses, noise, paired_ratio, wins


class Way(enum.StrEnum):
    """How a contender is run while it is timed."""

    HOT = "hot"
    """Call after call on the same inputs, each waited for."""
    COLD = "cold"
    """The same on inputs that the caches do not hold."""
    LOOPED = "looped"
    """Many runs in a loop inside one call, which leaves out the way to the device.

    XLA launches them one by one, or replays a recorded graph, as its flags say.
    """

    @property
    def told(self) -> str:
        """What it is, in words."""
        return _TOLD[self]


_TOLD = {
    Way.HOT: "called on inputs in the caches",
    Way.COLD: "called on inputs in no cache",
    Way.LOOPED: "in a loop inside one call",
}


class Clock(enum.StrEnum):
    """Which time counts."""

    WALL = "wall"
    CPU = "cpu"
    """Of all threads of the process together: fair also where others use the machine."""


class Samples(Struct, frozen=True):
    """Seconds of one call in each round."""

    wall: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()

    def of(self, clock: Clock) -> tuple[float, ...]:
        return self.wall if clock is Clock.WALL else self.cpu

    def median(self, clock: Clock = Clock.WALL) -> float:
        return median(self.of(clock))


class Lap(Struct, frozen=True):
    """One contender's times, or why it has none."""

    name: str
    samples: Mapping[Way, Samples] = {}
    failure: Failure | None = None


class Race(Struct, frozen=True):
    """The times of all contenders, taken in turns. The first one is the incumbent."""

    laps: tuple[Lap, ...]
    again: Lap
    """The incumbent once more: what differs between the two is noise."""
    ways: tuple[Way, ...]
    """Those that were possible; inputs that are too small cannot be cold."""
    rounds: int
    """How many of them are whole."""

    def speedup(
        self, contender: int, *, over: int = 0, way: Way | None = None, clock: Clock = Clock.WALL
    ) -> Ratio | None:
        """How many times as fast as another a contender is; None where one has no times.

        The way is by default the one that decides.
        """
        base = self._times(self.laps[over], way, clock)
        other = self._times(self.laps[contender], way, clock)
        return paired_ratio(base, other) if base and other else None

    def noise(self, *, way: Way | None = None, clock: Clock = Clock.WALL) -> float | None:
        """How far from equal two runs of the incumbent seem; None where it has no times."""
        first = self._times(self.laps[0], way, clock)
        again = self._times(self.again, way, clock)
        return noise(first, again) if first and again else None

    def wins(
        self, contender: int, *, over: int = 0, way: Way | None = None, clock: Clock = Clock.WALL
    ) -> bool:
        """Says whether a contender is faster than another, above the noise and above 3 %.

        By default in the way that decides, and slower in none of the others.
        """
        ratio = self.speedup(contender, over=over, way=way, clock=clock)
        heard = self.noise(way=way, clock=clock)
        faster = ratio is not None and heard is not None and wins(ratio, heard)
        return faster and (way is not None or not self.lost(contender, over=over, clock=clock))

    def seems(self, contender: int) -> bool:
        """Says whether a contender would win if there were no noise."""
        ratio = self.speedup(contender)
        return ratio is not None and wins(ratio, 0.0) and not self.lost(contender)

    def hides(self, contender: int) -> bool:
        """Says whether noise may hide that a contender would win."""
        ratio, heard = self.speedup(contender), self.noise()
        if ratio is None or heard is None or self.wins(contender) or self.lost(contender):
            return False
        return hidden(ratio, heard)

    def lost(self, contender: int, *, over: int = 0, clock: Clock = Clock.WALL) -> tuple[Way, ...]:
        """The ways in which a contender is slower than another, above the noise."""
        found = []
        for way in self.ways:
            ratio = self.speedup(contender, over=over, way=way, clock=clock)
            heard = self.noise(way=way, clock=clock)
            if ratio is not None and heard is not None and loses(ratio, heard):
                found.append(way)
        return tuple(found)

    @property
    def deciding(self) -> Way:
        """The way that counts: a loop inside one call, where that is timed, else hot calls."""
        return Way.LOOPED if Way.LOOPED in self.ways else self.ways[0]

    def _times(self, lap: Lap, way: Way | None, clock: Clock) -> tuple[float, ...]:
        if not self.ways:
            return ()
        samples = lap.samples.get(self.deciding if way is None else way)
        return samples.of(clock) if samples is not None else ()
