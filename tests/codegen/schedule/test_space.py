"""Points of a space of schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from aiosearch.codegen.schedule.space import (
    ScheduleConstraint,
    ScheduleParameter,
    choice_at,
    neighbouring_choices,
    ranked_choices,
)


class Rectangles:
    """Sides that together are no longer than eight; a colour that no prediction tells apart."""

    parameters: Sequence[ScheduleParameter] = (
        ScheduleParameter("width", (1, 2, 4)),
        ScheduleParameter("height", (2, 6)),
        ScheduleParameter("colour", ("red", "blue"), fine=True),
    )
    constraints: Sequence[ScheduleConstraint] = (
        ScheduleConstraint(("height", "width"), lambda height, width: height + width <= 8),
    )

    def schedule(self, chosen: Mapping[str, Any]) -> tuple[int, int, str]:
        return chosen["width"], chosen["height"], chosen["colour"]

    def seconds(self, schedule: tuple[int, int, str]) -> float:
        width, height, _ = schedule
        return 1 / (width * height)


def test_all_legal_ones_come_best_first_and_once_for_what_is_fine() -> None:
    found = ranked_choices(Rectangles())
    assert [one.schedule[:2] for one in found] == [(2, 6), (4, 2), (1, 6), (2, 2), (1, 2)]
    assert {one.schedule[2] for one in found} == {"red"}


def test_neighbours_differ_in_one_parameter_and_are_legal() -> None:
    point = ranked_choices(Rectangles())[0].point
    found = neighbouring_choices(Rectangles(), point)
    assert [one.schedule for one in found] == [(2, 6, "blue"), (1, 6, "red"), (2, 2, "red")]
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)


def test_a_point_that_is_not_legal_is_no_choice() -> None:
    assert choice_at(Rectangles(), (2, 1, 0)) is None


class Asked:
    """Three parameters of three values; counts what it is asked."""

    parameters: Sequence[ScheduleParameter] = (
        ScheduleParameter("fine", (0, 1, 2), fine=True),
        *(ScheduleParameter(name, (0, 1, 2)) for name in "abc"),
    )

    def __init__(self) -> None:
        self.constraints = (
            ScheduleConstraint(("b", "fine"), lambda b, fine: self._asked("b", b > fine)),
            ScheduleConstraint(("a", "c"), lambda a, c: self._asked("ac", a != c)),
            ScheduleConstraint(("c", "b", "a"), lambda c, b, a: self._asked("cba", a + b + c < 5)),
        )
        self.asked: list[str] = []

    def _asked(self, name: str, holds: bool) -> bool:
        self.asked.append(name)
        return holds

    def schedule(self, chosen: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(chosen[one] for one in "abc")

    def seconds(self, schedule: tuple[int, ...]) -> float:
        return sum(schedule)


def test_what_goes_together_is_what_every_constraint_allows() -> None:
    found = [one.schedule for one in ranked_choices(Asked())]
    every = [one for one in product((0, 1, 2), repeat=3) if one[1] > 0 and one[0] != one[2]]
    assert sorted(found) == [one for one in every if sum(one) < 5]


def test_a_constraint_is_asked_once_of_the_same_values_and_of_none_that_are_out() -> None:
    space = Asked()
    ranked_choices(space)
    assert [space.asked.count(one) for one in ("b", "ac", "cba")] == [3, 9, 12]
