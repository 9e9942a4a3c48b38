"""The built-in strategy: one shared priority queue of subtrees."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from .contract import API, Ask, Assign, Command, Event, Idle, Lost, Opened, Plan, Reported

SHORTEST = 0.02
"""Seconds that an ordered search explores before its subtrees are compared again."""
LONGEST = 0.5
SECONDS_PER_SUBTREE = 50e-6
"""Giving a subtree back costs about a microsecond; this keeps that under two percent."""
MOST_AT_ONCE = 16


class Queue:
    """Deals the best tasks to whoever is idle, and keeps a task ready for each seat.

    Nobody chooses a splitting depth: a seat keeps what it has until another one may run dry, and
    then parts with half of it.
    """

    api = API

    def start(self, plan: Plan) -> None:
        self._plan = plan
        self._queue: list[tuple[int, float, int]] = []
        self._idle: list[int] = []
        self._busy: dict[int, int] = {}
        self._ranks: dict[int, int] = {}
        self._asked: set[int] = set()
        self._seats: set[int] = set()
        self._seconds = SHORTEST

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Opened(tasks=tasks, seat=seat):
                for task in tasks:
                    heapq.heappush(self._queue, (task.rank, task.priority, task.id))
                if seat is not None:
                    self._asked.discard(seat)
                    self._fit_budget(sum(task.size for task in tasks))
            case Idle(seat=seat):
                self._seats.add(seat)
                self._busy.pop(seat, None)
                self._asked.discard(seat)
                if seat not in self._idle:
                    self._idle.append(seat)
            case Reported(seat=seat, surplus=surplus):
                if seat in self._busy:
                    self._busy[seat] = surplus
            case Lost(seat=seat):
                self._seats.discard(seat)
                self._busy.pop(seat, None)
                self._asked.discard(seat)
                if seat in self._idle:
                    self._idle.remove(seat)
        yield from self._deal()
        yield from self._stock_up()

    @property
    def _count(self) -> int:
        """Seats that are there or were planned: others may have joined."""
        return max(self._plan.seats, len(self._seats))

    def _deal(self) -> Iterator[Command]:
        while self._idle and self._queue and not self._too_early():
            share = len(self._queue) // (2 * self._count)
            count = min(max(share, 1), MOST_AT_ONCE)
            rank = self._queue[0][0]
            tasks = self._best(count, rank)
            seat = self._idle.pop(0)
            self._busy[seat] = 0
            self._ranks[seat] = rank
            ordered = self._plan.ordered and self._count > 1
            yield Assign(seat, tasks, self._seconds if ordered else 0.0)

    def _too_early(self) -> bool:
        """Whether only later ranks wait, while somebody still explores an earlier one."""
        return any(self._ranks[seat] < self._queue[0][0] for seat in self._busy)

    def _best(self, count: int, rank: int) -> tuple[int, ...]:
        """Takes so many tasks of a rank, or as many as there are."""
        tasks: list[int] = []
        while self._queue and self._queue[0][0] == rank and len(tasks) < count:
            tasks.append(heapq.heappop(self._queue)[2])
        return tuple(tasks)

    def wanted(self) -> int:
        """How many tasks should lie ready."""
        return self._count

    def _stock_up(self) -> Iterator[Command]:
        """Asks for subtrees before the queue is empty; when it is, everyone who may have some."""
        ready = 0 if self._queue and self._too_early() else len(self._queue)
        lacking = self.wanted() - ready
        if lacking <= 0 or self._count == 1:
            return
        candidates = sorted(
            (seat for seat in self._busy if seat not in self._asked),
            key=lambda seat: -self._busy[seat],
        )
        for seat in candidates:
            if self._busy[seat] > 1 or self._idle:
                self._asked.add(seat)
                yield Ask(seat)
            if len(self._asked) >= lacking and not self._idle:
                return

    def _fit_budget(self, returned: int) -> None:
        wanted = min(max(returned * SECONDS_PER_SUBTREE, SHORTEST), LONGEST)
        self._seconds += (wanted - self._seconds) / 4
