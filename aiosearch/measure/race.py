"""Races: how contenders take turns, and what their times mean, round by round.

The problem: which of several functions is the fastest, on a machine whose clock rate, caches and
neighbours change while they are timed? Times that were taken one after the other cannot be
compared. So a race goes in rounds: in each, every contender is timed once, in an order drawn anew,
and only times of one round are compared. The incumbent (the first contender) runs twice in each
round, as two runners: what differs between these two is noise.

Three rounds of two contenders a and b, in microseconds, a' the incumbent's twin:

    a 100   b 80   a' 102        ratio a/b  1.25    a/a'  0.98
    b 79    a' 99  a  101                    1.28          1.02
    a' 140  a  139 b  112                    1.24          0.99

The third round was disturbed, and the ratios do not show it. `Race.speedup(1)` is the median of the
ratios with an interval (see `ratios`), `Race.noise()` how far from 1 the twins seem, and
`Race.wins(1)` asks that the one be above the other.

Invariants: a round counts as a whole or not at all; who fails is out with a reason and the others
go on, in rounds from the start of a fresh preparation; incumbent and twin go together. Cost: a
round is one sample for each runner and way, about a millisecond each or two runs of what is longer.
See docs/why/kernels.md.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from .candidates import Compiled, Failure
from .errors import ExecutorError
from .ratios import (
    LEAST_CALLS,
    LOUD,
    Ratio,
    farthest,
    hidden,
    loses,
    noise,
    paired_ratio,
    tail_ratio,
    wins,
)


class Way(enum.StrEnum):
    """How a contender is run while it is timed."""

    HOT = "hot"
    """Call after call on the same inputs, each waited for."""
    COLD = "cold"
    """Call after call on inputs that the caches do not hold: see `ColdInputs`."""
    LOOPED = "looped"
    """Many runs in a loop inside one call, which leaves out the way to the device.

    XLA launches them one by one, or replays a recorded graph, as its flags say.
    """
    QUEUED = "queued"
    """Several calls in flight: results are waited for when all of them have been dispatched."""
    CHAINED = "chained"
    """Each call takes something of what the one before gave, and only the last is waited for."""
    ALTERNATED = "alternated"
    """Calls by turns with other work of XLA, which has the threads and the caches in between."""
    BUSY = "busy"
    """Calls that are waited for, while another process keeps a core busy."""

    @property
    def told(self) -> str:
        """What the way is, in words."""
        return _WAY_TEXT[self]


_WAY_TEXT = {
    Way.HOT: "called on inputs in the caches",
    Way.COLD: "called on inputs in no cache",
    Way.LOOPED: "in a loop inside one call",
    Way.QUEUED: "with several calls in flight",
    Way.CHAINED: "in a chain of calls",
    Way.ALTERNATED: "by turns with other work of XLA",
    Way.BUSY: "beside a busy core",
}


class Clock(enum.StrEnum):
    """Which time counts."""

    WALL = "wall"
    CPU = "cpu"
    """CPU time of all threads of the process together: fair also where others use the machine."""


class Samples(Struct, frozen=True):
    """Seconds of one call in each round, on either `Clock`."""

    wall: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    calls: tuple[float, ...] = ()
    """Seconds of single calls by wall clock, for tails, where calls were timed one by one."""

    def of(self, clock: Clock) -> tuple[float, ...]:
        return self.wall if clock is Clock.WALL else self.cpu

    def median(self, clock: Clock = Clock.WALL) -> float:
        return median(self.of(clock))


class Lap(Struct, frozen=True):
    """One contender's times, or the `Failure` because of which it has none."""

    name: str
    samples: Mapping[Way, Samples] = {}
    failure: Failure | None = None


class Race(Struct, frozen=True):
    """The times of all contenders, taken in turns. The first one is the incumbent."""

    laps: tuple[Lap, ...]
    again: Lap
    """The incumbent once more: what differs between it and `laps[0]` is noise."""
    ways: tuple[Way, ...]
    """The ways that were possible; inputs that are too small cannot be cold."""
    rounds: int
    """How many rounds are whole."""

    def speedup(
        self, contender: int, *, over: int = 0, way: Way | None = None, clock: Clock = Clock.WALL
    ) -> Ratio | None:
        """How many times as fast as contender `over` a contender is; None where one has no
        times.

        `way` is by default the `deciding` one.
        """
        # Pairs by round: sample i of both was taken in the same round
        base = self._times(self.laps[over], way, clock)
        challenger = self._times(self.laps[contender], way, clock)
        return paired_ratio(base, challenger) if base and challenger else None

    def noise(self, *, way: Way | None = None, clock: Clock = Clock.WALL) -> float | None:
        """How far from equal two runs of the incumbent seem; None where it has no times."""
        first = self._times(self.laps[0], way, clock)
        again = self._times(self.again, way, clock)
        return noise(first, again) if first and again else None

    def wins(
        self, contender: int, *, over: int = 0, way: Way | None = None, clock: Clock = Clock.WALL
    ) -> bool:
        """Says whether a contender is faster than another, above the noise and above
        `LEAST_GAIN`.

        Without a `way`: in the `deciding` one, and slower in none of the others.
        """
        ratio = self.speedup(contender, over=over, way=way, clock=clock)
        heard = self.noise(way=way, clock=clock)
        faster = ratio is not None and heard is not None and wins(ratio, heard)
        # A gain in one way that is a loss in another is no gain: the user's calls may be of either
        # kind
        return faster and (way is not None or not self.lost(contender, over=over, clock=clock))

    def seems(self, contender: int) -> bool:
        """Says whether a contender would win if there were no noise: it is worth more rounds."""
        ratio = self.speedup(contender)
        return ratio is not None and wins(ratio, 0.0) and not self.lost(contender)

    def hides(self, contender: int) -> bool:
        """Says whether noise may hide that a contender would win, see `hidden`."""
        ratio, heard = self.speedup(contender), self.noise()
        if ratio is None or heard is None or self.wins(contender) or self.lost(contender):
            return False
        return hidden(ratio, heard)

    def lost(self, contender: int, *, over: int = 0, clock: Clock = Clock.WALL) -> tuple[Way, ...]:
        """The ways in which a contender is slower than contender `over`, above the noise."""
        ways = []
        for way in self.ways:
            ratio = self.speedup(contender, over=over, way=way, clock=clock)
            heard = self.noise(way=way, clock=clock)
            if ratio is not None and heard is not None and loses(ratio, heard):
                ways.append(way)
        return tuple(ways)

    def tail(self, contender: int, way: Way, *, over: int = 0) -> Ratio | None:
        """How many times as fast the slow calls are, see `tail_ratio`; None where there are too
        few."""
        return self._tail(self.laps[over], self.laps[contender], way)

    def lost_tails(self, contender: int) -> tuple[Way, ...]:
        """The ways in which a contender's slow calls are slower, above what its twin's differ."""
        ways = []
        for way in self.ways:
            ratio = self.tail(contender, way)
            twins = self._tail(self.laps[0], self.again, way)
            if ratio is not None and twins is not None and loses(ratio, farthest(twins)):
                ways.append(way)
        return tuple(ways)

    def _tail(self, base: Lap, challenger: Lap, way: Way) -> Ratio | None:
        calls = [lap.samples[way].calls for lap in (base, challenger) if way in lap.samples]
        if len(calls) < 2 or min(map(len, calls)) < LEAST_CALLS:
            return None
        return tail_ratio(*calls)

    def joined(self, later: Race) -> Race:
        """The rounds of this race and those of a later one of the same contenders, as one race.

        Only times of one round are compared, so that it does not matter when it was run. Who has
        failed in either has no times.
        """
        ways = tuple(way for way in self.ways if way in later.ways)
        laps = tuple(
            _joined(ours, theirs, ways) for ours, theirs in zip(self.laps, later.laps, strict=True)
        )
        again = _joined(self.again, later.again, ways)
        return Race(laps, again, ways, self.rounds + later.rounds)

    @property
    def deciding(self) -> Way:
        """The way that counts."""
        return deciding_way(self.ways)

    def _times(self, lap: Lap, way: Way | None, clock: Clock) -> tuple[float, ...]:
        if not self.ways:
            return ()
        samples = lap.samples.get(self.deciding if way is None else way)
        return samples.of(clock) if samples is not None else ()


def _joined(ours: Lap, theirs: Lap, ways: Sequence[Way]) -> Lap:
    """The times of one contender in two races, in these ways."""
    failure = ours.failure or theirs.failure
    if failure is not None:
        return Lap(ours.name, failure=failure)
    pairs = {way: (ours.samples[way], theirs.samples[way]) for way in ways}
    samples = {
        way: Samples(first.wall + then.wall, first.cpu + then.cpu, first.calls + then.calls)
        for way, (first, then) in pairs.items()
    }
    return Lap(ours.name, samples)


def deciding_way(ways: Sequence[Way]) -> Way:
    """The way that counts: `Way.LOOPED`, where that is timed, else hot calls."""
    return Way.LOOPED if Way.LOOPED in ways else ways[0]


LEAST_ROUNDS = 6
"""With fewer rounds no interval reaches `CONFIDENCE`: 1 - 2 * 0.5**6 = 0.97, and with 5 it is 0.94.
"""
ROBUST_ROUNDS = 9
"""With so many the interval leaves out the farthest round at either end: 1 - 2 * 10 * 0.5**9 is
0.96. They are run where one disturbed round of fewer would make all of them loud, but for a race in
the `deciding` way alone: that says who is worth another race."""
MOST_OUTAGES = 3
"""How often the `RaceDevice` may break down by itself before that is an error."""


class Sample(Struct, frozen=True, array_like=True):
    """Nanoseconds of one call, on both clocks."""

    wall: float
    cpu: float


class Fault(Struct, frozen=True):
    """A contender failed; the `RaceDevice` must be prepared again without it."""

    runner: int
    failure: Failure
    killed: bool = False
    """Whether its process was killed meanwhile: then it may be tried once more."""

    @property
    def final(self) -> Failure:
        """What is said of a contender that is out."""
        if not self.killed:
            return self.failure
        return replace(self.failure, message=f"in both of two tries, {self.failure.message}")


class Outage(Struct, frozen=True):
    """The `RaceDevice` broke down while nobody ran; it must be prepared again, and nobody is
    out."""

    message: str

    def count(self, outages: int) -> None:
        """Raises `ExecutorError` where it was one too many."""
        # A device that breaks down by itself again and again would otherwise be prepared for ever
        if outages > MOST_OUTAGES:
            raise ExecutorError(f"the device broke down while nothing ran: {self.message}")


class RaceDevice(Protocol):
    """Where contenders are timed. Runners are counted from 0; two may be the same contender."""

    async def prepare(
        self, runners: Sequence[Compiled], seed: int, deciding: bool
    ) -> tuple[Way, ...] | Fault | Outage:
        """Makes ready, and gives the ways in which these can be timed, or the `deciding` one."""
        ...

    async def round(self, order: Sequence[int]) -> Sequence[Sequence[Sample]] | Fault | Outage:
        """Times each runner once in every way, in this `order`; gives a row of samples for
        each way."""
        ...


async def run_race(
    stand: RaceDevice,
    contenders: Sequence[Compiled],
    seed: int,
    rounds: int,
    seconds: float | None,
    clock: Callable[[], float],
    deciding: bool = False,
    least: int = LEAST_ROUNDS,
) -> Race:
    """Runs the rounds; a contender that fails is taken out, and the others go on.

    They run in all ways, or in the `deciding` one alone; at `least` so many of them, whatever that
    takes. Raises `ExecutorError` where the `stand`
    breaks down again and again.
    """
    field = _RaceEntrants(contenders, deciding, least)
    order = random.Random(seed)
    end = None if seconds is None else clock() + seconds
    # Without an incumbent there is nothing to compare with, and the race is over
    while field.rounds < rounds and field.has_incumbent:
        # The least rounds are run whatever they cost: without them no ratio has an interval
        if end is not None and clock() >= end and field.is_enough:
            break
        await field.advance(stand, seed, order)
    return field.result()


class _RaceEntrants:
    """The runners that are left, and what they have run."""

    def __init__(
        self, contenders: Sequence[Compiled], deciding: bool, least: int = LEAST_ROUNDS
    ) -> None:
        if not contenders:
            raise ValueError("a race needs a contender")
        self._deciding = deciding
        self._least = least
        self.rounds = 0
        self._outages = 0
        # The twin is a runner of its own: same executable, own turn in every round
        self._runners = [*contenders, contenders[0]]
        self._left = list(range(len(self._runners)))
        self._failures: dict[int, Failure] = {}
        self._spared: set[Compiled] = set()
        """Contenders whose process was killed once."""
        self._ways: tuple[Way, ...] | None = None
        self._samples: dict[tuple[int, Way], list[Sample]] = {}

    @property
    def has_incumbent(self) -> bool:
        return 0 in self._left

    @property
    def is_enough(self) -> bool:
        """Whether the rounds say something, also where the machine was disturbed."""
        if self._least != LEAST_ROUNDS:  # who asks for another number means that number
            return self.rounds >= self._least
        if self.rounds < LEAST_ROUNDS or self.rounds >= ROBUST_ROUNDS:
            return self.rounds >= ROBUST_ROUNDS
        return self._deciding or (self.result().noise() or 0.0) <= LOUD

    async def advance(self, stand: RaceDevice, seed: int, order: random.Random) -> None:
        """Prepares the `stand`, or runs a round on it."""
        if self._ways is None:
            await self._prepare(stand, seed)
            return
        # Drawn anew in every round: who runs after the slowest one finds its caches and its heat
        turns = order.sample(range(len(self._left)), len(self._left))
        rows = await stand.round(turns)
        if isinstance(rows, Fault | Outage):
            self._stop(rows)
            return
        # Only now: a round that broke down leaves no samples behind
        self.rounds += 1
        for way, row in zip(self._ways, rows, strict=True):
            for turn, sample in zip(turns, row, strict=True):
                self._samples.setdefault((self._left[turn], way), []).append(sample)

    async def _prepare(self, stand: RaceDevice, seed: int) -> None:
        runners = [self._runners[runner] for runner in self._left]
        prepared = await stand.prepare(runners, seed, self._deciding)
        if isinstance(prepared, Fault | Outage):
            self._stop(prepared)
        else:
            self._ways = prepared

    def _stop(self, breakdown: Fault | Outage) -> None:
        """Has the stand prepared again, without the runner whose fault it was."""
        self._ways = None
        if isinstance(breakdown, Fault):
            if not self._spare(breakdown):
                self._drop(breakdown)
            return
        self._outages += 1
        breakdown.count(self._outages)

    def _spare(self, fault: Fault) -> bool:
        """Whether a runner stays, because its process was killed for the first time."""
        runner = self._runners[self._left[fault.runner]]
        # Killed by somebody, it may be innocent: once it is given another chance
        if not fault.killed or runner in self._spared:
            return False
        self._spared.add(runner)
        return True

    def _drop(self, fault: Fault) -> None:
        """Takes a runner out; where it is the incumbent, or its twin, both."""
        runner = self._left[fault.runner]
        twins = (0, len(self._runners) - 1)
        # Its ratios need both, and one executable that fails does so twice
        for gone in twins if runner in twins else (runner,):
            self._left.remove(gone)
            self._failures[gone] = fault.final

    def result(self) -> Race:
        laps = [self._lap(runner) for runner in range(len(self._runners))]
        # In the order of `Way`, whatever order the device gave them in
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
