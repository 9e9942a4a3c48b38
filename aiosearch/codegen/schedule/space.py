"""Schedule spaces: parameters, constraints among them, and the ranked legal points.

A point holds the position of each parameter's value among its values: with the parameters `rows` of
(1, 2, 4) and `unroll` of (1, 4), the point (2, 0) is rows 4 and unroll 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

Point: TypeAlias = tuple[int, ...]
"""The positions of the chosen values, one for each parameter."""
ParameterValues: TypeAlias = Mapping[str, Any]
"""The values of a point by the names of their parameters. A space whose parameters are fixed reads
them as a struct of its own, such as `ReductionValues`."""
ScheduleT = TypeVar("ScheduleT")


@dataclass(frozen=True)
class ScheduleParameter:
    """A free choice, such as `ScheduleParameter("unroll", (1, 4))`. The first of its values is the
    one to begin with.
    """

    name: str
    values: tuple[Any, ...]
    fine: bool = False
    """Whether its first value stands until trials say otherwise, as predictions say too little."""


@dataclass(frozen=True)
class ScheduleConstraint:
    """Which values of some parameters go together, whatever the others are.

    `ScheduleConstraint(("rows", "unroll"), lambda rows, unroll: rows * unroll <= 8)` is an
    example.
    """

    of: tuple[str, ...]
    """The names of the parameters."""
    holds: Callable[..., bool]
    """Called with the values of these parameters, in the order of `of`."""


class ScheduleSpace(Protocol[ScheduleT]):
    """The schedules of one kernel on one device, as `parameters` and `constraints`."""

    @property
    def parameters(self) -> Sequence[ScheduleParameter]: ...

    @property
    def constraints(self) -> Sequence[ScheduleConstraint]: ...

    def schedule(self, chosen: ParameterValues) -> ScheduleT:
        """The schedule of the values in `chosen`, which go together."""
        ...

    def seconds(self, schedule: ScheduleT) -> float:
        """What `schedule` should take."""
        ...


@dataclass(frozen=True)
class ScheduleChoice(Generic[ScheduleT]):
    """A point of a space that is legal, with its schedule and predicted seconds."""

    point: Point
    schedule: ScheduleT
    seconds: float


def ranked_choices(space: ScheduleSpace[ScheduleT]) -> list[ScheduleChoice[ScheduleT]]:
    """All legal choices of `space` that a prediction tells apart, the best predicted first."""
    free = [range(1 if parameter.fine else len(parameter.values)) for parameter in space.parameters]
    return _sorted(space, _legal_points(space, free))


def neighbouring_choices(
    space: ScheduleSpace[ScheduleT], point: Point
) -> list[ScheduleChoice[ScheduleT]]:
    """The legal choices that differ from `point` in one parameter, the best predicted first."""
    return _sorted(
        space, (neighbour for neighbour in _changed(space, point) if _is_legal(space, neighbour))
    )


def choice_at(space: ScheduleSpace[ScheduleT], point: Point) -> ScheduleChoice[ScheduleT] | None:
    """`point` as a choice, or None where it is not legal."""
    return _choice(space, point) if _is_legal(space, point) else None


def _legal_points(space: ScheduleSpace[ScheduleT], free: Sequence[Sequence[int]]) -> list[Point]:
    """All points whose values go together, from the positions that are `free` for each
    parameter.
    """
    names = [position.name for position in space.parameters]
    assert len({*names}) == len(names), "parameters have names of their own"
    assert all(
        constraint.of and {*constraint.of} <= {*names} for constraint in space.constraints
    ), "of parameters"
    # What is not free is known at once, and so is what does not go with it.
    order = sorted(range(len(free)), key=lambda at: len(free[at]) > 1)
    # Points grow by one parameter at a time, and a constraint is applied as soon as the last of its
    # parameters has a value. The product of all values, of which most are illegal, is never built.
    points: list[Point] = [()]
    for count, at in enumerate(order, 1):
        points = [(*point, position) for point in points for position in free[at]]
        assigned = {space.parameters[position].name for position in order[:count]}
        for constraint in space.constraints:
            if assigned >= {*constraint.of} and space.parameters[at].name in constraint.of:
                points = _cached_constraint(
                    points, constraint, [space.parameters[position] for position in order]
                )
    # Points were built in another order of parameters; this restores that of the space.
    back = [order.index(at) for at in range(len(free))]
    return [tuple(point[at] for at in back) for point in points]


def _cached_constraint(
    points: Iterable[Point], constraint: ScheduleConstraint, parameters: Sequence[ScheduleParameter]
) -> list[Point]:
    """Those of `points` at which `constraint` holds, which is asked once for each combination of
    its values.
    """
    named = {name.name: at for at, name in enumerate(parameters)}
    places = [named[name] for name in constraint.of]
    picked: Callable[[Point], Any] = itemgetter(*places)
    verdicts: dict[Any, bool] = {}
    legal = []
    for point in points:
        # Many points share the values of the few parameters that a constraint names.
        key = picked(point)
        if key not in verdicts:
            verdicts[key] = constraint.holds(*(parameters[at].values[point[at]] for at in places))
        if verdicts[key]:
            legal.append(point)
    return legal


def _is_legal(space: ScheduleSpace[ScheduleT], point: Point) -> bool:
    """Whether the values of a point go together."""
    chosen = _values(space, point)
    return all(
        constraint.holds(*(chosen[name] for name in constraint.of))
        for constraint in space.constraints
    )


def _values(space: ScheduleSpace[ScheduleT], point: Point) -> ParameterValues:
    return {
        parameter.name: parameter.values[at]
        for parameter, at in zip(space.parameters, point, strict=True)
    }


def _choice(space: ScheduleSpace[ScheduleT], point: Point) -> ScheduleChoice[ScheduleT]:
    schedule = space.schedule(_values(space, point))
    return ScheduleChoice(point, schedule, space.seconds(schedule))


def _changed(space: ScheduleSpace[ScheduleT], point: Point) -> Iterator[Point]:
    for at, parameter in enumerate(space.parameters):
        for place in range(len(parameter.values)):
            if place != point[at]:
                yield (*point[:at], place, *point[at + 1 :])


def _sorted(
    space: ScheduleSpace[ScheduleT], points: Iterable[Point]
) -> list[ScheduleChoice[ScheduleT]]:
    return sorted((_choice(space, choice) for choice in points), key=lambda choice: choice.seconds)
