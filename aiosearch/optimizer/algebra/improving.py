"""From a program to cheaper ones that are equal to it."""

from __future__ import annotations

from itertools import zip_longest

from ...limits import Limits
from ...search import solve
from ...tensor import Program
from ...tensor.files import from_json, to_json
from ...tensor.mugraph import RESULT
from .rewriting import Rewriting

CANCELLING = frozenset({"sum_of_square", "distributed", "sum_of_sum"})
"""Rules whose results may subtract large numbers that are nearly equal."""


def improve(
    program: Program, *, seconds: float = 2.0, nodes: int | None = None, most: int = 8
) -> list[Program]:
    """Programs estimated to be faster, the fastest first; equal by rules, and yet to be verified.

    Searches in this process, until the time or the nodes are spent. Half of what is given came
    about without the rules that may lose digits.
    """
    if not searchable(program):
        return []
    found = solve(
        Rewriting(to_json(program)),
        order="best-first",
        workers=0,
        limits=Limits(seconds=seconds, nodes=nodes),
        cache=None,
    )
    best = sorted(found.solutions, key=lambda step: (step.cost, len(step.trail)))
    safe = [step for step in best if CANCELLING.isdisjoint(step.trail)]
    turns = [step for pair in zip_longest(best, safe) for step in pair if step is not None]
    chosen = list(dict.fromkeys(turns))[:most]
    return [from_json(step.program) for step in sorted(chosen, key=lambda step: step.cost)]


def searchable(program: Program) -> bool:
    """Whether all sizes are known and nothing is a kernel already."""
    return all(
        term.operator is not RESULT and all(isinstance(size, int) for size in term.shape)
        for term in program.terms()
    )
