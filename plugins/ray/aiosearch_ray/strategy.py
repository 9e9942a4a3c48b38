"""The shared queue, for seats that a cluster lends."""

from __future__ import annotations

from collections.abc import Iterable

from aiosearch.strategies import Command, Event, Joined, Lost
from aiosearch.strategies.queue import MOST_READY, Queue


class Ray(Queue):
    """The queue, on a Ray cluster: for seats elsewhere a second task lies ready, of few seats.

    What a seat parts with is milliseconds on its way, and so is what it asks for; a larger stock
    hides the first of the two.
    """

    def __init__(self) -> None:
        self._elsewhere: set[int] = set()

    def handle(self, event: Event) -> Iterable[Command]:
        if isinstance(event, Joined) and event.host:
            self._elsewhere.add(event.seat)
        elif isinstance(event, Lost):
            self._elsewhere.discard(event.seat)
        return super().handle(event)

    def wanted(self) -> int:
        return min(super().wanted() + len(self._elsewhere), MOST_READY)
