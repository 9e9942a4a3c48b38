"""Solvers agree with trying everything, and their bounds hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiosearch.mapper.assignment.exhaustive import solve_exhaustively
from aiosearch.mapper.assignment.greedy import solve_greedily
from aiosearch.mapper.assignment.highs import relax, solve_with_highs
from aiosearch.mapper.assignment.problem import Shared, StepProblem
from aiosearch.mapper.errors import MappingError


@st.composite
def problems(draw: st.DrawFn, splits: int = 6, teams: int = 3) -> StepProblem:
    """Small numbers, so that equal splits and equal teams are common."""
    s, t = draw(st.integers(1, splits)), draw(st.integers(1, teams))
    number = st.integers(0, 4).map(float)
    private = np.array(draw(st.lists(number, min_size=s * t, max_size=s * t))).reshape(s, t)
    readers = st.lists(st.integers(0, s - 1), min_size=2, max_size=s, unique=True)
    groups = draw(st.lists(readers, max_size=3)) if s > 1 else []
    costs = [draw(st.lists(number, min_size=t, max_size=t)) for _ in groups]
    shared = tuple(
        Shared(tuple(sorted(group)), np.array(cost))
        for group, cost in zip(groups, costs, strict=True)
    )
    return StepProblem(private, shared, tuple(range(t)))


@settings(max_examples=60, deadline=None)
@given(problems())
def test_highs_finds_the_optimum(problem: StepProblem) -> None:
    """No assignment is better, none is claimed to be, and the greedy one is no better either."""
    best = solve_exhaustively(problem)
    exact = solve_with_highs(problem)
    assert exact.cost == pytest.approx(best.cost, rel=1e-6)
    assert problem.cost(exact.choice) == exact.cost
    assert exact.bound <= best.cost * (1 + 1e-6)
    assert exact.cost <= solve_greedily(problem).cost
    assert relax(problem) <= best.cost * (1 + 1e-6)


def test_what_is_alike_is_not_told_apart() -> None:
    """Sixty splits on eighty equal teams are a handful of counts, solved at once."""
    problem = StepProblem(np.full((160, 80), 1.0), (), (0,) * 80)
    assert solve_with_highs(problem).cost == 2.0


def test_shared_data_draws_readers_together() -> None:
    """Two readers of what takes long to fetch go to one team."""
    shared = (Shared((0, 1), np.array([5.0, 5.0])), Shared((2, 3), np.array([5.0, 5.0])))
    problem = StepProblem(np.ones((4, 2)), shared, (0, 0))
    choice = solve_with_highs(problem).choice
    assert choice[0] == choice[1] != choice[2] == choice[3]


def test_time_that_is_up_leaves_the_greedy_answer() -> None:
    """With no time for the integer program there is an assignment, and an honest bound."""
    rng = np.random.default_rng(0)
    problem = StepProblem(rng.random((30, 7)), (), (0,) * 7)
    hurried = solve_with_highs(problem, seconds=0.0)
    assert hurried.cost <= solve_greedily(problem).cost
    assert hurried.bound <= hurried.cost


def test_where_a_split_must_not_run_it_does_not() -> None:
    """An infinite cost forbids a team."""
    problem = StepProblem(np.array([[np.inf, 9.0], [1.0, 1.0]]), (), (0, 1))
    assert solve_with_highs(problem).choice == (1, 0)


def test_too_many_are_not_tried() -> None:
    """Trying everything is refused before it begins."""
    with pytest.raises(MappingError, match="too many"):
        solve_exhaustively(StepProblem(np.ones((40, 3)), (), (0, 0, 0)))


@settings(max_examples=30, deadline=None)
@given(problems())
def test_cpsat_finds_the_optimum(problem: StepProblem) -> None:
    """OR-tools, where it is installed, agrees up to its resolution."""
    pytest.importorskip("ortools")
    from aiosearch.mapper.assignment.cpsat import solve_with_cpsat

    assert solve_with_cpsat(problem).cost == pytest.approx(
        solve_exhaustively(problem).cost, rel=1e-6, abs=1e-9
    )
