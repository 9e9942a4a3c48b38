"""The journal that makes a search resumable: what is finished, appended in batches.

The problem: a search of days must survive `kill -9` at any moment, without slowing down for it.
What is written is the transactions of the `Coordinator`, so that the file adds up to a state in
which every open subtree is there once.

A batch is in the operating system's hands about 50 ms after its records were given, so that `kill
-9` takes no more than that. It is forced to the disk every second while records come, at a snapshot
and at the end. A journal that has grown far beyond the state it stands for is replaced by a
snapshot of that state. The file of a small search:

    4be1d07a {"aiosearch":"0.1.0","problem":"shop:Knapsack", ...}
    193cfaa0 {"opened":[[1,0,0.0,1,"",0,1.0]]}
    b842df97 {"closed":[1],"opened":[[2,0,3.0,40,"AA==",3,0.75]],"counts":{"nodes":1000},...}

Invariants: a line counts if its checksum is right and it is not the first part of a cut
transaction; the file at `path` is at any moment a whole journal (a snapshot grows beside it and
replaces it by a rename); records that come during a snapshot go to both files.

Cost: `write` takes a microsecond on the loop, encoding some 64 KB a millisecond, and files are
written by threads (benchmarks/lag.py). See docs/why/design.md.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

from msgspec import Struct

from ...errors import JournalError
from ...processes import fault_points
from .owned_file import OwnedFile, beside
from .records import JournalHeader, JournalRecord, JournalState, lines, seal
from .replay import check_header, read_header, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .records import JournalRecord


BATCH_SECONDS = 0.05
"""Seconds for which a record waits for others to be written with it."""
MANY_BYTES = 256 * 1024
"""This many bytes are written at once, without waiting."""
PIECE_BYTES = 64 * 1024
"""Bytes that `take` gives at once, so that encoding them never holds up the loop."""


class Batches:
    """A queue of `JournalRecord`s that one task empties, a batch at a time."""

    def __init__(self) -> None:
        self._records: deque[JournalRecord] = deque()
        self._bytes = 0
        self._some = asyncio.Event()
        self._many = asyncio.Event()
        self.closed = False

    def put(self, record: JournalRecord) -> None:
        self._records.append(record)
        self._bytes += record.weight
        self._some.set()
        if self._bytes >= MANY_BYTES:
            self._many.set()

    def close(self) -> None:
        """Ends the waiting: `due` returns, and what is there is written."""
        self.closed = True
        self._some.set()
        self._many.set()

    async def due(self) -> None:
        """Returns when records have gathered for long enough, or there are many."""
        await self._some.wait()
        with contextlib.suppress(TimeoutError):
            # The first record waits for others, but never longer than this: it is what a crash may
            # cost
            await asyncio.wait_for(self._many.wait(), BATCH_SECONDS)

    def take(self) -> list[JournalRecord]:
        """Gives the next records: one, or several of about `PIECE_BYTES`; none when none
        are left."""
        batch: list[JournalRecord] = []
        size = 0
        while self._records and size < PIECE_BYTES:
            record = self._records.popleft()
            size += record.weight
            batch.append(record)
        self._bytes -= size
        # After `close` the events stay set, or the writer would wait for records that never come
        if not self._records and not self.closed:
            self._some.clear()
            self._many.clear()
        return batch


SYNC_SECONDS = 1.0
RETRY_SECONDS = 30.0
"""Seconds after a failure before a snapshot is tried again."""
COMPACT_BYTES = 8 * 1024 * 1024
"""A smaller journal, in bytes, is never replaced by a snapshot."""
NOTHING = JournalRecord()


class JournalStatistics(Struct, frozen=True):
    """What a `Journal` has done so far."""

    records: int
    bytes: int
    """Written in all, snapshots included."""
    snapshots: int
    seconds: float
    """Seconds spent waiting for the file system, beside the search."""
    trusted: bool
    """False while the file lacks records because it could not be written."""


class Journal:
    """A journal file that this process owns until `close`.

    `write` costs a microsecond. When the disk is full the search goes on: the file keeps what
    it had, `warn` is called, and now and then a snapshot tries to make it complete again.
    """

    def __init__(
        self,
        path: Path,
        file: OwnedFile,
        header: JournalHeader,
        state: JournalState,
        warn: Callable[[str], None],
    ) -> None:
        self._path = path
        self._file = file
        self._header = header
        self._state = state
        self._warn = warn
        self._trusted = True
        self._batches = Batches()
        self._writing = asyncio.Lock()
        self._tail: list[bytes] | None = None
        self._snapshot: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._synced = self._retry = perf_counter()
        self._records = self._bytes = self._snapshots = 0
        self._seconds = 0.0

    @classmethod
    async def create(
        cls,
        path: Path,
        header: JournalHeader,
        warn: Callable[[str], None],
        first: JournalRecord = NOTHING,
    ) -> Journal:
        """Starts a journal, with a `first` record in it as soon as the file is there.

        A file that is there already is never overwritten.
        """
        with _explained(path):
            file = await OwnedFile.make(path, seal(header) + seal(first))
        state = JournalState(header)
        state.apply(first)
        journal = cls(path, file, header, state, warn)
        journal._start()
        return journal

    @classmethod
    async def resume(
        cls, path: Path, header: JournalHeader, warn: Callable[[str], None]
    ) -> tuple[Journal, JournalState]:
        """Goes on with a journal; its header must agree with `header` about what nodes mean.

        The state is the journal's own: read it before the first `write`, and change nothing.
        """
        with _explained(path):
            file = await OwnedFile.open(path)
            try:
                check_header(path, read_header(path), header)
                state, whole = await replay(path)
                if torn := file.size - whole:
                    await file.truncate(whole)
                    warn(f"{path}: cut off {torn} bytes at the end, which a crash had torn")
                # A snapshot that a crash cut short: the file at `path` is whole, so it is worth
                # nothing
                beside(path).unlink(missing_ok=True)
            except BaseException:
                await file.close()
                raise
        journal = cls(path, file, header, state, warn)
        journal._start()
        return journal, state

    def write(self, record: JournalRecord) -> None:
        """Adds one transaction; it reaches the file soon, in order, whole or not at all."""
        self._batches.put(record)

    async def close(self) -> None:
        """Writes what is waiting to the disk and lets the file go. Safe to call twice."""
        self._batches.close()
        if self._task is not None:
            # Shielded: a cancelled `close` must not leave records unwritten
            await asyncio.shield(self._task)

    def statistics(self) -> JournalStatistics:
        return JournalStatistics(
            self._records, self._bytes, self._snapshots, self._seconds, self._trusted
        )

    def _start(self) -> None:
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._stopped)

    def _stopped(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._trusted = False
            self._warn(f"the journal {self._path} stopped: {error!r}")

    async def _run(self) -> None:
        try:
            while not self._batches.closed:
                await self._batches.due()
                await self._flush()
            await self._finish()
        finally:
            await self._file.close()

    async def _finish(self) -> None:
        await self._flush()
        if self._snapshot is not None:
            await self._snapshot
        if not self._trusted:
            await self._try_compact()
        await self._sync()

    async def _flush(self) -> None:
        # A piece at a time: between two, the loop and a snapshot have their turn
        while records := self._batches.take():
            async with self._writing:
                # The state first: a snapshot that begins now must hold what the tail does not
                for record in records:
                    self._state.apply(record)
                self._records += len(records)
                for batch in lines(records):
                    # A snapshot is being written: it holds the state as it began, so it needs this
                    # batch as well
                    if self._tail is not None:
                        self._tail.append(batch)
                    if self._trusted:
                        await self._append(batch)
            await self._tend()

    async def _tend(self) -> None:
        if perf_counter() - self._synced > SYNC_SECONDS:
            await self._sync()
        # Not in the middle of `_flush`'s batch, whose records are in the state but not yet in the
        # file
        if self._snapshot_due():
            self._snapshot = asyncio.create_task(self._try_compact())

    async def _append(self, batch: bytes) -> None:
        # For the tests of crashes: half a batch is what a torn write leaves
        if fault_points.armed("journal.batch"):
            await self._file.append(batch[: len(batch) // 2])
            fault_points.die()
        try:
            await self._write(self._file, batch)
        except OSError as error:
            self._lose_trust(error)

    async def _write(self, file: OwnedFile, data: bytes) -> None:
        started = perf_counter()
        await file.append(data)
        self._bytes += len(data)
        self._seconds += perf_counter() - started

    async def _sync(self) -> None:
        async with self._writing:
            self._synced = perf_counter()
            try:
                await self._file.sync()
            except OSError as error:
                self._lose_trust(error)
            self._seconds += perf_counter() - self._synced

    def _lose_trust(self, error: OSError) -> None:
        self._retry = perf_counter() + RETRY_SECONDS
        if self._trusted:
            self._trusted = False
            self._warn(
                f"the journal {self._path} cannot be written ({error.strerror}): the search goes"
                " on, but unless there is room again, resuming it would start from here"
            )

    def _snapshot_due(self) -> bool:
        if perf_counter() < self._retry or not (self._snapshot is None or self._snapshot.done()):
            return False
        # Four times the state: the file is rewritten when three quarters of it are history
        large = self._file.size > max(COMPACT_BYTES, 4 * self._state.weight)
        return large or not self._trusted

    async def _try_compact(self) -> None:
        try:
            await self._compact()
        except OSError:  # the file that is there goes on
            self._retry = perf_counter() + RETRY_SECONDS

    async def _compact(self) -> None:
        """Replaces the file by a snapshot, in small steps beside the batches."""
        partial = beside(self._path)
        partial.unlink(missing_ok=True)
        file = await OwnedFile.create(partial)
        try:
            async with self._writing:  # no batch is half in the state
                parts = self._state.snapshot()
                self._tail = []
            replaced = await self._fill(file, parts)
        except BaseException:
            await file.close()
            partial.unlink(missing_ok=True)
            raise
        finally:
            self._tail = None
        self._snapshots += 1
        if not self._trusted:
            self._trusted = True
            self._warn(f"the journal {self._path} is complete again")
        with contextlib.suppress(OSError):
            await replaced.close()

    async def _fill(self, file: OwnedFile, parts: Iterator[JournalRecord]) -> OwnedFile:
        """Writes a snapshot, then the batches in `_tail`, which came meanwhile, and puts it
        in place of the old file."""
        await self._write(file, seal(self._header))
        for part in parts:
            await self._write(file, seal(part))
        await file.sync()
        async with self._writing:
            for batch in self._tail or ():
                await self._write(file, batch)
            fault_points.point("journal.rename")
            await file.replace(self._path)
            fault_points.point("journal.rename")
            # Under `_writing`: the next batch goes to the new file
            replaced, self._file = self._file, file
        return replaced


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JournalError(f"cannot use the journal {path}: {error.strerror}") from error
