"""What the hooks of a search are told, stamped with search time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..checks import CheckRecord
from ..events import (
    AnyEvent,
    Checked,
    Improved,
    SearchFinished,
    TaskAssigned,
    Warned,
    WorkerJoined,
    WorkerLost,
    WorkReported,
)
from ..result import Result
from .coordinator import Transaction
from .hooks import Hooks
from .stopwatch import Stopwatch
from .wire import Work

log = logging.getLogger("aiosearch")


class Telling:
    """Makes events of what happens and passes them on to the hooks."""

    def __init__(self, hooks: Hooks, stopwatch: Stopwatch) -> None:
        self._hooks = hooks
        self._stopwatch = stopwatch

    def __bool__(self) -> bool:
        """Whether anybody listens."""
        return bool(self._hooks)

    def emit(self, event: AnyEvent) -> None:
        self._hooks.emit(event)

    def joined(self, seat: int, pid: int, host: str) -> None:
        self.emit(WorkerJoined(seconds=self._seconds, worker=seat, pid=pid, host=host))

    def lost(self, seat: int, reason: str, died: bool) -> None:
        self.emit(WorkerLost(seconds=self._seconds, worker=seat, reason=reason, died=died))

    def assigned(self, seat: int, work: Work) -> None:
        subtrees = sum(bundle.size for bundle in work.bundles)
        self.emit(TaskAssigned(seconds=self._seconds, worker=seat, subtrees=subtrees))

    def reported(self, transaction: Transaction) -> None:
        counts = transaction.counts
        self.emit(
            WorkReported(
                seconds=self._seconds,
                worker=transaction.seat,
                nodes=counts.nodes,
                busy=counts.busy_ns / 1e9,
                waiting=counts.waiting_ns / 1e9,
                kept=sum(bundle.size for _, bundle in transaction.opened),
                given=counts.published,
            )
        )

    def improved(
        self, number: int, solution: Callable[[], Any], cost: float | None, seat: int
    ) -> None:
        """The solution is made only when a hook is told of it."""
        seconds = self._seconds
        self._hooks.emit_made(
            lambda: Improved(
                seconds=seconds, number=number, solution=solution(), cost=cost, worker=seat
            )
        )

    def checked(self, record: CheckRecord) -> None:
        self.emit(
            Checked(
                seconds=self._stopwatch.seconds_at(record.end),
                process=record.process,
                status=str(record.status),
                started=self._stopwatch.seconds_at(record.start),
            )
        )

    def warn(self, message: str) -> None:
        log.warning(message)
        self.emit(Warned(seconds=self._seconds, message=message))

    def finished(self, result: Result[Any], nodes: int) -> None:
        self.emit(
            SearchFinished(
                seconds=self._seconds,
                status=str(result.status),
                reason=result.reason,
                nodes=nodes,
                solutions=len(result.solutions),
                best=result.best,
                best_cost=result.best_cost,
            )
        )

    @property
    def _seconds(self) -> float:
        return self._stopwatch.seconds
