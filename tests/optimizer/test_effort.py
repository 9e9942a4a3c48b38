"""What an effort spends, and on which steps."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from aiosearch.optimizer.effort import (
    BUDGETS,
    NO_DEADLINE,
    UNFINISHED,
    Budget,
    Deadline,
    Effort,
    effort_name,
    effort_step,
    effort_steps,
    named_step,
)

SMALL = Budget(0.1, 1, 2, 9, 0.5, 1, 1)
ODD = Budget(2.5, 3, 6, 45, 4.0, 3, 4)


@pytest.mark.parametrize("effort", [*Effort, SMALL, ODD])
def test_each_step_spends_more_than_the_one_before_and_the_last_the_effort(
    effort: Effort | Budget,
) -> None:
    steps = effort_steps(effort)
    assert steps[-1] == effort_step(effort)
    for lower, higher in itertools.pairwise(steps):
        assert higher.covers(lower)
        assert not lower.covers(higher)


def test_a_search_begins_with_a_brief_look() -> None:
    assert [step.name for step in effort_steps(Effort.EXHAUSTIVE)] == [
        UNFINISHED,
        "default",
        "exhaustive",
    ]
    assert [step.name for step in effort_steps(Effort.DEFAULT)] == [UNFINISHED, "default"]


@pytest.mark.parametrize("effort", [Effort.QUICK, SMALL])
def test_what_is_no_more_than_quick_is_spent_at_once(effort: Effort | Budget) -> None:
    assert effort_steps(effort) == (effort_step(effort),)


@pytest.mark.parametrize("effort", [*Effort, SMALL, ODD])
def test_the_name_of_an_effort_says_what_was_spent(effort: Effort | Budget) -> None:
    assert named_step(effort_name(effort)) == effort_step(effort)


def test_a_budget_with_the_figures_of_a_word_goes_by_the_word() -> None:
    assert effort_name(msgspec.structs.replace(BUDGETS[Effort.QUICK])) == "quick"


@pytest.mark.parametrize("name", ["", "much", "forms=3", "forms=many search_seconds=1"])
def test_an_answer_of_an_unknown_effort_is_searched_again(name: str) -> None:
    assert not named_step(name).covers(effort_step(SMALL))


@pytest.mark.parametrize(
    "figure", ["search_seconds", "proof_seconds", "race_seconds", "trial_seconds", "seconds"]
)
def test_the_seconds_of_each_effort_are_documented(figure: str) -> None:
    """In the reference, in the order of the words."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "optimize.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith("|") and f"`{figure}`" in line)
    cells = [float(cell) for cell in row.split("|")[2:5]]
    assert cells == [getattr(BUDGETS[effort], figure) for effort in Effort]


def test_a_part_of_a_deadline_is_over_before_all_of_it() -> None:
    whole = Deadline.after(1000.0)
    half = whole.part(0.5)
    assert half.at == pytest.approx(whole.at - 500.0, abs=10.0)
    assert not half.passed
    assert Deadline.after(0.0).passed
    assert Deadline.after(0.0).part(0.5).left == 0.0
    assert NO_DEADLINE.part(0.5) == NO_DEADLINE


def test_the_seconds_of_all_programs_say_nothing_of_how_deeply_one_is_searched() -> None:
    quick = BUDGETS[Effort.QUICK]
    brief = effort_step(msgspec.structs.replace(quick, seconds=1.0))
    assert brief.covers(effort_step(quick))
    assert effort_step(quick).covers(brief)
