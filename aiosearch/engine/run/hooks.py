"""Hooks: the listeners of a search, and the events that they get, stamped with search time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from ...checks import CheckRecord
from ...events import (
    AnyEvent,
    Checked,
    Hook,
    Improved,
    SearchFinished,
    TaskAssigned,
    Warned,
    WorkerJoined,
    WorkerLost,
    WorkReported,
)
from ...result import Result
from ..books.coordinator import Transaction
from ..wire.messages import AddSubtrees
from .ticker import SearchStopwatch

SLICE_SECONDS = 0.001

log = logging.getLogger("aiosearch")


class Hooks:
    """Calls every hook with every event, in order; what a hook raises is logged once, and
    counted.

    Events come in bursts (one report may hold thousands of solutions), so they are passed on
    for `SLICE_SECONDS` at a time, with room for the loop's other work between.
    """

    def __init__(self, hooks: tuple[Hook, ...]) -> None:
        self._hooks = hooks
        self._waiting: deque[Callable[[], AnyEvent]] = deque()
        self._passing_on = False
        self._empty = asyncio.Event()
        self._tasks: set[asyncio.Future[object]] = set()
        self.errors = 0

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def emit(self, event: AnyEvent) -> None:
        self.emit_lazily(lambda: event)

    def emit_lazily(self, make: Callable[[], AnyEvent]) -> None:
        """Passes on an event that is built by `make` only when its turn comes."""
        if not self._hooks:
            return
        self._waiting.append(make)
        if not self._passing_on:
            self._passing_on = True
            asyncio.get_running_loop().call_soon(self._pass_on)

    async def close(self, seconds: float) -> None:
        """Returns when every event is passed on; asynchronous hooks get a moment to end."""
        while self._passing_on:
            self._empty.clear()
            await self._empty.wait()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
            for task in self._tasks:
                task.cancel()

    def _pass_on(self) -> None:
        end = time.perf_counter() + SLICE_SECONDS
        while self._waiting:
            self._call(self._waiting.popleft())
            if time.perf_counter() > end and self._waiting:
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
        self._passing_on = False
        self._empty.set()

    def _call(self, make: Callable[[], AnyEvent]) -> None:
        try:
            event = make()
        except Exception as error:
            self._failed(error)
            return
        for hook in self._hooks:
            try:
                outcome = hook(event)
                if asyncio.iscoroutine(outcome):
                    task = asyncio.ensure_future(outcome)
                    self._tasks.add(task)
                    task.add_done_callback(self._done)
            except Exception as error:
                self._failed(error)

    def _done(self, task: asyncio.Future[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self.errors += 1
        if self.errors == 1:
            log.error(
                "a hook raised; the search goes on, and its later errors are only counted",
                exc_info=error,
            )


class EventEmitter:
    """Builds events from what happens and passes them on to the `Hooks`."""

    def __init__(self, hooks: Hooks, stopwatch: SearchStopwatch) -> None:
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

    def assigned(self, seat: int, work: AddSubtrees) -> None:
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
                depths=transaction.depths,
            )
        )

    def improved(
        self, number: int, solution: Callable[[], object], cost: float | None, seat: int
    ) -> None:
        """Emits `Improved`; the solution is decoded only when a hook gets it."""
        seconds = self._seconds
        self._hooks.emit_lazily(
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

    def finished(self, result: Result[object], nodes: int) -> None:
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
