"""The shared queue, for seats that are far away."""

from __future__ import annotations

from collections.abc import Iterable

from aiosearch.strategies import Command, Event, Joined, Lost
from aiosearch.strategies.queue import MOST_READY, Queue


class Sockets(Queue):
    """The queue, with other machines: for seats elsewhere a second task lies ready, of few seats.

    What a seat far away parts with is on its way for a while, and what it asks for as well; a
    larger stock hides the first of the two.
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
