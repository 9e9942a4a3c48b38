"""Plans: one schedule for each kernel of a module, and the neighbours of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from ...errors import AiosearchError
from ..ir import Module
from .space import (
    Point,
    ScheduleChoice,
    ScheduleSpace,
    choice_at,
    neighbouring_choices,
    ranked_choices,
)

ScheduleT = TypeVar("ScheduleT")


ChoiceSelection: TypeAlias = Callable[
    [Sequence[ScheduleChoice[ScheduleT]], int], Sequence[ScheduleChoice[ScheduleT]]
]
"""Picks so many at most of choices that come best first."""


class Predicted(Protocol):
    """Something that should take some time."""

    @property
    def seconds(self) -> float: ...


PredictedT = TypeVar("PredictedT", bound=Predicted)


class IllegalPointError(AiosearchError):
    """No schedule is there."""


def best_plans(ways: Sequence[Sequence[PredictedT]], most: int) -> list[PredictedT]:
    """Those that should be fastest of all ways, and the first of each at any rate."""
    firsts = [own[0] for own in ways if own]
    others = sorted((one for own in ways for one in own[1:]), key=lambda one: one.seconds)
    return sorted([*firsts, *others][:most], key=lambda one: one.seconds)


@dataclass(frozen=True, eq=False)
class ModulePlan(Generic[ScheduleT]):
    """How each kernel of a module is to run."""

    module: Module
    choices: tuple[ScheduleChoice[ScheduleT], ...]
    begun: float = 0.0
    """Seconds until a kernel has begun, where no prediction counts them."""

    @property
    def schedules(self) -> Mapping[str, ScheduleT]:
        pairs = zip(self.module.kernels, self.choices, strict=True)
        return {kernel.name: one.schedule for kernel, one in pairs}

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(one.point for one in self.choices)

    @property
    def parts(self) -> tuple[float, ...]:
        """Seconds that each kernel should take."""
        return tuple(one.seconds + self.begun for one in self.choices)

    @property
    def seconds(self) -> float:
        """What it should take."""
        return sum(self.parts)


@dataclass(frozen=True, eq=False)
class ModulePlans(Generic[ScheduleT]):
    """Of one module."""

    module: Module
    spaces: Sequence[ScheduleSpace[ScheduleT]]
    """Of its kernels."""
    begun: float = 0.0

    def first(self, most: int, some: ChoiceSelection[ScheduleT]) -> Iterator[ModulePlan[ScheduleT]]:
        """The best of each kernel, then one kernel's next best after the other's.

        Of a kernel's choices, `some` gives those that come first. There are none where nothing is
        to be computed, or nothing fits.
        """
        options = [some(ranked_choices(space), most) for space in self.spaces]
        turns = max(map(len, options), default=0) if all(options) else 0
        for turn in range(min(most, turns)):
            yield self._plan([own[min(turn, len(own) - 1)] for own in options])

    def at(self, points: Sequence[Point]) -> ModulePlan[ScheduleT]:
        """The plan that has these points; raises IllegalPointError where one is not legal."""
        found = [choice_at(*pair) for pair in zip(self.spaces, points, strict=True)]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            raise IllegalPointError(f"{self.module.name}: no schedule is at {points}")
        return self._plan(known)

    def beside(self, points: Sequence[Point]) -> Iterator[ModulePlan[ScheduleT]]:
        """The plans in which one kernel's schedule differs in one parameter."""
        own = self.at(points).choices
        for at, (space, point) in enumerate(zip(self.spaces, points, strict=True)):
            for other in neighbouring_choices(space, point):
                yield self._plan([*own[:at], other, *own[at + 1 :]])

    def _plan(self, choices: Sequence[ScheduleChoice[ScheduleT]]) -> ModulePlan[ScheduleT]:
        return ModulePlan(self.module, tuple(choices), self.begun)
