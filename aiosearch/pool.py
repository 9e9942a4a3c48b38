"""A pool of workers that outlives searches and serves many of them at once."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import anyio

from .checks import CheckRecord, Verifier
from .engine.slots import LocalSlot, Member, ProcessSlot
from .engine.wire import End, Ping, ToHost, ToWorker
from .errors import AiosearchError, WorkerError

MOST_SILENT_DEATHS = 3
ANSWER_SECONDS = 1.0
"""A worker silent for so long after its search ended is stuck in an expand, and others wait."""
PATIENT_SECONDS = 10.0
"""The same where it may be another search's expand that takes so long."""


class Pool:
    """Worker processes, and the z3 processes and verdict cache they share.

    Every search that runs on a pool has a session on each worker, and a worker gives its sessions
    equal slices: fifty searches share two workers fairly. `workers=0` is the host's own process.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        checkers: int | None = None,
        cache: Path | str | Literal["default"] | None = "default",
        check_seconds: float = 10.0,
        check_rlimit: int = 80_000,
    ) -> None:
        if workers is None:
            workers = usable_cores()
        if workers < 0:
            raise AiosearchError(f"workers must be 0 or more, not {workers}")
        if sys.platform == "win32":
            raise AiosearchError("aiosearch needs Unix sockets and signals, and so not Windows")
        self.workers = workers
        self._checkers = max(workers, 1) if checkers is None else checkers
        self._cache: Path | Literal["default"] | None = (
            "default" if cache == "default" else Path(cache) if cache else None
        )
        self._check_seconds = check_seconds
        self._check_rlimit = check_rlimit
        self._slots: list[ProcessSlot | LocalSlot] = []
        self._members: dict[int, Member] = {}
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent_deaths = 0
        self._replacing: set[int] = set()
        self._ended: set[int] = set()
        self._verifier: Verifier | None = None
        self._opening: asyncio.Lock | None = None
        self._closed = False
        self._open = False

    async def __aenter__(self) -> Pool:
        if self._open or self._closed:
            raise AiosearchError("a pool can be opened once")
        require_asyncio()
        self._open = True
        self._opening = asyncio.Lock()
        try:
            if self.workers == 0:
                local = LocalSlot(0, self._deliver, self._members.get)
                self._slots.append(local)
                self._spawn_task(local.run())
            for seat in range(self.workers):
                slot = ProcessSlot(seat, self._deliver, self._gone)
                self._slots.append(slot)
                await slot.start()
        except OSError as error:
            await self.close()
            raise WorkerError(f"cannot start a worker process: {error}") from error
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def seats(self) -> int:
        return max(self.workers, 1)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the workers that live now."""
        return tuple(slot.pid for slot in self._slots if slot.alive and slot.pid)

    @property
    def verifier(self) -> Verifier | None:
        """The verification service, once a search has needed it."""
        return self._verifier

    def memory(self) -> int:
        """Bytes resident in the pool's processes, or in the host's where it is the worker."""
        pids = [*self.pids, *(self._verifier.pids if self._verifier else ())]
        if self.workers == 0:
            pids.append(os.getpid())
        return sum(map(resident_bytes, pids))

    async def close(self) -> None:
        """Ends every process of the pool and waits until it is gone. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            for slot in self._slots:
                if isinstance(slot, ProcessSlot):
                    slot.kill()
            self._fail_all(AiosearchError("the pool was closed while the search ran"))
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            if self._verifier is not None:
                await self._verifier.__aexit__(None, None, None)
            await asyncio.gather(*tasks, return_exceptions=True)
            for slot in self._slots:
                if isinstance(slot, ProcessSlot):
                    slot.kill()
                    await slot.reap()

    async def ready_verifier(self) -> Verifier:
        """Opens the verification service; its processes start with the first question."""
        assert self._opening is not None
        async with self._opening:
            if self._verifier is None:
                verifier = Verifier(
                    self._checkers,
                    cache=self._cache,
                    seconds=self._check_seconds,
                    rlimit=self._check_rlimit,
                    warn=self._warn,
                    on_check=self._checked,
                    on_failure=self._fail_askers,
                )
                self._verifier = await verifier.__aenter__()
        return self._verifier

    def new_id(self) -> int:
        return next(self._ids)

    def attach(self, member: Member) -> None:
        """Gives a search a seat at every worker."""
        if not self._open or self._closed:
            raise AiosearchError("the pool is not open; use `async with aiosearch.Pool() as pool`")
        self._members[member.id] = member
        self._silent_deaths = 0
        for slot in self._slots:
            if slot.alive:
                member.joined(slot.seat, slot.pid)
            else:
                self._gone(slot.seat)

    def detach(self, member: Member) -> None:
        if self._members.pop(member.id, None) is not None:
            for slot in self._slots:
                slot.send(End(member.id))

    def send(self, seat: int, message: ToWorker) -> None:
        self._slots[seat].send(message)

    def probe(self, seat: int) -> None:
        """Ends a worker that does not answer within a second; a new one takes its seat."""
        slot = self._slots[seat]
        if isinstance(slot, ProcessSlot) and slot.alive:
            slot.send(Ping())
            heard, pid = slot.heard, slot.pid

            def look() -> None:
                if slot.pid == pid and slot.heard == heard and not self._closed:
                    self._ended.add(seat)
                    slot.kill()

            others = any(member.busy(seat) for member in self._members.values())
            patience = PATIENT_SECONDS if others else ANSWER_SECONDS
            asyncio.get_running_loop().call_later(patience, look)

    def _deliver(self, seat: int, message: ToHost) -> None:
        self._silent_deaths = 0
        if member := self._members.get(message.session):
            member.receive(seat, message)

    def _gone(self, seat: int) -> None:
        if not self._closed and seat not in self._replacing:
            self._replacing.add(seat)
            self._spawn_task(self._replace(seat))

    async def _replace(self, seat: int) -> None:
        try:
            while not await self._replaced(seat):
                continue
        finally:
            self._replacing.discard(seat)

    async def _replaced(self, seat: int) -> bool:
        """Puts a new worker in a seat; says whether there is nothing more to do."""
        slot = self._slots[seat]
        assert isinstance(slot, ProcessSlot)
        slot.kill()
        await slot.reap()
        blame = seat not in self._ended
        self._ended.discard(seat)
        self._silent_deaths += blame and not slot.heard
        reason = _manner_of_death(slot)
        for member in list(self._members.values()):
            member.lost(seat, reason, blame)
        if self._silent_deaths >= MOST_SILENT_DEATHS:
            self._fail_all(WorkerError(f"worker processes die before they do anything: {reason}"))
            return True
        try:
            await slot.start()
        except OSError as error:
            self._fail_all(WorkerError(f"cannot start a worker process: {error}"))
            return True
        if not slot.alive:
            return False
        for member in list(self._members.values()):
            member.joined(seat, slot.pid)
        return True

    def _fail_all(self, error: Exception) -> None:
        for member in list(self._members.values()):
            member.fail(error)

    def _fail_askers(self, error: Exception) -> None:
        for member in list(self._members.values()):
            if member.asks:
                member.fail(error)

    def _warn(self, message: str) -> None:
        for member in list(self._members.values()):
            member.warn(message)

    def _checked(self, record: CheckRecord) -> None:
        for member in list(self._members.values()):
            member.checked(record)

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() and not self._closed:
            self._fail_all(WorkerError("the engine's own task was cancelled from inside"))
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail_all(WorkerError(f"the engine failed: {type(error).__name__}: {error}"))


def _manner_of_death(slot: ProcessSlot) -> str:
    code = slot.child.returncode if slot.child else None
    if code is None:
        return "it is gone"
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resident_bytes(pid: int) -> int:
    """Memory that a process really occupies; 0 where that cannot be told."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_bytes().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def require_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise AiosearchError(
            "aiosearch runs on asyncio (uvloop included); there is no running asyncio loop here"
        ) from None
