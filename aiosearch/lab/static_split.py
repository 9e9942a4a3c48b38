"""The split of Mirage's parallel search: cut at depth one, and dealt out once and for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..strategies import find_strategy
from ..strategies.contract import (
    API,
    Assign,
    Command,
    Event,
    Idle,
    Lost,
    Opened,
    Plan,
    Strategy,
)
from .arms import Arm


def strategy_of(arm: Arm) -> Strategy:
    """The strategy of an arm, made for one run: `HeightOne` where its `split` asks for it."""
    if arm.split == "height1":
        return HeightOne(arm.workers)
    return find_strategy(arm.strategy)


class HeightOne:
    """Deals subtree i at depth one to worker i modulo their number; nobody helps anybody.

    `workers` counts the workers that take part, those of other machines included; 0 stands for the
    workers of this machine. With 3 workers and 7 subtrees, worker 0 explores subtrees 0, 3 and 6.
    Nobody would search so: the strategy is a baseline that others are measured against.
    """

    api = API

    def __init__(self, workers: int = 0) -> None:
        self._wanted = workers

    def start(self, plan: Plan) -> None:
        self._workers = self._wanted or plan.workers
        self._idle: set[int] = set()
        self._uncut: list[int] = []
        self._waiting: list[dict[int, int]] = [{} for _ in range(self._workers)]
        """The tasks that wait for each worker, with the rank of each task."""
        self._cutter: int | None = None
        self._dealt = 0

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Opened(tasks=tasks, worker=worker):
                for task in tasks:
                    if task.depth == 0:
                        self._uncut.append(task.id)
                    else:
                        self._waiting[self._place(worker)][task.id] = task.rank
            case Idle(worker=worker):
                self._idle.add(worker)
                self._stops_cutting(worker)
            case Lost(worker=worker):
                self._idle.discard(worker)
                self._stops_cutting(worker)
        yield from self._deal()

    def _stops_cutting(self, worker: int) -> None:
        if worker == self._cutter:
            self._cutter = None

    def _place(self, worker: int | None) -> int:
        """The worker of a task: in turn where the task is new, else the worker that had it."""
        # What a worker gives back stays its own, or the deal would not be once and for all
        if worker is not None and worker != self._cutter:
            return worker % self._workers
        self._dealt += 1
        return (self._dealt - 1) % self._workers

    def _deal(self) -> Iterator[Command]:
        if self._uncut and self._idle:
            self._cutter = min(self._idle)
            self._idle.discard(self._cutter)
            tasks, self._uncut = tuple(self._uncut), []
            yield Assign(self._cutter, tasks, depth=1)
        if self._cutter is not None:
            return
        for worker in sorted(self._idle):
            mine = self._waiting[worker % self._workers]
            if mine:
                rank = min(mine.values())
                tasks = tuple(id for id, task_rank in mine.items() if task_rank == rank)
                for id in tasks:
                    del mine[id]
                self._idle.discard(worker)
                yield Assign(worker, tasks)
