"""A lock inside z3 that all its threads need for a part of every check."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Gate:
    """Lets one through at a time, in their order; whoever waits slows the one that is inside.

    `after` has something done so many nanoseconds later. Each that waits when another goes in makes
    that one take `contention` longer, as a share of what it takes alone.
    """

    def __init__(self, contention: float, after: Callable[[int, Callable[[], None]], None]) -> None:
        self._contention = contention
        self._after = after
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._held = False

    def enter(self, takes: int, done: Callable[[], None]) -> None:
        """Goes in, now or when it is free, for so many nanoseconds."""
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
