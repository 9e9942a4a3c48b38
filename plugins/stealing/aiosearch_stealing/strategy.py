"""The strategy: workers of one machine help themselves, and machines are dealt to like seats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiosearch.strategies import Command, Event, Joined, Lost, Plan, Reported
from aiosearch.strategies.queue import MOST_READY, Queue

BOARD = "aiosearch_stealing.board:SharedBoard"


class Stealing(Queue):
    """Workers of a machine steal from each other through shared memory.

    The host deals out what nobody holds, and moves work only between machines. Where an order
    compares all open subtrees, they have to meet in one place: then this is the shared `Queue`.
    """

    exchange = ""

    def start(self, plan: Plan) -> None:
        super().start(plan)
        self.exchange = "" if plan.ordered else BOARD
        self._machines: dict[int, str] = {}

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Joined(seat=seat, host=host):
                self._machines[seat] = host
            case Lost(seat=seat):
                self._machines.pop(seat, None)
            case Reported(seat=seat, surplus=surplus, weight=weight) if seat in self._idle:
                del self._idle[seat]  # it has taken something
                self._busy.hold(seat, weight, surplus)
                self._ranks[seat] = 0
        return super().handle(event)

    def _lacking(self, ready: int) -> int:
        """How many tasks to have ready: machines want work, not seats, for who waits while
        others of its machine explore will find something there."""
        if not self.exchange:
            return super()._lacking(ready)
        machines = len(set(self._machines.values()))
        if machines < 2:
            return 0
        waiting = len({self._machines[seat] for seat in self._idle})
        return min(2 * machines, MOST_READY) + waiting - ready

    def _ask_at_need(self, seat: int) -> Iterator[Command]:
        if not self.exchange or self._lacking(0) > 0:
            yield from super()._ask_at_need(seat)
