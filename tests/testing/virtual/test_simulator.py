"""A desk takes one thing at a time, in the order in which they come."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count

from aiosearch.testing.virtual.simulator import HostDesk
from aiosearch.testing.virtual.worker import SimulatedClock


class Day:
    """A clock, an agenda and a desk that takes ten for everything."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.done: list[tuple[int, str]] = []
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._tickets = count()
        self.desk = HostDesk(self.clock, 10, self.at)

    def at(self, when: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (when, next(self._tickets), action))

    def comes(self, when: int, name: str, sends: int = 0) -> None:
        self.at(when, partial(self.desk.arrive, partial(self._handle, name, sends)))

    def send(self) -> None:
        self.desk.sent()

    def _handle(self, name: str, sends: int) -> None:
        self.done.append((self.clock.now, name))
        self.left = [self.desk.sent() for _ in range(sends)]

    def pass_by(self) -> list[tuple[int, str]]:
        while self._agenda:
            self.clock.now, _, action = heapq.heappop(self._agenda)
            action()
        return self.done


def test_what_comes_while_the_desk_is_busy_waits() -> None:
    day = Day()
    for when, name in ((0, "first"), (3, "second"), (4, "third"), (50, "late")):
        day.comes(when, name)
    assert day.pass_by() == [(0, "first"), (10, "second"), (20, "third"), (50, "late")]
    assert day.desk.spent == 40


def test_what_is_sent_leaves_when_it_is_written_and_keeps_the_desk() -> None:
    day = Day()
    day.comes(0, "asks", sends=2)
    day.comes(1, "waits")
    assert day.pass_by() == [(0, "asks"), (30, "waits")]
    assert day.desk.spent == 40


def test_what_is_sent_of_its_own_accord_holds_up_what_comes_next() -> None:
    day = Day()
    day.at(0, day.send)
    day.comes(5, "next")
    assert day.pass_by() == [(10, "next")]
