"""The pool of z3 processes: started when there is work, replaced when they fail, ended by close."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ..errors import WorkerError
from .questions import Backlog, PendingQuestion
from .solver_process import SolverLimits, SolverProcess
from .verdict import CheckRecord, Reason, Status, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from ..processes.child import Spawner
    from .protocol import SolverReply

TRIES = 2
"""How often a question may lose its process before it is given up."""
START_TRIES = 3
"""How many processes in a row may die while they start."""
BRISK_CHECK_SECONDS = 0.001
"""Below this mean of CPU seconds a check, a process is sent a second question ahead of time: the
way through the host's loop would cost as much as the check. Slow checks must not hold up others."""


class SolverPool:
    """Puts questions to at most `size` processes and hands every answer to `answered`.

    `answered` also gets whether the process is this machine's own: other machines may lend
    places for more processes. `failed` is called once if no process can be started; nothing is
    asked after that.
    """

    def __init__(
        self,
        size: int,
        limits: SolverLimits,
        answered: Callable[[PendingQuestion, Verdict, bool], None],
        failed: Callable[[WorkerError], None],
        on_check: Callable[[CheckRecord], None] | None = None,
    ) -> None:
        self.checks = 0
        self.restarts = 0
        self.cpu_seconds = 0.0
        self.queue_seconds = 0.0
        self.backlog = Backlog()
        self._places: dict[int, Spawner | None] = dict.fromkeys(range(size))
        """The function that starts each process, by its number; None for those of this machine."""
        self._limits = limits
        self._answered = answered
        self._failed = failed
        self._on_check = on_check
        self._processes: dict[int, SolverProcess] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._start_failures = 0
        self._pace = BRISK_CHECK_SECONDS
        self._changed = asyncio.Event()
        """Set when a process has loaded z3, or will not."""
        self._closed = False

    @property
    def in_flight(self) -> int:
        return sum(len(process.held) for process in self._processes.values())

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of this machine that have been started and not lost."""
        return tuple(
            process.pid for process in self._processes.values() if process.pid and process.own
        )

    def submit(self, question: PendingQuestion) -> None:
        """Queues a question, or moves a queued one whose `priority` has changed."""
        self.backlog.push(question)
        self._pump()

    def add(self, count: int, spawn: Spawner) -> tuple[int, ...]:
        """Takes `count` places on another machine; gives their numbers."""
        first = max(self._places) + 1
        places = range(first, first + count)
        self._places.update(dict.fromkeys(places, spawn))
        self._pump()
        return tuple(places)

    def remove(self, places: Iterable[int]) -> None:
        """Gives places back; what was asked there is asked again elsewhere, by `lost`."""
        for place in places:
            self._places.pop(place, None)

    async def close(self) -> None:
        """Kills every process and returns when they are gone; no question is answered after it."""
        self._closed = True
        self.backlog.clear()
        processes = list(self._processes.values())
        # All are killed before any is waited for
        for process in processes:
            process.kill()
        await asyncio.gather(*self._tasks, *(process.reap() for process in processes))

    async def warm_up(self) -> None:
        """Fills every place, and returns when each process has loaded z3 or is gone."""
        while len(self._processes) < len(self._places) and not self._closed:
            self._spawn()
        while not self._closed and not all(process.ready for process in self._processes.values()):
            self._changed.clear()
            await self._changed.wait()

    def ready(self, process: SolverProcess) -> None:
        self._start_failures = 0
        self._changed.set()
        self._pump()

    def answered(
        self, process: SolverProcess, question: PendingQuestion, answer: SolverReply, start: float
    ) -> None:
        verdict = answer.verdict
        self.checks += 1
        self.cpu_seconds += verdict.seconds
        self.queue_seconds += max(start - question.asked, 0.0)
        # A moving mean over some eight checks
        self._pace += (verdict.seconds - self._pace) / 8
        # Before `_pump`, which would send it the next question
        if answer.retire:
            self._retire(process)
        self._pump()
        if self._on_check is not None:
            self._on_check(CheckRecord(process.index, start, time.monotonic(), verdict.status))
        if verdict.reason == Reason.MEMORY_LIMIT:
            self._fail(question, Reason.MEMORY_LIMIT)
        else:
            self._answered(question, verdict, process.own)

    def lost(self, process: SolverProcess) -> None:
        """Takes note that a process has gone, killed or not: the question it was thinking
        about is blamed."""
        if self._closed or self._processes.get(process.index) is not process:
            return
        self._remove(process)
        # A place that was taken back, or another machine that never came: nobody is to blame
        if process.index not in self._places or not (process.loaded or process.own):
            self._places.pop(process.index, None)
            for question in process.take_back():
                self.backlog.push(question)
            self._pump()
            return
        if not process.loaded:
            self._start_failures += 1
            # A process that says why it cannot load z3 need not be tried again
            if process.broken or self._start_failures == START_TRIES:
                self._give_up(process.broken or "the processes die while they load it")
                return
        self.restarts += 1
        held = process.take_back()
        # Questions that were sent ahead had not begun
        for innocent in held[1:]:
            self.backlog.push(innocent)
        self._pump()
        for blamed in held[:1]:
            self._fail(blamed, Reason.TIME_LIMIT if process.overdue else Reason.CRASH)

    def _retire(self, process: SolverProcess) -> None:
        for question in process.take_back():
            self.backlog.push(question)
        self._remove(process)
        self.restarts += 1
        process.kill()

    def _fail(self, question: PendingQuestion, reason: Reason) -> None:
        question.failures += 1
        if question.failures < TRIES and question.tickets:
            self.submit(question)
        else:
            self._answered(question, Verdict(Status.UNKNOWN, reason, question.rlimit), True)

    def _pump(self) -> None:
        while self.backlog and (process := self._least_busy()) is not None:
            process.submit(self.backlog.pop())
        # No more processes than questions: each costs tens of megabytes
        needed = min(len(self._places), self.in_flight + len(self.backlog))
        while len(self._processes) < needed and not self._closed:
            self._spawn()

    def _least_busy(self) -> SolverProcess | None:
        least = None
        # The process with the fewest questions, and none that has as many as it may have
        held = 2 if self._pace < BRISK_CHECK_SECONDS else 1
        for process in self._processes.values():
            if process.ready and len(process.held) < held:
                least = process
                held = len(process.held)
        return least

    def _spawn(self) -> None:
        index, spawn = next(
            vacancy for vacancy in self._places.items() if vacancy[0] not in self._processes
        )
        process = self._processes[index] = SolverProcess(index, self._limits, self, spawn)
        self._keep(self._start(process))

    async def _start(self, process: SolverProcess) -> None:
        try:
            await process.start()
        except OSError as error:
            if process.own:
                self._give_up(f"{error}")
            elif self._processes.get(process.index) is process:
                self._places.pop(process.index, None)
                self._remove(process)
                self._pump()

    def _give_up(self, reason: str) -> None:
        self._end(WorkerError(f"no z3 process can be started: {reason}"))

    def _end(self, error: WorkerError) -> None:
        if not self._closed:
            self._closed = True
            self._changed.set()
            self.backlog.clear()
            self._failed(error)

    def _remove(self, process: SolverProcess) -> None:
        del self._processes[process.index]
        self._changed.set()
        self._keep(process.reap())

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(WorkerError(f"the engine failed: {type(error).__name__}: {error}"))
