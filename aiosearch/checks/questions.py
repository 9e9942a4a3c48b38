"""Open questions: their digests, who waits for them, and the order in which they are asked.

The digest is a question's name: equal digests mean that one answer serves both.

Search workers import this module, so it imports neither z3 nor anything that is slow to load.
"""

from __future__ import annotations

import heapq
import itertools
import time
from functools import cache, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..problem import Obligation
    from .verdict import Verdict

UNQUEUED = -1


class Ticket:
    """One asker's claim to an answer; `Verifier.drop` takes it back."""

    __slots__ = ("done", "live", "question", "rlimit")

    def __init__(
        self, question: PendingQuestion, done: Callable[[Verdict], None], rlimit: int
    ) -> None:
        self.question = question
        self.done = done
        self.rlimit = rlimit
        self.live = True
        """True until it is answered or dropped."""


class PendingQuestion:
    """A question that one check of z3 will answer, for all `Ticket`s that wait for it."""

    __slots__ = (
        "asked",
        "axioms",
        "digest",
        "entry",
        "failures",
        "obligation",
        "priority",
        "rlimit",
        "sent",
        "tickets",
    )

    def __init__(
        self, digest: bytes, obligation: Obligation, axioms: str, rlimit: int, priority: float
    ) -> None:
        self.digest = digest
        self.obligation = obligation
        self.axioms = axioms
        self.rlimit = rlimit
        self.priority = priority
        self.asked = time.monotonic()
        self.tickets: list[Ticket] = []
        self.failures = 0
        self.entry = UNQUEUED
        """The position of the question among those of equal `priority` in the `Backlog`."""
        self.sent = False
        """Whether a process has it; its `rlimit` cannot grow any more."""

    @property
    def queued(self) -> bool:
        return self.entry != UNQUEUED


class Backlog:
    """The questions that no process has yet: lowest priority first, then oldest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, PendingQuestion]] = []
        self._entries = itertools.count()
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def push(self, question: PendingQuestion) -> None:
        """Adds a question, or moves one whose `priority` has changed."""
        if not question.queued:
            self._live += 1
        question.sent = False
        question.entry = next(self._entries)
        # An older entry of the question stays in the heap as a gap: `pop` skips what is not its
        # newest
        heapq.heappush(self._heap, (question.priority, question.entry, question))

    def discard(self, question: PendingQuestion) -> None:
        """Takes a question out; the heap is rebuilt when more than half of it is such gaps."""
        question.entry = UNQUEUED
        self._live -= 1
        if len(self._heap) > 2 * self._live + 64:
            self._heap = [item for item in self._heap if item[1] == item[2].entry]
            heapq.heapify(self._heap)

    def pop(self) -> PendingQuestion:
        while True:
            _, entry, question = heapq.heappop(self._heap)
            if entry == question.entry:
                question.entry = UNQUEUED
                self._live -= 1
                return question

    def clear(self) -> None:
        self._heap.clear()
        self._live = 0


DIGEST_SIZE = 16
PROFILE = b"aiosearch-z3-1"
"""Changes when z3 is asked in another way, so that old verdicts of `unknown` are asked again."""


def digest(obligation: Obligation, axioms_text: str, z3_version: str) -> bytes:
    """Gives the 16 bytes under which the obligation's verdict is kept.

    They cover the query (or the author's `key` in its place), the text of its axioms, the logic
    and z3's version, but not the budget: a verdict is looked up for any budget.
    """
    # Hashing the axioms costs more than the query: their state is cached and copied
    state = _context(axioms_text, obligation.logic, z3_version).copy()
    if obligation.key:
        state.update(b"key\0" + obligation.key)
    else:
        state.update(b"query\0" + canonical(obligation.query))
    return state.digest()


def canonical(query: str) -> bytes:
    """Gives the query without comments and with single spaces: `"(assert  p) ; why"` becomes
    `b"(assert p)"`.

    A query with string literals or quoted symbols, in which spaces and semicolons mean
    something, is left as it is.
    """
    raw = query.encode()
    if b'"' in raw or b"|" in raw:
        return raw.strip()
    if b";" in raw:
        raw = b"\n".join([line.partition(b";")[0] for line in raw.split(b"\n")])
    return b" ".join(raw.split())


@cache
def z3_version() -> str:
    """Gives the installed z3's version without loading it; raises `WorkerError` without one.

    The first call takes some 40 ms: it is made once, in the host, and the workers get it in
    `Begin`.
    """
    from importlib import metadata

    from ..errors import WorkerError

    try:
        return metadata.version("z3-solver")
    except metadata.PackageNotFoundError:
        raise WorkerError("z3 is not installed; `pip install z3-solver` provides it") from None


@lru_cache(maxsize=256)
def _context(axioms_text: str, logic: str, version: str) -> blake2b:
    state = blake2b(PROFILE, digest_size=DIGEST_SIZE)
    for part in (axioms_text, logic, version):
        raw = part.encode()
        # Lengths first, or axioms "ab" and logic "c" would have the digest of "a" and "bc"
        state.update(len(raw).to_bytes(8, "little") + raw)
    return state
