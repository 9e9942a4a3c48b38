"""What is free in how a kernel runs: parameters with their values, and which go together.

A point holds the place of each parameter's value among its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
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


@dataclass(frozen=True)
class Constraint:
    """Which values of some parameters go together, whatever the others are."""

    of: tuple[str, ...]
    holds: Callable[..., bool]
    """Asked with their values, in this order."""


class Space(Protocol[ScheduleT]):
    """Of one kernel on one device."""

    @property
    def parameters(self) -> Sequence[Parameter]: ...

    @property
    def constraints(self) -> Sequence[Constraint]: ...

    def schedule(self, chosen: Mapping[str, Any]) -> ScheduleT:
        """What values come to that go together."""
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
    free = [range(1 if one.fine else len(one.values)) for one in space.parameters]
    return _sorted(space, _together(space, free))


def beside(space: Space[ScheduleT], point: Point) -> list[Choice[ScheduleT]]:
    """The legal ones that differ in one parameter, the best predicted first."""
    return _sorted(space, (one for one in _changed(space, point) if _goes(space, one)))


def choice_at(space: Space[ScheduleT], point: Point) -> Choice[ScheduleT] | None:
    """The point as a schedule, where it is legal."""
    return _choice(space, point) if _goes(space, point) else None


def _together(space: Space[ScheduleT], free: Sequence[Sequence[int]]) -> list[Point]:
    """All points whose values go together: what cannot is left out as soon as that is certain."""
    names = [one.name for one in space.parameters]
    assert len({*names}) == len(names), "parameters have names of their own"
    assert all(each.of and {*each.of} <= {*names} for each in space.constraints), "of parameters"
    # What is not free is known at once, and so is what does not go with it.
    order = sorted(range(len(free)), key=lambda at: len(free[at]) > 1)
    points: list[Point] = [()]
    for count, at in enumerate(order, 1):
        points = [(*point, one) for point in points for one in free[at]]
        known = {space.parameters[one].name for one in order[:count]}
        for each in space.constraints:
            if known >= {*each.of} and space.parameters[at].name in each.of:
                points = _kept(points, each, [space.parameters[one] for one in order])
    back = [order.index(at) for at in range(len(free))]
    return [tuple(point[at] for at in back) for point in points]


def _kept(
    points: Iterable[Point], constraint: Constraint, parameters: Sequence[Parameter]
) -> list[Point]:
    """Those of whose values it holds, of which each is asked once."""
    named = {one.name: at for at, one in enumerate(parameters)}
    places = [named[one] for one in constraint.of]
    picked: Callable[[Point], Any] = itemgetter(*places)
    known: dict[Any, bool] = {}
    found = []
    for point in points:
        key = picked(point)
        if key not in known:
            known[key] = constraint.holds(*(parameters[at].values[point[at]] for at in places))
        if known[key]:
            found.append(point)
    return found


def _goes(space: Space[ScheduleT], point: Point) -> bool:
    """Whether the values go together."""
    chosen = _values(space, point)
    return all(each.holds(*(chosen[one] for one in each.of)) for each in space.constraints)


def _values(space: Space[ScheduleT], point: Point) -> dict[str, Any]:
    return {one.name: one.values[at] for one, at in zip(space.parameters, point, strict=True)}


def _choice(space: Space[ScheduleT], point: Point) -> Choice[ScheduleT]:
    found = space.schedule(_values(space, point))
    return Choice(point, found, space.seconds(found))


def _changed(space: Space[ScheduleT], point: Point) -> Iterator[Point]:
    for at, one in enumerate(space.parameters):
        for place in range(len(one.values)):
            if place != point[at]:
                yield (*point[:at], place, *point[at + 1 :])


def _sorted(space: Space[ScheduleT], points: Iterable[Point]) -> list[Choice[ScheduleT]]:
    return sorted((_choice(space, one) for one in points), key=lambda one: one.seconds)
