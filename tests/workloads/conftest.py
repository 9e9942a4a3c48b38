"""Plain sequential drivers, against which every count is stated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import z3
from msgspec import Struct

from aiosearch.workloads import Superopt


def nodes_of(problem: Any) -> Iterator[Any]:
    stack = [problem.root()]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(problem.expand(node))


class Outcome(Struct):
    """What a full walk of a superoptimizer search met, each question asked once."""

    nodes: int
    goals: int
    verdicts: dict[bytes, str]
    found: set[str]


def ask(solver: z3.Solver, query: str) -> str:
    solver.push()
    solver.add(z3.parse_smt2_string(query))
    verdict = str(solver.check())
    solver.pop()
    return verdict


def prove(problem: Superopt) -> Outcome:
    solver = z3.SimpleSolver()
    outcome = Outcome(0, 0, {}, set())
    for node in nodes_of(problem):
        outcome.nodes += 1
        obligation = problem.obligation(node)
        if obligation is None:
            continue
        outcome.goals += 1
        if obligation.key not in outcome.verdicts:
            outcome.verdicts[obligation.key] = ask(solver, obligation.query)
        if outcome.verdicts[obligation.key] == "unsat":
            outcome.found |= {each.text for each in problem.solutions(node)}
    return outcome


@pytest.fixture
def walk() -> Callable[[Any], Iterator[Any]]:
    return nodes_of


@pytest.fixture
def answers() -> Callable[[Any], Counter[Any]]:
    """Counts every solution of a problem without obligations."""

    def collect(problem: Any) -> Counter[Any]:
        return Counter(each for node in nodes_of(problem) for each in problem.solutions(node))

    return collect


@pytest.fixture
def proving() -> Callable[[Superopt], Outcome]:
    return prove
