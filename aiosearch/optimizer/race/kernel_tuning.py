"""Kernel tuning: a best-first search among schedules near the fastest kernels of a race.

Problem: a program has thousands of schedules, a prediction of their times that is wrong by a factor
that varies slowly among them, and time for `Budget.trials` measurements.

Example: a kernel predicted at 100 µs took 150. A neighbour predicted at 80 is expected to take 150
· 80 · `_DOUBT` / 100 = 102 µs at best. Another kernel took 90 µs as predicted; its neighbour
predicted at 100 is expected to take 85, and is timed first.

A kernel that was timed says by how much the prediction is wrong around it. In doubt is only what
was changed: of a program with several kernels those that take long are changed first, since
`_DOUBT` of a large part is most.

Invariant: a schedule is timed once (`SchedulePoint.key`), and the device times one thing at a time
(`lanes`).

Cost: `Budget.trials` races of `_ROUNDS` rounds against the best kernel. docs/why/kernels.md shows
what a schedule decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from msgspec import Struct

from ...limits import Limits
from ...search import Search
from ..candidates.generation import CandidateSource
from ..candidates.schedule_point import SchedulePoint
from ..effort import Budget
from ..errors import OptimizeError
from .entrants import Entrants
from .selection import RaceResult

_DOUBT = 0.85
"""The share of its prediction that a changed kernel may take at best."""


class TuningStart(Struct, frozen=True, tag=True):
    """The root: all that was timed before."""


class TuningTrial(Struct, frozen=True, tag=True):
    """A schedule that might be tried."""

    place: SchedulePoint
    seconds: float
    """What it is expected to take at best."""


class TimedKernel(Struct, frozen=True, tag=True):
    """A schedule that was tried."""

    place: SchedulePoint
    seconds: float
    """What it took; of a trial, by its ratio to the best kernel of the first race."""


Node: TypeAlias = TuningStart | TuningTrial | TimedKernel

Neighbours: TypeAlias = Callable[[SchedulePoint], Awaitable[Sequence[SchedulePoint]]]
"""Gives the schedules that differ in one choice from another."""
Time: TypeAlias = Callable[[SchedulePoint], Awaitable[float | None]]
"""Gives the seconds that a schedule takes; `None` where it does not run."""


class KernelTuning:
    """The problem of finding fast schedules near some that were timed, for `Search` with
    `order="best-first"`."""

    lanes = 1  # a device times one thing at a time

    def __init__(self, timed: Sequence[TimedKernel], neighbours: Neighbours, time: Time) -> None:
        self._known, self._neighbours, self._time = timed, neighbours, time
        self._seen = {kernel.place.key for kernel in timed}

    def root(self) -> Node:
        return TuningStart()

    async def expand(self, node: Node) -> list[Node]:
        """What was timed before; or the time of a trial; or the neighbours of a timed schedule that
        are new."""
        match node:
            case TuningStart():
                return list(self._known)
            case TuningTrial(place):
                seconds = await self._time(place)
                return [] if seconds is None else [TimedKernel(place, seconds)]
            case TimedKernel(place, seconds):
                near = [
                    neighbour
                    for neighbour in await self._neighbours(place)
                    if neighbour.key not in self._seen
                ]
                return [
                    TuningTrial(neighbour, seconds * _relative(neighbour, place))
                    for neighbour in near
                ]

    def solutions(self, node: Node) -> list[TimedKernel]:
        return [node] if isinstance(node, TimedKernel) else []

    def cost(self, solution: TimedKernel) -> float:
        return solution.seconds

    def priority(self, node: Node) -> float:
        """The seconds that are expected: what was timed already costs nothing more, and is expanded
        at once."""
        return node.seconds if isinstance(node, TuningTrial) else 0.0

    def key(self, node: Node) -> str:
        return "" if isinstance(node, TuningStart) else f"{type(node).__name__} {node.place.key}"


def _relative(candidate: SchedulePoint, reference: SchedulePoint) -> float:
    """How many times as long as `reference` the candidate may take at best."""
    parts = zip(candidate.parts, _alike(candidate, reference), strict=True)
    least = sum(part * (1 if alike else _DOUBT) for part, alike in parts)
    return least / reference.seconds


def _alike(candidate: SchedulePoint, reference: SchedulePoint) -> list[bool]:
    """Which of its kernels the reference has as well, at the same place where it has as many
    kernels."""
    if candidate.parting == reference.parting:
        return [
            ours == theirs for ours, theirs in zip(candidate.points, reference.points, strict=True)
        ]
    theirs = {*zip(reference.points, reference.parts, strict=True)}
    return [ours in theirs for ours in zip(candidate.points, candidate.parts, strict=True)]


async def tune_from_timings(
    timings: Mapping[SchedulePoint, float],
    neighbours: Neighbours,
    time: Time,
    trials: int,
    seconds: float,
) -> list[TimedKernel]:
    """Schedules that were tried near those of `timings`, the fastest first; those of `timings` are
    not among them."""
    if not (timings and trials):
        return []
    left = trials

    async def counted(place: SchedulePoint) -> float | None:
        nonlocal left
        if left == 0:
            # Not a limit of nodes: neighbours that wait are nodes too, and cost nothing.
            search.stop("so many trials")
            return None
        left -= 1
        return await time(place)

    started = [TimedKernel(place, timing) for place, timing in timings.items()]
    problem = KernelTuning(started, neighbours, counted)
    limits = Limits(seconds=seconds)
    # The search itself costs microseconds a node; the device is what is waited for, so it runs in
    # this loop.
    async with Search(problem, order="best-first", workers=0, limits=limits, cache=None) as search:
        result = await search.wait()
    improved = [kernel for kernel in result.solutions if kernel not in started]
    return sorted(improved, key=lambda kernel: kernel.seconds)


_ROUNDS = 7
"""Rounds of a trial: enough to tell a gain of some percent, which a real race confirms."""
_NEAR = 1.5
"""Kernels that take this many times as long as the fastest candidate are not worth
further trials."""
_BEST = 2
"""How many of those that were tried are worth a real race."""


class KernelMaker(Protocol):
    """Knows all kernels of a program, and writes those that are asked for: `GenerationProcess` is
    one."""

    async def neighbours(self, place: SchedulePoint) -> Sequence[SchedulePoint]:
        """The schedules that differ in one choice from `place`."""
        ...

    async def contender(self, place: SchedulePoint) -> CandidateSource:
        """A source with these kernels; raises `OptimizeError` where there is none."""
        ...


async def tune_kernels(
    entrants: Entrants, first: RaceResult, maker: KernelMaker, budget: Budget
) -> list[CandidateSource]:
    """The best kernels near those of the first race, where one of these is right, and near the
    fastest."""
    timings = {contender: first.seconds(contender) for contender in first.entrants}
    best = await _promising(entrants, timings) if budget.trials else None
    if best is None:
        return []
    entrants.tell(f"trying kernels like {best.how}")
    trials = KernelTrials(entrants, maker, best, timings[best])
    kernels = {
        contender: timings[contender]
        for contender in timings
        if contender.kernels and contender not in entrants.notes
    }
    trial_seconds = await trials.run(kernels, budget)
    chosen = [contender for contender in trial_seconds if trial_seconds[contender] < timings[best]][
        :_BEST
    ]
    for contender in trial_seconds.keys() - set(chosen):
        entrants.note(
            [contender],
            f"{timings[entrants.original] / trial_seconds[contender]:.2f} times in a trial",
        )
    # Watched kernels that `_promising` added; the first race has not seen them.
    new = (
        contender
        for contender in timings
        if contender not in first.entrants and contender not in entrants.notes
    )
    return [*new, *chosen]


async def _promising(
    entrants: Entrants, timings: dict[CandidateSource, float]
) -> CandidateSource | None:
    """The fastest kernel that the device computes accurately, if it is near the fastest of all.

    Where one does not, neither do others of its form; but they may be watched, and are then timed
    here.
    """
    while left := [fastest for fastest in timings if fastest not in entrants.notes]:
        fastest = min(
            (fastest for fastest in left if fastest.kernels), key=timings.__getitem__, default=None
        )
        if fastest is None or timings[fastest] > _NEAR * min(map(timings.__getitem__, left)):
            break
        if await entrants.agreeing(fastest) is not None:
            return fastest
        # The rounding of a kernel is that of its program: another schedule adds up the same
        # numbers.
        alike = [
            contender
            for contender in timings
            if contender.kernels and contender.form == fastest.form
        ]
        entrants.note(alike, f"out, as {fastest.how} is, which computes the same")
        instead = await entrants.instead(fastest)
        if (
            instead is not None
            and (seconds := await _timed(entrants, instead, timings)) is not None
        ):
            timings[instead] = seconds
    return None


async def _timed(
    entrants: Entrants, contender: CandidateSource, timings: Mapping[CandidateSource, float]
) -> float | None:
    """Seconds of one more contender, by a race against the original."""
    # By the ratio to the original: what the first race took was on another minute's clock.
    race_result = await entrants.race([entrants.original, contender], _ROUNDS)
    ratio = race_result.race.speedup(1)
    return None if ratio is None else timings[entrants.original] / ratio.median


@dataclass
class KernelTrials:
    """The trials of one program, one after the other, as an executor comes to them."""

    entrants: Entrants
    maker: KernelMaker
    best: CandidateSource
    """The kernel that all others are raced against: the clock of the machine cancels."""
    seconds: float
    """What `best` takes."""
    _made: dict[SchedulePoint, CandidateSource] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    async def run(
        self, kernels: Mapping[CandidateSource, float], budget: Budget
    ) -> dict[CandidateSource, float]:
        """What kernels near the given ones take, the fastest first."""
        places = {
            contender.place: timing
            for contender, timing in kernels.items()
            if contender.place is not None
        }
        timed = await tune_from_timings(
            places, self._neighbours, self._time, budget.trials, budget.trial_seconds
        )
        return {self._made[kernel.place]: kernel.seconds for kernel in timed}

    async def _neighbours(self, place: SchedulePoint) -> Sequence[SchedulePoint]:
        """The schedules near `place`; none where the process that knows them is gone."""
        try:
            return await self.maker.neighbours(place)
        except OptimizeError as error:
            self._tell_once(f"no further kernels are tried: {error}")
            return ()

    def _tell_once(self, text: str) -> None:
        """Tells it the first time: what is wrong with one of many may be wrong with all of them."""
        if text not in self._told:
            self._told.add(text)
            self.entrants.tell(text)

    async def _time(self, place: SchedulePoint) -> float | None:
        """The seconds of these kernels; `None` where they do not run."""
        try:
            contender = await self.maker.contender(place)
        except OptimizeError as error:
            self._tell_once(f"kernels are left out: {error}")
            return None
        contender = self.entrants.fit(contender)
        # Before it is entered: a kernel that fails is not written again.
        self._made[place] = contender
        if not await self.entrants.enter(contender):
            return None
        race_result = await self.entrants.race([self.best, contender], _ROUNDS)
        ratio = race_result.race.speedup(1)
        return None if ratio is None else self.seconds / ratio.median
