"""The contract of a notebook, in which a listener keeps what searches find out.

A listener may have a `Notebook` as its attribute `notebook`. A notebook holds copies only: a search
that loses it goes on without.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol

from msgspec import Struct

from ..checks.verdict import Verdict

Known = tuple[bytes, Verdict]
"""The digest of a question, and what z3 said to it."""
Verdicts = tuple[tuple[bytes, str], ...]
"""Verdicts as workers hear them in `VerdictReplies`: digests, and the `Status` of each."""
PART = 1024
"""How many verdicts fit into a frame."""
Recall = Callable[[], AsyncIterator[Verdicts]]
"""Reads on another machine what was noted so far, at most `PART` at a time."""


class Standing(Struct, frozen=True, array_like=True):
    """How far a search has come, as its `Notebook` keeps it."""

    problem: str
    """The qualified name of the problem's class."""
    solutions: int
    best_cost: float | None
    best: bytes | None
    """The best solution, or the first where they have no costs, as msgpack."""


class Notebook(Protocol):
    """Each method is called from the event loop, and never blocks it."""

    def known(self) -> Iterable[Known]:
        """Verdicts that earlier searches had noted by the time the listener started."""
        ...

    def judged(self, digest: bytes, verdict: Verdict) -> None:
        """Notes a verdict."""
        ...

    def stands(self, session: int, standing: Standing) -> None:
        """Notes how a search stands; `session` is unique among the searches of the listener."""
        ...
