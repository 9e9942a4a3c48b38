"""Kernels tuned by trials: a best-first search among schedules that a prediction orders.

A kernel that was timed says by how much the prediction is wrong around it. So what lies beside it
is expected to take as much as was predicted, times that; the least expected is tried next. In doubt
is what was changed: of several kernels, those that take long are tried in other ways first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from ..limits import Limits
from ..search import Search
from .places import Place

_DOUBT = 0.85
"""The prediction of a kernel that is changed may be wrong by so much."""


class Start(Struct, frozen=True, tag=True):
    """All that was timed before."""


class Trial(Struct, frozen=True, tag=True):
    """A kernel that might be tried."""

    place: Place
    seconds: float
    """Expected of it."""


class Timed(Struct, frozen=True, tag=True):
    """A kernel that was tried."""

    place: Place
    seconds: float


Node: TypeAlias = Start | Trial | Timed

Beside: TypeAlias = Callable[[Place], Awaitable[Sequence[Place]]]
"""Gives the kernels that differ in one choice from others."""
Time: TypeAlias = Callable[[Place], Awaitable[float | None]]
"""Gives the seconds that a kernel takes; nothing where it does not run."""


class Tuning:
    """The problem of finding fast kernels near some that were timed."""

    lanes = 1  # a device times one thing at a time

    def __init__(self, known: Sequence[Timed], beside: Beside, time: Time) -> None:
        self._known, self._beside, self._time = known, beside, time
        self._seen = {one.place.key for one in known}

    def root(self) -> Node:
        return Start()

    async def expand(self, node: Node) -> list[Node]:
        match node:
            case Start():
                return list(self._known)
            case Trial(place):
                seconds = await self._time(place)
                return [] if seconds is None else [Timed(place, seconds)]
            case Timed(place, seconds):
                near = [one for one in await self._beside(place) if one.key not in self._seen]
                return [Trial(one, seconds * _relative(one, place)) for one in near]

    def solutions(self, node: Node) -> list[Timed]:
        return [node] if isinstance(node, Timed) else []

    def cost(self, solution: Timed) -> float:
        return solution.seconds

    def priority(self, node: Node) -> float:
        """What was timed costs nothing more."""
        return node.seconds if isinstance(node, Trial) else 0.0

    def key(self, node: Node) -> str:
        return "" if isinstance(node, Start) else f"{type(node).__name__} {node.place.key}"


def _relative(one: Place, other: Place) -> float:
    """How many times as long as the other it may take at best."""
    known = zip(one.parts, _alike(one, other), strict=True)
    least = sum(part * (1 if alike else _DOUBT) for part, alike in known)
    return least / other.seconds


def _alike(one: Place, other: Place) -> list[bool]:
    """Which of its kernels the other has as well, in the same place where it has as many."""
    if one.parting == other.parting:
        return [own == theirs for own, theirs in zip(one.points, other.points, strict=True)]
    theirs = {*zip(other.points, other.parts, strict=True)}
    return [own in theirs for own in zip(one.points, one.parts, strict=True)]


async def tuned(
    known: Mapping[Place, float], beside: Beside, time: Time, trials: int, seconds: float
) -> list[Timed]:
    """Those that were found, the fastest first; what was known is not among them."""
    if not (known and trials):
        return []
    left = trials

    async def counted(place: Place) -> float | None:
        nonlocal left
        if left == 0:
            search.stop("so many trials")
            return None
        left -= 1
        return await time(place)

    started = [Timed(place, taken) for place, taken in known.items()]
    problem = Tuning(started, beside, counted)
    limits = Limits(seconds=seconds)
    async with Search(problem, order="best-first", workers=0, limits=limits, cache=None) as search:
        result = await search.wait()
    found = [one for one in result.solutions if one not in started]
    return sorted(found, key=lambda one: one.seconds)
