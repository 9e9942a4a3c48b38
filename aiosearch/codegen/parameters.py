"""What is free in how a kernel runs: parameters with their values, and which go together.

A point holds the place of each parameter's value among its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

Point: TypeAlias = tuple[int, ...]
ScheduleT = TypeVar("ScheduleT")


@dataclass(frozen=True)
class Parameter:
    """A free choice. The first of its values is the one to begin with."""

    name: str
    values: tuple[Any, ...]
    fine: bool = False
    """Whether its first value stands until trials say otherwise, as predictions say too little."""


class Space(Protocol[ScheduleT]):
    """Of one kernel on one device."""

    @property
    def parameters(self) -> Sequence[Parameter]: ...

    def schedule(self, chosen: Mapping[str, Any]) -> ScheduleT | None:
        """What these values come to; nothing where they do not go together, or others say it."""
        ...

    def seconds(self, schedule: ScheduleT) -> float:
        """What it should take."""
        ...


@dataclass(frozen=True)
class Choice(Generic[ScheduleT]):
    """A point of a space that is legal."""

    point: Point
    schedule: ScheduleT
    seconds: float


def choices_of(space: Space[ScheduleT]) -> list[Choice[ScheduleT]]:
    """All legal ones that a prediction tells apart, the best predicted first."""
    places = [range(1 if one.fine else len(one.values)) for one in space.parameters]
    return _sorted(space, product(*places))


def beside(space: Space[ScheduleT], point: Point) -> list[Choice[ScheduleT]]:
    """The legal ones that differ in one parameter, the best predicted first."""
    return _sorted(space, _changed(space, point))


def choice_at(space: Space[ScheduleT], point: Point) -> Choice[ScheduleT] | None:
    """The point as a schedule, where it is legal."""
    values = zip(space.parameters, point, strict=True)
    found = space.schedule({one.name: one.values[place] for one, place in values})
    return None if found is None else Choice(point, found, space.seconds(found))


def _changed(space: Space[ScheduleT], point: Point) -> Iterator[Point]:
    for at, one in enumerate(space.parameters):
        for place in range(len(one.values)):
            if place != point[at]:
                yield (*point[:at], place, *point[at + 1 :])


def _sorted(space: Space[ScheduleT], points: Iterator[Point]) -> list[Choice[ScheduleT]]:
    found = [one for point in points if (one := choice_at(space, point)) is not None]
    return sorted(found, key=lambda one: one.seconds)
