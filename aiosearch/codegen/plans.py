"""A module's kernels with a schedule each, and the plans that lie beside one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from ..errors import AiosearchError
from .ir import Module
from .parameters import Choice, Point, Space, beside, choice_at, choices_of

ScheduleT = TypeVar("ScheduleT")


Some: TypeAlias = Callable[[Sequence[Choice[ScheduleT]], int], Sequence[Choice[ScheduleT]]]
"""Picks so many at most of choices that come best first."""


class Predicted(Protocol):
    """Something that should take some time."""

    @property
    def seconds(self) -> float: ...


PredictedT = TypeVar("PredictedT", bound=Predicted)


class IllegalPointError(AiosearchError):
    """No schedule is there."""


def best(ways: Sequence[Sequence[PredictedT]], most: int) -> list[PredictedT]:
    """Those that should be fastest of all ways, and the first of each at any rate."""
    firsts = [own[0] for own in ways if own]
    others = sorted((one for own in ways for one in own[1:]), key=lambda one: one.seconds)
    return sorted([*firsts, *others][:most], key=lambda one: one.seconds)


@dataclass(frozen=True, eq=False)
class Plan(Generic[ScheduleT]):
    """How each kernel of a module is to run."""

    module: Module
    choices: tuple[Choice[ScheduleT], ...]
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
class Plans(Generic[ScheduleT]):
    """Of one module."""

    module: Module
    spaces: Sequence[Space[ScheduleT]]
    """Of its kernels."""
    begun: float = 0.0

    def first(self, most: int, some: Some[ScheduleT]) -> Iterator[Plan[ScheduleT]]:
        """The best of each kernel, then one kernel's next best after the other's.

        Of a kernel's choices, `some` gives those that come first. There are none where nothing is
        to be computed, or nothing fits.
        """
        options = [some(choices_of(space), most) for space in self.spaces]
        turns = max(map(len, options), default=0) if all(options) else 0
        for turn in range(min(most, turns)):
            yield self._plan([own[min(turn, len(own) - 1)] for own in options])

    def at(self, points: Sequence[Point]) -> Plan[ScheduleT]:
        """The plan that has these points; raises IllegalPointError where one is not legal."""
        found = [choice_at(*pair) for pair in zip(self.spaces, points, strict=True)]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            raise IllegalPointError(f"{self.module.name}: no schedule is at {points}")
        return self._plan(known)

    def beside(self, points: Sequence[Point]) -> Iterator[Plan[ScheduleT]]:
        """The plans in which one kernel's schedule differs in one parameter."""
        own = self.at(points).choices
        for at, (space, point) in enumerate(zip(self.spaces, points, strict=True)):
            for other in beside(space, point):
                yield self._plan([*own[:at], other, *own[at + 1 :]])

    def _plan(self, choices: Sequence[Choice[ScheduleT]]) -> Plan[ScheduleT]:
        return Plan(self.module, tuple(choices), self.begun)
