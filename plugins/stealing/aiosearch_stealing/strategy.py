"""The strategy: workers of one machine help themselves, and machines are dealt to like workers."""

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
            case Joined(worker=worker, host=host):
                self._machines[worker] = host
            case Lost(worker=worker):
                self._machines.pop(worker, None)
            case Reported(worker=worker, surplus=surplus, weight=weight) if worker in self._idle:
                del self._idle[worker]  # it has taken something
                self._busy.hold(worker, weight, surplus)
                self._ranks[worker] = 0
        return super().handle(event)

    def _lacking(self, ready: int) -> int:
        """How many tasks to have ready: machines want work, not workers, for who waits while
        others of its machine explore will find something there."""
        if not self.exchange:
            return super()._lacking(ready)
        machines = len(set(self._machines.values()))
        if machines < 2:
            return 0
        waiting = len({self._machines[worker] for worker in self._idle})
        return min(2 * machines, MOST_READY) + waiting - ready

    def _ask_at_need(self, worker: int) -> Iterator[Command]:
        if not self.exchange or self._lacking(0) > 0:
            yield from super()._ask_at_need(worker)
