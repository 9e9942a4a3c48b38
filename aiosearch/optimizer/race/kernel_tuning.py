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

    def __init__(self, timed: Sequence[TimedKernel], beside: Neighbours, time: Time) -> None:
        self._known, self._beside, self._time = timed, beside, time
        self._seen = {kernel.place.key for kernel in timed}

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
                near = [
                    neighbour
                    for neighbour in await self._beside(place)
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
        """What was timed costs nothing more."""
        return node.seconds if isinstance(node, TuningTrial) else 0.0

    def key(self, node: Node) -> str:
        return "" if isinstance(node, TuningStart) else f"{type(node).__name__} {node.place.key}"


def _relative(candidate: SchedulePoint, reference: SchedulePoint) -> float:
    """How many times as long as the other it may take at best."""
    parts = zip(candidate.parts, _alike(candidate, reference), strict=True)
    least = sum(part * (1 if alike else _DOUBT) for part, alike in parts)
    return least / reference.seconds


def _alike(candidate: SchedulePoint, reference: SchedulePoint) -> list[bool]:
    """Which of its kernels the other has as well, in the same place where it has as many."""
    if candidate.parting == reference.parting:
        return [
            ours == theirs for ours, theirs in zip(candidate.points, reference.points, strict=True)
        ]
    theirs = {*zip(reference.points, reference.parts, strict=True)}
    return [ours in theirs for ours in zip(candidate.points, candidate.parts, strict=True)]


async def tune_from_timings(
    timings: Mapping[SchedulePoint, float],
    beside: Neighbours,
    time: Time,
    trials: int,
    seconds: float,
) -> list[TimedKernel]:
    """Those that were found, the fastest first; what was known is not among them."""
    if not (timings and trials):
        return []
    left = trials

    async def counted(place: SchedulePoint) -> float | None:
        nonlocal left
        if left == 0:
            search.stop("so many trials")
            return None
        left -= 1
        return await time(place)

    started = [TimedKernel(place, timing) for place, timing in timings.items()]
    problem = KernelTuning(started, beside, counted)
    limits = Limits(seconds=seconds)
    async with Search(problem, order="best-first", workers=0, limits=limits, cache=None) as search:
        result = await search.wait()
    improved = [kernel for kernel in result.solutions if kernel not in started]
    return sorted(improved, key=lambda kernel: kernel.seconds)


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

    async def contender(self, place: SchedulePoint) -> CandidateSource:
        """A contender of these kernels; raises OptimizeError where there is none."""
        ...


async def tune_kernels(
    runners: Entrants, first: RaceResult, maker: KernelMaker, budget: Budget
) -> list[CandidateSource]:
    """The best kernels near those that ran, where one of these is right, and near the fastest."""
    timings = {contender: first.seconds(contender) for contender in first.entrants}
    best = await _promising(runners, timings) if budget.trials else None
    if best is None:
        return []
    runners.tell(f"trying kernels like {best.how}")
    trials = KernelTrials(runners, maker, best, timings[best])
    kernels = {
        contender: timings[contender]
        for contender in timings
        if contender.kernels and contender not in runners.notes
    }
    trial_seconds = await trials.run(kernels, budget)
    chosen = [contender for contender in trial_seconds if trial_seconds[contender] < timings[best]][
        :_BEST
    ]
    for contender in trial_seconds.keys() - set(chosen):
        runners.note(
            [contender],
            f"{timings[runners.original] / trial_seconds[contender]:.2f} times in a trial",
        )
    new = (
        contender
        for contender in timings
        if contender not in first.entrants and contender not in runners.notes
    )
    return [*new, *chosen]


async def _promising(
    runners: Entrants, timings: dict[CandidateSource, float]
) -> CandidateSource | None:
    """The fastest kernel that the device computes as well, if it is near the fastest of all.

    Where one does not, neither do others that compute the same program, but they may be watched,
    and then are among those that were timed.
    """
    while left := [fastest for fastest in timings if fastest not in runners.notes]:
        fastest = min(
            (fastest for fastest in left if fastest.kernels), key=timings.__getitem__, default=None
        )
        if fastest is None or timings[fastest] > _NEAR * min(map(timings.__getitem__, left)):
            break
        if await runners.agreeing(fastest) is not None:
            return fastest
        alike = [
            contender
            for contender in timings
            if contender.kernels and contender.form == fastest.form
        ]
        runners.note(alike, f"out, as {fastest.how} is, which computes the same")
        instead = await runners.instead(fastest)
        if instead is not None and (seconds := await _timed(runners, instead, timings)) is not None:
            timings[instead] = seconds
    return None


async def _timed(
    runners: Entrants, contender: CandidateSource, timings: Mapping[CandidateSource, float]
) -> float | None:
    """What one more takes, beside the original."""
    heat = await runners.race([runners.original, contender], _ROUNDS)
    ratio = heat.race.speedup(1)
    return None if ratio is None else timings[runners.original] / ratio.median


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
        self, kernels: Mapping[CandidateSource, float], budget: Budget
    ) -> dict[CandidateSource, float]:
        """What kernels near the known ones take, the fastest first."""
        places = {
            contender.place: timing
            for contender, timing in kernels.items()
            if contender.place is not None
        }
        timed = await tune_from_timings(
            places, self._beside, self._time, budget.trials, budget.trial_seconds
        )
        return {self._made[kernel.place]: kernel.seconds for kernel in timed}

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
            contender = await self.maker.contender(place)
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
