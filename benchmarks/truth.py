"""What a trial's search must find, and what z3 must have answered, without either."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from subjects import SUBJECTS, Answers

from aiosearch.checks.digest import digest, z3_version
from aiosearch.checks.store import Store


def plain(value: Any) -> Any:
    """Gives a value as it comes back from msgpack without a type."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


@cache
def answers(subject: str) -> Answers:
    found = SUBJECTS[subject]
    return found.answer(found.problem)


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
    store = Store(path)
    try:
        rows = {key: store.get(key) for key in store.digests()}
    finally:
        store.close()
    return [
        f"the cache says {verdict and verdict.status} to {key.hex()}, not {known.get(key)}"
        for key, verdict in rows.items()
        if verdict is None or str(verdict.status) != known.get(key)
    ]
