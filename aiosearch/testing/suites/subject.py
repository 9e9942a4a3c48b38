"""The strategy under test, made anew for each search; what a search should find, by a plain walk of
the tree without any of the engine; and the words for what is wrong with it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...engine.worker.work_sharing import create_board, exchange_of
from ...problem import AnyProblem
from ...result import Result, SearchStatus
from ...search import Search
from ...strategies import Plan, Strategy, find_strategy
from ..virtual.simulation import Simulation, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...strategies import Board


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


@dataclass(frozen=True)
class StrategyUnderTest:
    """A strategy by name, as an object, or as what makes one when it is called; and its options."""

    strategy: str | Strategy | Callable[..., Strategy]
    options: Mapping[str, Any] = field(default_factory=dict)

    def made(self) -> Strategy:
        """Makes the strategy; one serves one search."""
        if isinstance(self.strategy, str):
            return find_strategy(self.strategy, self.options)
        if callable(self.strategy):
            return find_strategy(self.strategy(**self.options))
        return find_strategy(copy.deepcopy(self.strategy), self.options)

    def board(self, places: int) -> Board | None:
        """Makes the board that it names for a search that shares; None where it names none."""
        strategy = self.made()
        strategy.start(Plan(places, ordered=False))
        name = exchange_of(strategy)
        return create_board(name, places) if name else None

    def search(self, problem: AnyProblem, **arguments: Any) -> Search[Any, Any]:
        """Prepares a `Search` with the strategy."""
        return Search(problem, strategy=self.made(), **arguments)

    def simulate(self, problem: AnyProblem, workers: int, **arguments: Any) -> Simulation:
        """Runs the strategy on a virtual clock, by `simulate`."""
        return simulate(self.made(), problem, workers, **arguments)


def agree(what: str, actual: object, expected: object) -> None:
    """Raises `AssertionError` unless both are equal."""
    if actual != expected:
        raise AssertionError(f"{what} {_short(actual)}, not {_short(expected)}")


def agree_on_answers(what: str, result: Result[Any] | Simulation, expected: Expected) -> None:
    """Raises `AssertionError` unless a search of the whole tree found what it should."""
    nodes = result.statistics.nodes if isinstance(result, Result) else result.nodes
    agree(f"{what}: the number of nodes is", nodes, expected.nodes)
    agree(f"{what}: the solutions are", sorted(result.solutions), sorted(expected.solutions))


def agree_on_end(what: str, result: Result[Any], status: SearchStatus) -> None:
    """Raises `AssertionError` unless a search ended as it should; what made it fail, if it did,
    is noted."""
    if result.error is not None:
        raise result.error
    agree(f"{what}: it ended as", result.status, status)
    if status is SearchStatus.COMPLETE:
        agree(f"{what}: the number of open subtrees is", result.statistics.open, 0)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
