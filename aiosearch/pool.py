"""A pool of workers that outlives searches and serves many of them at once."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import anyio

from .arguments import is_path, is_whole, require
from .checks import CheckRecord, Verifier
from .engine.wire.messages import End, Ping, ToHost, ToWorker
from .engine.worker.slots import Deliver, LocalSlot, PoolMember, ProcessSlot, spawner
from .engine.worker.work_sharing import Bell
from .errors import AiosearchError, WorkerError
from .processes.child import Handle

if TYPE_CHECKING:
    from .remote.links import Listener
    from .remote.machines import Machines

MOST_WORKERS = 4096
"""Workers of one machine; a mistyped number should not start a million processes."""
MOST_PATIENCE = 24 * 3600.0
MOST_SILENT_DEATHS = 3
ANSWER_SECONDS = 1.0
"""Seconds; a worker silent for so long after its search ended is stuck in an `expand`, and others
wait."""
PATIENT_SECONDS = 10.0
"""Seconds where it may be another search's `expand` that takes so long."""
_WANTED = {
    "workers": ("0 or more", lambda value: value is None or (is_whole(value) and value >= 0)),
    "cache": ("a path, 'default' or None", lambda value: value is None or is_path(value)),
}


class Pool:
    """Worker processes, and the z3 processes and verdict cache they share.

    Every search that runs on a pool has a session on each worker, and a worker gives its sessions
    equal slices: fifty searches share two workers fairly. `workers=0` is the host's own process;
    with a `listener`, over which other machines come and go as they like, it is those alone. One
    that is silent for `patience` seconds is done without.

    `verdicts="private"` is for measuring what it is worth to share them: each worker, or machine,
    has the questions asked again that others have asked.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        checkers: int | None = None,
        cache: Path | str | Literal["default"] | None = "default",
        check_seconds: float = 10.0,
        check_rlimit: int = 80_000,
        listener: Listener | None = None,
        patience: float = 5.0,
        verdicts: Literal["shared", "private"] = "shared",
    ) -> None:
        if workers is None:
            workers = 0 if listener is not None and listener.covers_here else usable_cores()
        require(_WANTED, workers=workers, cache=cache)
        if workers > MOST_WORKERS:
            raise AiosearchError(f"a machine has {MOST_WORKERS} workers at most, not {workers}")
        if not 0 < patience <= MOST_PATIENCE:
            raise AiosearchError(
                f"patience must be above 0 seconds and a day at most, not {patience:g}"
            )
        if sys.platform == "win32":
            raise AiosearchError("aiosearch needs Unix sockets and signals, and so not Windows")
        self.workers = workers
        if verdicts not in ("shared", "private"):
            raise AiosearchError(f"verdicts must be 'shared' or 'private', not {verdicts!r}")
        self.private_verdicts = verdicts == "private"
        self._checkers = max(workers, 1) if checkers is None else checkers
        self._cache: Path | Literal["default"] | None = (
            "default" if cache == "default" else Path(cache) if cache else None
        )
        self._check_seconds = check_seconds
        self._check_rlimit = check_rlimit
        self._machines: Machines | None = None
        if listener is not None:
            from .remote.machines import Machines  # most searches need no other machine

            self._machines = Machines(listener, self, patience)
        self._slots: list[ProcessSlot | LocalSlot] = []
        self._members: dict[int, PoolMember] = {}
        # From 1: 0 is the session of messages that belong to none
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent_deaths = 0
        self._replacing: set[int] = set()
        self._vacant: set[int] = set()
        """Seats that machines have left; the next ones take them."""
        self._ended: set[int] = set()
        self._bell = Bell(-1)
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
        self._bell = Bell.make()
        try:
            if self.workers == 0 and self._machines is None:
                local = LocalSlot(0, self._deliver, self._members.get)
                self._slots.append(local)
                self._spawn_task(local.run())
            for seat in range(self.workers):
                slot = ProcessSlot(seat, self._deliver, self._gone, spawner(self._bell))
                self._slots.append(slot)
                # One after the other: each is a fork of a millisecond, and the first one starts the
                # fork server
                await slot.start()
            if self._machines is not None:
                await self._machines.start()
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
        """Slots for workers of this machine."""
        return self.workers if self._machines else max(self.workers, 1)

    @property
    def spreads(self) -> bool:
        """Whether searches run in other processes than this one."""
        return self.workers > 0 or self._machines is not None

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of this machine's workers that live now."""
        return tuple(slot.pid for slot in self._slots if slot.alive and slot.pid and not slot.host)

    @property
    def machines(self) -> Machines | None:
        """The other `Machines` that serve it, where they may."""
        return self._machines

    @property
    def members(self) -> tuple[PoolMember, ...]:
        """The searches that run on it now."""
        return tuple(self._members.values())

    @property
    def heard(self) -> tuple[Deliver, Callable[[int], None]]:
        """What slots of other machines are to call: for a message (`Deliver`), and for a death."""
        return self._deliver, self._gone

    @property
    def verifier(self) -> Verifier | None:
        """The `Verifier`, once a search has needed it."""
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
            # Workers are dead by now, so no search can hear anything more than this
            self._fail_all(AiosearchError("the pool was closed while the search ran"))
            if self._machines is not None:
                await self._machines.close()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            if self._verifier is not None:
                await self._verifier.__aexit__(None, None, None)
            await asyncio.gather(*tasks, return_exceptions=True)
            for slot in self._slots:
                if isinstance(slot, ProcessSlot) and not slot.host:
                    slot.kill()
                    await slot.reap()
            self._bell.close()

    async def ready_verifier(self) -> Verifier:
        """Opens the verification service; its processes start with the first question."""
        assert self._opening is not None
        # Two searches may come at the same moment, and there is one service for both
        async with self._opening:
            if self._verifier is None:
                verifier = Verifier(
                    self._checkers,
                    cache=self._cache,
                    seconds=self._check_seconds,
                    rlimit=self._check_rlimit,
                    warn=self.warn,
                    on_check=self._checked,
                    on_failure=self._fail_askers,
                )
                self._verifier = await verifier.__aenter__()
                if self._machines is not None:
                    self._machines.lend_checkers(verifier)
        return self._verifier

    def new_id(self) -> int:
        return next(self._ids)

    def attach(self, member: PoolMember) -> None:
        """Gives a search a session at every worker."""
        if not self._open or self._closed:
            raise AiosearchError("the pool is not open; use `async with aiosearch.Pool() as pool`")
        self._members[member.id] = member
        self.note(member)
        self._silent_deaths = 0
        for slot in self._slots:
            if slot.alive and self._stays(slot):
                member.joined(slot.seat, slot.pid, slot.host)
            elif not slot.alive and slot.seat not in self._vacant:
                self._gone(slot.seat)

    def detach(self, member: PoolMember) -> None:
        if self._members.pop(member.id, None) is not None:
            for slot in self._slots:
                slot.send(End(member.id))
            self._rested()

    def note(self, member: PoolMember) -> None:
        """Tells the `Machines`' notebook that a search has begun, or found something."""
        if self._machines is not None:
            self._machines.note(member)

    def send(self, seat: int, message: ToWorker) -> int:
        """Sends a message to a seat's worker; gives how many bytes it is."""
        return self._slots[seat].send(message)

    def probe(self, seat: int) -> None:
        """Ends a worker that does not answer within `ANSWER_SECONDS`; a new one takes its seat."""
        slot = self._slots[seat]
        if isinstance(slot, ProcessSlot) and slot.alive:
            shared = any(member.busy(seat) for member in self._members.values())
            patience = PATIENT_SECONDS if shared else ANSWER_SECONDS
            slot.probe(Ping(), patience, partial(self._silent, slot, slot.child))

    def _silent(self, slot: ProcessSlot, probed: Handle | None) -> None:
        # The worker that was asked, and not the next one in its seat
        if slot.child is probed and slot.alive and not self._closed:
            self._ended.add(slot.seat)
            slot.kill()

    def _deliver(self, seat: int, message: ToHost, size: int) -> None:
        self._silent_deaths = 0
        if member := self._members.get(message.session):
            member.receive(seat, message, size)
        if self._machines is not None:
            self._machines.rested(seat)

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
        forever = not self._stays(slot)
        # Ended by us, or gone with its machine: its work is innocent
        blame = seat not in self._ended and not forever
        self._ended.discard(seat)
        # A worker that died before it said anything: some of these in a row mean that none can live
        # here
        self._silent_deaths += blame and not slot.heard
        reason = slot.child.death if slot.child else "it never came"
        for member in list(self._members.values()):
            member.lost(seat, reason, blame, forever)
        if forever:
            self._vacant.add(seat)
            self._rested()
            return True
        if self._silent_deaths >= MOST_SILENT_DEATHS:
            self._fail_all(WorkerError(f"worker processes die before they do anything: {reason}"))
            return True
        try:
            await slot.start()
        except OSError as error:
            if slot.host:
                self._vacate(slot, f"cannot start a worker process: {error}")
            else:
                self._fail_all(WorkerError(f"cannot start a worker process: {error}"))
            return True
        if not slot.alive:
            return False
        self._join(slot)
        return True

    def takers(self, member: PoolMember, seat: int, owner: int) -> Mapping[int, int] | None:
        """Who has taken what a dead worker of another machine had offered, if that is known yet."""
        return self._machines.takers(member.id, seat, owner) if self._machines else {}

    def is_here(self, seat: int) -> bool:
        """Whether a seat's worker is a process of this machine."""
        return seat < self.workers

    def release_claims(self, member: PoolMember, seat: int, owner: int, committed: int) -> None:
        """Voids the claims of a dead worker on the machine where they were made, if that is
        another."""
        if self._machines is not None:
            self._machines.release(member.id, seat, owner, committed)

    def refusals(self, member: PoolMember) -> Mapping[str, str]:
        """Which machines do not serve a search, and why."""
        return self._machines.refusals(member.id) if self._machines else {}

    def vacant_seat(self) -> int:
        """A seat for one more worker."""
        return min(self._vacant, default=len(self._slots))

    def occupy(self, slot: ProcessSlot) -> None:
        """Puts a worker of another machine in its seat."""
        self._vacant.discard(slot.seat)
        # A slice: it replaces the seat's slot, or appends one where the seat is new
        self._slots[slot.seat : slot.seat + 1] = [slot]
        self._replacing.add(slot.seat)
        self._spawn_task(self._occupied(slot))

    async def _occupied(self, slot: ProcessSlot) -> None:
        try:
            await slot.start()
        except OSError as error:
            self._vacate(slot, str(error))
            return
        finally:
            self._replacing.discard(slot.seat)
        if slot.alive:
            self._join(slot)
        else:  # it is gone again, and nobody was told
            self._gone(slot.seat)

    def _join(self, slot: ProcessSlot) -> None:
        if self._stays(slot):
            for member in list(self._members.values()):
                member.joined(slot.seat, slot.pid, slot.host)

    def _stays(self, slot: ProcessSlot | LocalSlot) -> bool:
        return self._machines is None or self._machines.stays(slot.seat)

    def _rested(self) -> None:
        """Seats have come to rest, and no worker says so: one has ended, or a search has."""
        if self._machines is not None:
            self._machines.let_go()

    def _vacate(self, slot: ProcessSlot, reason: str) -> None:
        """A seat of another machine has no worker, and gets none."""
        self._vacant.add(slot.seat)
        for member in list(self._members.values()):
            member.lost(slot.seat, reason, blame=False, forever=True)

    def _fail_all(self, error: Exception) -> None:
        for member in list(self._members.values()):
            member.fail(error)

    def _fail_askers(self, error: Exception) -> None:
        for member in list(self._members.values()):
            if member.asks:
                member.fail(error)

    def warn(self, message: str) -> None:
        """Warns every search."""
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


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resident_bytes(pid: int) -> int:
    """Bytes of memory that a process really occupies; 0 where that cannot be told."""
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
