"""Static interleaving: split once, deal subtree i to worker i mod n, and say nothing until the end.

This is how Mirage's search was parallelised, and the baseline that every other strategy has to
beat. It is deterministic: which worker explores which subtree follows from the tree alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiosearch.strategies import (
    API,
    Assign,
    Command,
    Event,
    Idle,
    Joined,
    Lost,
    Opened,
    Plan,
    Task,
)

__all__ = ["Interleaved"]


class Interleaved:
    """Splits the tree at `depth`, and deals the subtrees there out once and for all.

    Workers that come after that get nothing.
    """

    api = API

    def __init__(self, depth: int = 1) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
        self._depth = depth

    def start(self, plan: Plan) -> None:
        self._workers = plan.workers
        self._idle: set[int] = set()
        self._waiting: list[list[Task]] = [[] for _ in range(plan.workers)]
        self._unsplit: list[Task] = []
        self._splitting = False
        self._dealt = 0

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Opened(tasks=tasks, worker=worker):
                for task in tasks:
                    self._sort_in(task, worker)
            case Joined(worker=worker):
                self._admit(worker)
            case Idle(worker=worker):
                self._idle.add(worker)
            case Lost(worker=worker):
                self._idle.discard(worker)
        # Worker 0 has cut the tree to its depth and given every subtree back
        if self._splitting and 0 in self._idle:
            self._splitting = False
        yield from self._deal()

    def _admit(self, worker: int) -> None:
        """Makes room for a worker that the plan did not count."""
        while len(self._waiting) <= worker:
            self._waiting.append([])
        # Who comes before the first deal takes part; afterwards the modulus has to stay
        if not self._dealt:
            self._workers = len(self._waiting)

    def _sort_in(self, task: Task, worker: int | None) -> None:
        """Keeps with a worker what it was dealt, and deals out what is new."""
        dealt_before = worker is not None and not (worker == 0 and self._splitting)
        if task.depth < self._depth and not dealt_before:
            self._unsplit.append(task)
        elif worker is not None and dealt_before:
            # What a worker gives back (its worker died, or a rank ended) stays its own
            self._waiting[worker].append(task)
        else:
            self._waiting[self._dealt % self._workers].append(task)
            self._dealt += 1

    def _deal(self) -> Iterator[Command]:
        if self._splitting:
            return
        if self._unsplit:
            if 0 in self._idle:
                self._idle.discard(0)
                self._splitting = True
                tasks = tuple(task.id for task in self._unsplit)
                self._unsplit.clear()
                yield Assign(0, tasks, depth=self._depth)
            return
        for worker in sorted(self._idle):
            mine = self._waiting[worker]
            if mine:
                rank = min(task.rank for task in mine)
                self._waiting[worker] = [task for task in mine if task.rank != rank]
                self._idle.discard(worker)
                yield Assign(worker, tuple(task.id for task in mine if task.rank == rank))
