"""What a search should find: a plain walk of the tree, without any of the engine."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Expected(Struct, frozen=True):
    """The answers of a complete search, which `agree_on_answers` compares."""

    nodes: int
    solutions: frozenset[Any]
    best_cost: float | None


def expected(problem: Any) -> Expected:
    """Walks the whole tree, one node for each `key`; of a problem with a `plain()`, that tree."""
    if hasattr(problem, "plain"):
        return expected(problem.plain())
    nodes, solutions = 0, set()
    seen: set[Any] = set()
    waiting = [problem.root()]
    while waiting:
        node = waiting.pop()
        if hasattr(problem, "key"):
            if problem.key(node) in seen:
                continue
            seen.add(problem.key(node))
        nodes += 1
        solutions.update(problem.solutions(node))
        waiting.extend(problem.expand(node))
    costs = map(problem.cost, solutions) if hasattr(problem, "cost") else []
    return Expected(nodes, frozenset(solutions), min(costs, default=None))
