"""A small strategy: the newest subtree goes to whoever has waited longest.

Start your own from here: rename the package, change `handle`, and keep the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiosearch.strategies import API, Ask, Assign, Command, Event, Idle, Lost, Opened, Plan, Task

__all__ = ["Newest"]


class Newest:
    """Hands out the newest subtree first, `at_once` of them together."""

    api = API

    def __init__(self, at_once: int = 1) -> None:
        if at_once < 1:
            raise ValueError(f"at_once must be at least 1, not {at_once}")
        self._at_once = at_once

    def start(self, plan: Plan) -> None:
        self._seconds = 0.05 if plan.ordered and plan.workers > 1 else 0.0
        self._free: list[Task] = []
        self._idle: list[int] = []
        self._busy: dict[int, bool] = {}
        """Workers at work, and whether they have been asked for subtrees."""

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Opened(tasks=tasks, worker=worker):
                self._free += tasks
                self._free.sort(key=lambda task: -task.rank)  # taken from the end, rank 1 last
                if worker in self._busy:
                    self._busy[worker] = False  # it has answered
            case Idle(worker=worker):
                self._busy.pop(worker, None)
                self._idle.append(worker)
            case Lost(worker=worker):
                self._busy.pop(worker, None)
                self._idle = [idle for idle in self._idle if idle != worker]
        yield from self._deal()

    def _deal(self) -> Iterator[Command]:
        while self._idle and self._free:
            worker = self._idle.pop(0)
            tasks, self._free = self._free[-self._at_once :], self._free[: -self._at_once]
            self._busy[worker] = False
            yield Assign(worker, tuple(task.id for task in tasks), self._seconds)
        if self._idle:  # and nothing is free: ask everybody who was not asked yet
            for worker in [worker for worker, asked in self._busy.items() if not asked]:
                self._busy[worker] = True
                yield Ask(worker)
