"""The contract of a notebook: where a listener keeps what searches find out, outside of them.

A listener that has one has it in an attribute `notebook`. What stands there is a copy: a search
does without it where it is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol

from msgspec import Struct

from ..checks.verdict import Verdict

Known = tuple[bytes, Verdict]
"""What z3 said to the question of this digest."""
Verdicts = tuple[tuple[bytes, str], ...]
"""The same, as workers are told."""
PART = 1024
"""So many of them fit a frame."""
Recall = Callable[[], AsyncIterator[Verdicts]]
"""Reads on another machine what was noted so far, as many at a time."""


class Standing(Struct, frozen=True, array_like=True):
    """How far a search has come."""

    problem: str
    """The name of its class."""
    solutions: int
    best_cost: float | None
    best: bytes | None
    """The best solution, or the first where they have no costs, as msgpack."""


class Notebook(Protocol):
    """Each method is called from the event loop, and never blocks it."""

    def known(self) -> Iterable[Known]:
        """What was noted when the listener had started, by searches before."""
        ...

    def judged(self, digest: bytes, verdict: Verdict) -> None:
        """Notes a verdict."""
        ...

    def stands(self, session: int, standing: Standing) -> None:
        """Notes how a search stands; no other of this listener's has its number."""
        ...
