"""Kernel tuning: a best-first search among schedules near the fastest kernels of a race.

Kernels tuned by trials: a best-first search among schedules that a prediction orders.

A kernel that was timed says by how much the prediction is wrong around it. So what lies beside it
is expected to take as much as was predicted, times that; the least expected is tried next. In doubt
is what was changed: of several kernels, those that take long are tried in other ways first.
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
"""The prediction of a kernel that is changed may be wrong by so much."""


class TuningStart(Struct, frozen=True, tag=True):
    """All that was timed before."""


class TuningTrial(Struct, frozen=True, tag=True):
    """A kernel that might be tried."""

    place: SchedulePoint
    seconds: float
    """Expected of it."""


class TimedKernel(Struct, frozen=True, tag=True):
    """A kernel that was tried."""

    place: SchedulePoint
    seconds: float


Node: TypeAlias = TuningStart | TuningTrial | TimedKernel

Neighbours: TypeAlias = Callable[[SchedulePoint], Awaitable[Sequence[SchedulePoint]]]
"""Gives the kernels that differ in one choice from others."""
Time: TypeAlias = Callable[[SchedulePoint], Awaitable[float | None]]
"""Gives the seconds that a kernel takes; nothing where it does not run."""


class KernelTuning:
    """The problem of finding fast kernels near some that were timed."""

    lanes = 1  # a device times one thing at a time

    def __init__(self, known: Sequence[TimedKernel], beside: Neighbours, time: Time) -> None:
        self._known, self._beside, self._time = known, beside, time
        self._seen = {one.place.key for one in known}

    def root(self) -> Node:
        return TuningStart()

    async def expand(self, node: Node) -> list[Node]:
        match node:
            case TuningStart():
                return list(self._known)
            case TuningTrial(place):
                seconds = await self._time(place)
                return [] if seconds is None else [TimedKernel(place, seconds)]
            case TimedKernel(place, seconds):
                near = [one for one in await self._beside(place) if one.key not in self._seen]
                return [TuningTrial(one, seconds * _relative(one, place)) for one in near]

    def solutions(self, node: Node) -> list[TimedKernel]:
        return [node] if isinstance(node, TimedKernel) else []

    def cost(self, solution: TimedKernel) -> float:
        return solution.seconds

    def priority(self, node: Node) -> float:
        """What was timed costs nothing more."""
        return node.seconds if isinstance(node, TuningTrial) else 0.0

    def key(self, node: Node) -> str:
        return "" if isinstance(node, TuningStart) else f"{type(node).__name__} {node.place.key}"


def _relative(one: SchedulePoint, other: SchedulePoint) -> float:
    """How many times as long as the other it may take at best."""
    known = zip(one.parts, _alike(one, other), strict=True)
    least = sum(part * (1 if alike else _DOUBT) for part, alike in known)
    return least / other.seconds


def _alike(one: SchedulePoint, other: SchedulePoint) -> list[bool]:
    """Which of its kernels the other has as well, in the same place where it has as many."""
    if one.parting == other.parting:
        return [own == theirs for own, theirs in zip(one.points, other.points, strict=True)]
    theirs = {*zip(other.points, other.parts, strict=True)}
    return [own in theirs for own in zip(one.points, one.parts, strict=True)]


async def tune_from_timings(
    known: Mapping[SchedulePoint, float],
    beside: Neighbours,
    time: Time,
    trials: int,
    seconds: float,
) -> list[TimedKernel]:
    """Those that were found, the fastest first; what was known is not among them."""
    if not (known and trials):
        return []
    left = trials

    async def counted(place: SchedulePoint) -> float | None:
        nonlocal left
        if left == 0:
            search.stop("so many trials")
            return None
        left -= 1
        return await time(place)

    started = [TimedKernel(place, taken) for place, taken in known.items()]
    problem = KernelTuning(started, beside, counted)
    limits = Limits(seconds=seconds)
    async with Search(problem, order="best-first", workers=0, limits=limits, cache=None) as search:
        result = await search.wait()
    found = [one for one in result.solutions if one not in started]
    return sorted(found, key=lambda one: one.seconds)


pass

_ROUNDS = 7
_NEAR = 1.5
"""Kernels that take so many times as long as the fastest are not worth further trials."""
_BEST = 2
"""So many of those that were tried are worth a real race."""


class KernelMaker(Protocol):
    """Knows all kernels of a program, and makes those that are wanted."""

    async def beside(self, place: SchedulePoint) -> Sequence[SchedulePoint]:
        """The kernels that differ in one choice from others."""
        ...

    async def made(self, place: SchedulePoint) -> CandidateSource:
        """A contender of these kernels; raises OptimizeError where there is none."""
        ...


async def tune_kernels(
    runners: Entrants, first: RaceResult, maker: KernelMaker, budget: Budget
) -> list[CandidateSource]:
    """The best kernels near those that ran, where one of these is right, and near the fastest."""
    taken = {one: first.seconds(one) for one in first.entrants}
    best = await _promising(runners, taken) if budget.trials else None
    if best is None:
        return []
    runners.tell(f"trying kernels like {best.how}")
    trials = KernelTrials(runners, maker, best, taken[best])
    known = {one: taken[one] for one in taken if one.kernels and one not in runners.notes}
    found = await trials.run(known, budget)
    chosen = [one for one in found if found[one] < taken[best]][:_BEST]
    for one in found.keys() - set(chosen):
        runners.note([one], f"{taken[runners.original] / found[one]:.2f} times in a trial")
    new = (one for one in taken if one not in first.entrants and one not in runners.notes)
    return [*new, *chosen]


async def _promising(
    runners: Entrants, taken: dict[CandidateSource, float]
) -> CandidateSource | None:
    """The fastest kernel that the device computes as well, if it is near the fastest of all.

    Where one does not, neither do others that compute the same program, but they may be watched,
    and then are among those that were timed.
    """
    while left := [one for one in taken if one not in runners.notes]:
        one = min((one for one in left if one.kernels), key=taken.__getitem__, default=None)
        if one is None or taken[one] > _NEAR * min(map(taken.__getitem__, left)):
            break
        if await runners.agreeing(one) is not None:
            return one
        alike = [other for other in taken if other.kernels and other.form == one.form]
        runners.note(alike, f"out, as {one.how} is, which computes the same")
        instead = await runners.instead(one)
        if instead is not None and (seconds := await _timed(runners, instead, taken)) is not None:
            taken[instead] = seconds
    return None


async def _timed(
    runners: Entrants, contender: CandidateSource, taken: Mapping[CandidateSource, float]
) -> float | None:
    """What one more takes, beside the original."""
    heat = await runners.race([runners.original, contender], _ROUNDS)
    ratio = heat.race.speedup(1)
    return None if ratio is None else taken[runners.original] / ratio.median


@dataclass
class KernelTrials:
    """One after the other, as an executor comes to them."""

    runners: Entrants
    maker: KernelMaker
    best: CandidateSource
    """What all others are raced against."""
    seconds: float
    """What that takes."""
    _made: dict[SchedulePoint, CandidateSource] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    async def run(
        self, known: Mapping[CandidateSource, float], budget: Budget
    ) -> dict[CandidateSource, float]:
        """What kernels near the known ones take, the fastest first."""
        places = {one.place: taken for one, taken in known.items() if one.place is not None}
        found = await tune_from_timings(
            places, self._beside, self._time, budget.trials, budget.trial_seconds
        )
        return {self._made[one.place]: one.seconds for one in found}

    async def _beside(self, place: SchedulePoint) -> Sequence[SchedulePoint]:
        """The kernels near a place; none where the process that knows them is gone."""
        try:
            return await self.maker.beside(place)
        except OptimizeError as error:
            self._tell_once(f"no further kernels are tried: {error}")
            return ()

    def _tell_once(self, text: str) -> None:
        """What is wrong with one of many may be wrong with all of them."""
        if text not in self._told:
            self._told.add(text)
            self.runners.tell(text)

    async def _time(self, place: SchedulePoint) -> float | None:
        """What these kernels take; nothing where they do not run."""
        try:
            contender = await self.maker.made(place)
        except OptimizeError as error:
            self._tell_once(f"kernels are left out: {error}")
            return None
        contender = self.runners.fit(contender)
        self._made[place] = contender
        if not await self.runners.enter(contender):
            return None
        heat = await self.runners.race([self.best, contender], _ROUNDS)
        ratio = heat.race.speedup(1)
        return None if ratio is None else self.seconds / ratio.median
