"""Schedule spaces: parameters, constraints among them, and the ranked legal points.

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
class ScheduleParameter:
    """A free choice. The first of its values is the one to begin with."""

    name: str
    values: tuple[Any, ...]
    fine: bool = False
    """Whether its first value stands until trials say otherwise, as predictions say too little."""


@dataclass(frozen=True)
class ScheduleConstraint:
    """Which values of some parameters go together, whatever the others are."""

    of: tuple[str, ...]
    holds: Callable[..., bool]
    """Asked with their values, in this order."""


class ScheduleSpace(Protocol[ScheduleT]):
    """Of one kernel on one device."""

    @property
    def parameters(self) -> Sequence[ScheduleParameter]: ...

    @property
    def constraints(self) -> Sequence[ScheduleConstraint]: ...

    def schedule(self, chosen: Mapping[str, Any]) -> ScheduleT:
        """What values come to that go together."""
        ...

    def seconds(self, schedule: ScheduleT) -> float:
        """What it should take."""
        ...


@dataclass(frozen=True)
class ScheduleChoice(Generic[ScheduleT]):
    """A point of a space that is legal."""

    point: Point
    schedule: ScheduleT
    seconds: float


def ranked_choices(space: ScheduleSpace[ScheduleT]) -> list[ScheduleChoice[ScheduleT]]:
    """All legal ones that a prediction tells apart, the best predicted first."""
    free = [range(1 if one.fine else len(one.values)) for one in space.parameters]
    return _sorted(space, _legal_points(space, free))


def neighbouring_choices(
    space: ScheduleSpace[ScheduleT], point: Point
) -> list[ScheduleChoice[ScheduleT]]:
    """The legal ones that differ in one parameter, the best predicted first."""
    return _sorted(space, (one for one in _changed(space, point) if _is_legal(space, one)))


def choice_at(space: ScheduleSpace[ScheduleT], point: Point) -> ScheduleChoice[ScheduleT] | None:
    """The point as a schedule, where it is legal."""
    return _choice(space, point) if _is_legal(space, point) else None


def _legal_points(space: ScheduleSpace[ScheduleT], free: Sequence[Sequence[int]]) -> list[Point]:
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
                points = _cached_constraint(points, each, [space.parameters[one] for one in order])
    back = [order.index(at) for at in range(len(free))]
    return [tuple(point[at] for at in back) for point in points]


def _cached_constraint(
    points: Iterable[Point], constraint: ScheduleConstraint, parameters: Sequence[ScheduleParameter]
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


def _is_legal(space: ScheduleSpace[ScheduleT], point: Point) -> bool:
    """Whether the values go together."""
    chosen = _values(space, point)
    return all(each.holds(*(chosen[one] for one in each.of)) for each in space.constraints)


def _values(space: ScheduleSpace[ScheduleT], point: Point) -> dict[str, Any]:
    return {one.name: one.values[at] for one, at in zip(space.parameters, point, strict=True)}


def _choice(space: ScheduleSpace[ScheduleT], point: Point) -> ScheduleChoice[ScheduleT]:
    found = space.schedule(_values(space, point))
    return ScheduleChoice(point, found, space.seconds(found))


def _changed(space: ScheduleSpace[ScheduleT], point: Point) -> Iterator[Point]:
    for at, one in enumerate(space.parameters):
        for place in range(len(one.values)):
            if place != point[at]:
                yield (*point[:at], place, *point[at + 1 :])


def _sorted(
    space: ScheduleSpace[ScheduleT], points: Iterable[Point]
) -> list[ScheduleChoice[ScheduleT]]:
    return sorted((_choice(space, one) for one in points), key=lambda one: one.seconds)
