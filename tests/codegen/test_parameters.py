"""Points of a space of schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiosearch.codegen.parameters import Parameter, beside, choice_at, choices_of


class Rectangles:
    """Sides that together are no longer than eight; a colour that no prediction tells apart."""

    parameters: Sequence[Parameter] = (
        Parameter("width", (1, 2, 4)),
        Parameter("height", (2, 6)),
        Parameter("colour", ("red", "blue"), fine=True),
    )

    def schedule(self, chosen: Mapping[str, Any]) -> tuple[int, int, str] | None:
        width, height, colour = chosen["width"], chosen["height"], chosen["colour"]
        return (width, height, colour) if width + height <= 8 else None

    def seconds(self, schedule: tuple[int, int, str]) -> float:
        width, height, _ = schedule
        return 1 / (width * height)


def test_all_legal_ones_come_best_first_and_once_for_what_is_fine() -> None:
    found = choices_of(Rectangles())
    assert [one.schedule[:2] for one in found] == [(2, 6), (4, 2), (1, 6), (2, 2), (1, 2)]
    assert {one.schedule[2] for one in found} == {"red"}


def test_neighbours_differ_in_one_parameter_and_are_legal() -> None:
    point = choices_of(Rectangles())[0].point
    found = beside(Rectangles(), point)
    assert [one.schedule for one in found] == [(2, 6, "blue"), (1, 6, "red"), (2, 2, "red")]
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)


def test_a_point_that_is_not_legal_is_no_choice() -> None:
    assert choice_at(Rectangles(), (2, 1, 0)) is None
