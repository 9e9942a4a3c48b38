"""A question that has no answer yet, who waits for it, and the order in which they are asked."""

from __future__ import annotations

import heapq
import itertools
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..problem import Obligation
    from .verdict import Verdict

UNQUEUED = -1


class Ticket:
    """One asker's claim to an answer; `Verifier.drop` takes it back."""

    __slots__ = ("done", "live", "question", "rlimit")

    def __init__(self, question: Question, done: Callable[[Verdict], None], rlimit: int) -> None:
        self.question = question
        self.done = done
        self.rlimit = rlimit
        self.live = True
        """Until it is answered or dropped."""


class Question:
    """What one check will answer, for all that asked the same."""

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
        """Its place among equals in the backlog."""
        self.sent = False
        """Whether a process is thinking about it; its budget cannot grow any more."""

    @property
    def queued(self) -> bool:
        return self.entry != UNQUEUED


class Backlog:
    """The questions that no process has yet: lowest priority first, then oldest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Question]] = []
        self._entries = itertools.count()
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def push(self, question: Question) -> None:
        """Adds a question, or moves one whose priority has changed."""
        if not question.queued:
            self._live += 1
        question.sent = False
        question.entry = next(self._entries)
        heapq.heappush(self._heap, (question.priority, question.entry, question))

    def discard(self, question: Question) -> None:
        """Takes a question out; the heap is rebuilt when more than half of it is such gaps."""
        question.entry = UNQUEUED
        self._live -= 1
        if len(self._heap) > 2 * self._live + 64:
            self._heap = [item for item in self._heap if item[1] == item[2].entry]
            heapq.heapify(self._heap)

    def pop(self) -> Question:
        while True:
            _, entry, question = heapq.heappop(self._heap)
            if entry == question.entry:
                question.entry = UNQUEUED
                self._live -= 1
                return question

    def clear(self) -> None:
        self._heap.clear()
        self._live = 0
