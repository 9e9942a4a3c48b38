"""The built-in strategy: one shared priority queue of subtrees.

Idle workers get the best tasks of the queue, in turn; when few are ready, those workers that hold
most (`Holders`) are asked for half. With two workers:

    Opened(root)            Assign(worker 0, root), Ask(worker 0)
    Idle(worker 1)            nothing is ready yet
    Opened(half, worker 0)    Assign(worker 1, half), Ask(...) to have one more ready

Cost: O(log n) for a task and for a report. See docs/why/strategies.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from .contract import API, Ask, Assign, Command, Event, Idle, Joined, Lost, Opened, Plan, Reported


class Holders:
    """Busy workers by the share of the tree that they hold, as far as one can tell."""

    def __init__(self) -> None:
        self._weights: dict[int, float] = {}
        self._surplus: dict[int, int] = {}
        self._rich: list[tuple[float, int]] = []
        self._all: list[tuple[float, int]] = []

    def __contains__(self, worker: int) -> bool:
        return worker in self._weights

    def __iter__(self) -> Iterator[int]:
        return iter(self._weights)

    def hold(self, worker: int, weight: float, surplus: int = 0) -> None:
        """A worker holds `weight` now, and is known to have `surplus` subtrees to give away."""
        self._weights[worker], self._surplus[worker] = weight, surplus
        heapq.heappush(self._all, (-weight, worker))
        if surplus > 1:
            heapq.heappush(self._rich, (-weight, worker))
        # Entries that are no longer true stay in the heaps; rebuilt before they are four fifths of
        # them
        if len(self._all) > 4 * len(self._weights) + 64:
            self._all = [entry for entry in self._all if self._holds(entry)]
            self._rich = [entry for entry in self._rich if self._holds(entry)]
            heapq.heapify(self._all)
            heapq.heapify(self._rich)

    def part(self, worker: int, weight: float, subtrees: int) -> None:
        """A worker has given `weight` away, in so many `subtrees`."""
        if worker in self._weights:
            left = self._surplus[worker] - subtrees
            self.hold(worker, max(self._weights[worker] - weight, 0.0), left)

    def drop(self, worker: int) -> None:
        """A worker holds nothing any more."""
        self._weights.pop(worker, None)

    def heaviest(self, rich: bool) -> int | None:
        """Takes the worker that holds most off the list, until it is said to `hold` something
        again; of the `rich` only, which are known to have a surplus."""
        heap = self._rich if rich else self._all
        while heap:
            entry = heapq.heappop(heap)
            if self._holds(entry):
                return entry[1]
        return None

    def _holds(self, entry: tuple[float, int]) -> bool:
        return self._weights.get(entry[1]) == -entry[0]


SHORTEST = 0.02
"""Seconds that an ordered search explores before its subtrees are compared again."""
LONGEST = 0.5
SECONDS_PER_SUBTREE = 50e-6
"""Seconds; giving a subtree back costs about a microsecond, so this keeps that under two percent.
"""
MOST_AT_ONCE = 16
MOST_READY = 32
"""Tasks that lie ready. What is cut off before it is wanted is often cut too small, and with a
thousand workers the host has no time to move it."""


class Queue:
    """Deals the best tasks to whoever is idle, and keeps some ready, if there are few one a worker.

    Nobody chooses a splitting depth: a worker keeps what it has until another one may run dry, and
    then those that hold most part with half of it. For workers of other machines a second task lies
    ready: what a worker far away parts with is on its way for a while, and what it asks for as
    well; a larger stock hides the first of the two.
    """

    api = API

    def start(self, plan: Plan) -> None:
        self._plan = plan
        self._queue: list[tuple[int, float, int, float]] = []
        self._idle: dict[int, None] = {}  # in the order in which they became idle
        self._busy = Holders()
        self._ranks: dict[int, int] = {}
        self._asked: set[int] = set()
        self._giver: int | None = None
        """The worker that has just parted with something, and tells in its next `Reported`
        what it has left."""
        self._workers: set[int] = set()
        self._elsewhere: set[int] = set()
        self._seconds = SHORTEST

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Opened(tasks=tasks, worker=worker):
                for task in tasks:
                    heapq.heappush(self._queue, (task.rank, task.priority, task.id, task.weight))
                if worker is not None:
                    self._take_back(event, worker)
            case Joined(worker=worker, host=host) if host:
                self._elsewhere.add(worker)
            case Idle(worker=worker):
                self._workers.add(worker)
                self._forget(worker)
                if worker not in self._idle:
                    self._idle[worker] = None
            case Reported(worker=worker, surplus=surplus, weight=weight):
                if worker in self._busy:
                    self._busy.hold(worker, weight, surplus)
                    if surplus > 0 and worker != self._giver:
                        yield from self._ask_at_need(worker)
                self._giver = None
            case Lost(worker=worker):
                self._workers.discard(worker)
                self._elsewhere.discard(worker)
                self._forget(worker)
                self._idle.pop(worker, None)
        yield from self._deal()
        yield from self._stock_up()

    def _take_back(self, opened: Opened, worker: int) -> None:
        size = sum(task.size for task in opened.tasks)
        self._asked.discard(worker)
        self._giver = worker
        self._busy.part(worker, sum(task.weight for task in opened.tasks), size)
        self._fit_budget(size)

    def _forget(self, worker: int) -> None:
        self._busy.drop(worker)
        self._asked.discard(worker)

    @property
    def _count(self) -> int:
        """Workers that are there or were planned: others may have joined."""
        return max(self._plan.workers, len(self._workers))

    def _deal(self) -> Iterator[Command]:
        while self._idle and self._queue and not self._too_early():
            # Half of a fair share: the rest stays for workers that come idle soon
            share = len(self._queue) // (2 * self._count)
            count = min(max(share, 1), MOST_AT_ONCE)
            rank = self._queue[0][0]
            tasks, weight = self._best(count, rank)
            worker = next(iter(self._idle))
            del self._idle[worker]
            self._busy.hold(worker, weight)
            self._ranks[worker] = rank
            # With an order over all subtrees, work has to come back to be compared; for one worker
            # there is nobody to compare with
            ordered = self._plan.ordered and self._count > 1
            yield Assign(worker, tasks, self._seconds if ordered else 0.0)

    def _too_early(self) -> bool:
        """Whether only later ranks wait, while somebody still explores an earlier one."""
        rank = self._queue[0][0]
        return rank > 0 and any(self._ranks[worker] < rank for worker in self._busy)

    def _best(self, count: int, rank: int) -> tuple[tuple[int, ...], float]:
        """Takes `count` tasks of a `rank`, or as many as there are; and says what they weigh."""
        tasks: list[int] = []
        whole = 0.0
        while self._queue and self._queue[0][0] == rank and len(tasks) < count:
            _, _, task, weight = heapq.heappop(self._queue)
            tasks.append(task)
            whole += weight
        return tuple(tasks), whole

    def _stock_up(self) -> Iterator[Command]:
        """Asks for subtrees before the queue is empty; when it is, also those who may have none."""
        ready = 0 if self._queue and self._too_early() else len(self._queue)
        lacking = self._lacking(ready)
        while len(self._asked) < lacking:
            worker = self._busy.heaviest(rich=not self._idle)
            if worker is None:
                return
            if worker not in self._asked:
                self._asked.add(worker)
                yield Ask(worker)

    def _lacking(self, ready: int) -> int:
        """How many tasks to ask for, where so many lie `ready`."""
        if self._count == 1:
            return 0
        return min(self._count + len(self._elsewhere), MOST_READY) + len(self._idle) - ready

    def _ask_at_need(self, worker: int) -> Iterator[Command]:
        """Asks a worker that has something while others have nothing, whoever was asked
        before: who is in the middle of a long node cannot answer an `Ask`."""
        if self._idle and not self._queue and worker not in self._asked:
            self._asked.add(worker)
            yield Ask(worker)

    def _fit_budget(self, returned: int) -> None:
        seconds = min(max(returned * SECONDS_PER_SUBTREE, SHORTEST), LONGEST)
        # A moving mean: one large return must not stretch every budget
        self._seconds += (seconds - self._seconds) / 4
