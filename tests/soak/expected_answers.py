"""What a trial's search must find, and what z3 must have answered, without either."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from killable_problems import SUBJECTS, Awaited, Cheapest, Marked

from aiosearch.checks.questions import digest, z3_version
from aiosearch.checks.store import VerdictStore


class Answers(msgspec.Struct, frozen=True):
    """What a complete search must report; None where it may differ from run to run."""

    nodes: int | None
    solutions: frozenset[Any] | None
    best_cost: float | None = None
    unknown: int = 0
    """How many questions z3 does not understand."""


def plain(value: Any) -> Any:
    """Gives a value as it comes back from msgpack without a type."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


@cache
def answers(subject: str) -> Answers:
    problem = SUBJECTS[subject].problem
    if isinstance(problem, Cheapest):
        return cheapest_by_place(problem)
    return cheapest(problem) if hasattr(problem, "bound") else walked(problem)


@cache
def verdicts(subject: str) -> dict[bytes, str]:
    """What z3 must answer to every question of a subject, by digest."""
    problem = SUBJECTS[subject].problem
    if not hasattr(problem, "verdict"):
        return {}
    level = [problem.root()]
    for _ in range(problem.asked):
        level = [child for node in level for child in problem.expand(node)]
    version = z3_version()
    return {digest(problem.obligation(node), "", version): problem.verdict(node) for node in level}


def wrong_verdicts(subject: str, path: Path) -> list[str]:
    """Reads the verdicts that a trial left on disk."""
    if not (known := verdicts(subject)):
        return []
    store = VerdictStore(path)
    try:
        rows = {key: store.get(key) for key in store.digests()}
    finally:
        store.close()
    return [
        f"the cache says {verdict and verdict.status} to {key.hex()}, not {known.get(key)}"
        for key, verdict in rows.items()
        if verdict is None or str(verdict.status) != known.get(key)
    ]


def walked(problem: Any) -> Answers:
    """Walks the tree without any engine, each key once, and only what z3 should let live."""
    plain = at_once(problem)
    key = getattr(plain, "key", lambda node: node)
    seen: set[Any] = set()
    found: set[Any] = set()
    unknown = 0
    waiting = [plain.root()]
    while waiting:
        node = waiting.pop()
        verdict = plain.verdict(node) if asks(plain, node) else "proved"
        if key(node) in seen or verdict == "refuted":
            continue
        unknown += verdict == "unknown"
        seen.add(key(node))
        found.update(plain.solutions(node))
        waiting.extend(plain.expand(node))
    return Answers(len(seen), frozenset(found), unknown=unknown)


def asks(problem: Any, node: Any) -> bool:
    return hasattr(problem, "obligation") and problem.obligation(node) is not None


def at_once(problem: Any) -> Any:
    """Gives the same problem without its waiting."""
    if isinstance(problem, Awaited):
        return Marked(depth=problem.depth, seed=problem.seed, pause=0.0)
    return dataclasses.replace(problem, pause=0.0)


def cheapest(problem: Any) -> Answers:
    """Finds the best cost by plain branch and bound."""
    best = float("inf")
    waiting = [problem.root()]
    while waiting:
        node = waiting.pop()
        if problem.bound(node) >= best:
            continue
        best = min([best, *map(problem.cost, problem.solutions(node))])
        waiting.extend(sorted(problem.expand(node), key=problem.bound, reverse=True))
    return Answers(None, None, best)


def cheapest_by_place(problem: Cheapest) -> Answers:
    """Finds the best cost by dynamic programming."""
    known = {(0, 0): 0}
    for place in sorted(
        (row, column) for row in range(problem.side) for column in range(problem.side)
    ):
        for row, column, spent in Cheapest(problem.side, 0.0).expand((*place, known[place])):
            known[row, column] = min(spent, known.get((row, column), spent))
    return Answers(None, None, float(known[problem.side - 1, problem.side - 1]))
