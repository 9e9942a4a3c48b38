"""Tries every assignment: the judge of the other solvers, for a handful of splits."""

from __future__ import annotations

import itertools

from ..errors import MappingError
from .problem import Solution, StepProblem

MAX_CHOICES = 2_000_000


def solve_exhaustively(problem: StepProblem) -> Solution:
    """The best of teams ** splits assignments; raises MappingError above two million."""
    if problem.teams**problem.splits > MAX_CHOICES:
        raise MappingError(
            f"{problem.splits} splits on {problem.teams} teams are too many to try them all"
        )
    best = min(
        itertools.product(range(problem.teams), repeat=problem.splits), key=problem.cost, default=()
    )
    cost = problem.cost(best)
    return Solution(best, cost, cost)
