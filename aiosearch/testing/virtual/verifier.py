"""The verification service of a simulation, and the lock inside z3 that processes contend for."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...checks.verdict import Status, Verdict
    from ...problem import Obligation


class Checkers:
    """The z3 processes, `count` of them, which take the question of the lowest priority, then
    the oldest.

    What has been answered is remembered. `after` has something done some nanoseconds later.
    """

    def __init__(
        self,
        count: int,
        verdict: Callable[[Obligation], Verdict],
        after: Callable[[int, Callable[[], None]], None],
        judged: Callable[[bytes, Status], None],
    ) -> None:
        self.checks = 0
        self.spent = 0
        """Nanoseconds of all processes together."""
        self._free = count
        self._verdict = verdict
        self._after = after
        self._judged = judged
        self._known: dict[bytes, Status] = {}
        self._open: set[bytes] = set()
        self._tickets = itertools.count()
        self._waiting: list[tuple[float, int, bytes, Obligation]] = []

    def ask(self, digest: bytes, obligation: Obligation, priority: float) -> None:
        """Has a question answered: at once where it was answered before."""
        if (status := self._known.get(digest)) is not None:
            self._judged(digest, status)
            return
        self._open.add(digest)
        heapq.heappush(self._waiting, (priority, next(self._tickets), digest, obligation))
        self._begin()

    def withdraw(self, digest: bytes) -> None:
        """Forgets a question, if nobody is at it yet."""
        self._open.discard(digest)

    def _begin(self) -> None:
        while self._free and self._waiting:
            _, _, digest, obligation = heapq.heappop(self._waiting)
            # Withdrawn meanwhile: its entry is skipped when it comes out
            if digest not in self._open:
                continue
            verdict = self._verdict(obligation)
            takes = round(verdict.seconds * 1e9)
            self._free -= 1
            self.checks += 1
            self.spent += takes
            self._after(takes, partial(self._end, digest, verdict.status))

    def _end(self, digest: bytes, status: Status) -> None:
        self._free += 1
        self._known[digest] = status
        if digest in self._open:
            self._open.discard(digest)
            self._judged(digest, status)
        self._begin()


class Gate:
    """The lock: lets one through at a time, in their order; whoever waits slows the one that is
    inside.

    `after` has something done some nanoseconds later. Each that waits when another goes in
    makes that one take `contention` longer, as a share of what it takes alone.
    """

    def __init__(self, contention: float, after: Callable[[int, Callable[[], None]], None]) -> None:
        self._contention = contention
        self._after = after
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._held = False

    def enter(self, takes: int, done: Callable[[], None]) -> None:
        """Goes in, now or when the lock is free, for `takes` nanoseconds."""
        self._waiting.append((takes, done))
        if not self._held:
            self._admit()

    def _admit(self) -> None:
        self._held = True
        takes, done = self._waiting.popleft()
        longer = 1 + self._contention * len(self._waiting)
        self._after(round(takes * longer), partial(self._leave, done))

    def _leave(self, done: Callable[[], None]) -> None:
        self._held = False
        if self._waiting:
            self._admit()
        done()
