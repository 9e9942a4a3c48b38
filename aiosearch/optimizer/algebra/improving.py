"""From a program to cheaper ones that are equal to it."""

from __future__ import annotations

import time
from itertools import zip_longest
from typing import Any

from ...limits import Limits
from ...orders import BestFirst, Order
from ...problem import Problem
from ...search import solve
from ...tensor import Program
from ...tensor.files import from_json, to_json
from ...tensor.mugraph import RESULT
from .enumerating import Enumerating, Found
from .estimate import estimate
from .rewriting import Rewriting, Step, identity
from .tidying import Tidier

CANCELLING = frozenset({"sum_of_square", "distributed", "sum_of_sum", "sub"})
"""Rules and steps whose results may subtract large numbers that are nearly equal."""


def improve(
    program: Program,
    *,
    constant: tuple[int, ...] = (),
    seconds: float = 2.0,
    nodes: int | None = None,
    most: int = 8,
) -> list[Program]:
    """Programs estimated to be faster, the fastest first; yet to be verified.

    What the inputs at the places `constant` alone have a say in costs nothing.
    Searches in this process, until the time is spent, or the nodes by each search. Half of what is
    given came about without the rules and steps that may lose digits.
    """
    if not searchable(program):
        return []
    found = _Answers(program, constant, time.monotonic() + seconds, nodes)
    found.rewrite(found.original, 1 / 2)
    if not found.enumerate(found.best, 1 / 2):
        found.enumerate(found.original, 1)
    elif found.rewrite(found.best, 1 / 2):
        found.enumerate(found.best, 1)
    return found.chosen(most)


class _Answers:
    """What several searches have found, each going on from what those before it did."""

    def __init__(
        self, program: Program, constant: tuple[int, ...], until: float, nodes: int | None
    ) -> None:
        self.original = Step(to_json(program), estimate(program, constant), ())
        self._constant = constant
        self._until = until
        self._nodes = nodes
        self._found: dict[bytes, Step] = {}

    @property
    def best(self) -> Step:
        return min(self._found.values(), key=_order, default=self.original)

    def rewrite(self, start: Step, share: float) -> bool:
        """Searches by rules, for a share of the time that is left; whether anything is better."""
        return self._search(Rewriting(start.program, self._constant), BestFirst(), start, share)

    def enumerate(self, start: Step, share: float) -> bool:
        """Searches bottom up, for a share of the time that is left; whether anything is better."""
        problem = Enumerating(start.program, self._constant)
        return self._search(problem, BestFirst(prune=True), start, share)

    def _search(
        self, problem: Problem[Any, Step | Found], order: Order, start: Step, share: float
    ) -> bool:
        left, before = self._until - time.monotonic(), self.best
        if left <= 0:
            return False
        limits = Limits(seconds=left * share, nodes=self._nodes)
        result = solve(problem, order=order, workers=0, limits=limits, cache=None)
        for one in result.solutions:
            self._add(from_json(one.program), (*start.trail, *one.trail))
        return self.best is not before

    def _add(self, program: Program, trail: tuple[str, ...]) -> None:
        tidy = Tidier().program(program)
        step = Step(to_json(tidy), round(estimate(tidy, self._constant), 4), trail)
        known = self._found.setdefault(identity(tidy), step)
        if _order(step) < _order(known):
            self._found[identity(tidy)] = step

    def chosen(self, most: int) -> list[Program]:
        """The fastest, and of those that lose no digits the fastest."""
        best = sorted(self._found.values(), key=_order)
        safe = [step for step in best if CANCELLING.isdisjoint(step.trail)]
        turns = [step for pair in zip_longest(best, safe) for step in pair if step is not None]
        chosen = list(dict.fromkeys(turns))[:most]
        return [from_json(step.program) for step in sorted(chosen, key=_order)]


def _order(step: Step) -> tuple[float, int]:
    return step.cost, len(step.trail)


def searchable(program: Program) -> bool:
    """Whether all sizes are known and nothing is a kernel already."""
    return all(
        term.operator is not RESULT and all(isinstance(size, int) for size in term.shape)
        for term in program.terms()
    )
