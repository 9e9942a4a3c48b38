"""Unfinished work: what an optimization has done so far, so that the next one need not do it again.

Problem: an optimization takes minutes, and its process may be killed at any moment. What it has
done is a sequence of units, each a question with one answer: which candidates there are, what one
compiles to, how a race ended, whether the device computes accurately. So each answer is written
when it is there, and an optimization that begins anew asks the same questions in the same order,
and finds those answers written that were given before.

Example: killed in its second race, an optimization of `rms_norm` has left 1 unit of candidates, 8
of compilation, 1 race and 1 check. The next one reads these eleven and runs the second race.

Invariants: a unit is whole or not there (a transaction of SQLite); it is named by all that it
depends on (`unit_name`), so that after any change it is another unit. What an answer that is kept
came from is forgotten, but for the checks of an answer that is to be raced again, and races
that noise left open are run again.

Cost: a row for each unit, which is some kilobytes for a race and the executable for a compilation;
the oldest rows go where all are more than `MOST_BYTES`.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec
from anyio import to_thread

from ...database import (
    DamagedError,
    FileFormat,
    UnavailableError,
    checksum,
    connect,
    inode_of,
    set_aside,
    transaction,
    translated,
)
from ...folders import NOWHERE
from ...processes import fault_points

MOST_BYTES = 256 * 10**6
"""Bytes of results that a file keeps: the newest."""
PATIENCE = 1.0
"""Seconds to wait for another process's lock; then a unit is not kept, which costs its time."""
SUFFIX = ".unfinished"
"""What the name of a store of results is followed by, beside which it lies."""

T = TypeVar("T")
F = TypeVar("F")

_TABLE = (
    "work (id INTEGER PRIMARY KEY, question BLOB, kind TEXT, unit BLOB, result BLOB, sum BLOB,"
    " UNIQUE (question, kind, unit))"
)
FORMAT = FileFormat(
    "a record of unfinished work",
    f"results.sqlite{SUFFIX}",
    0x61696F77,
    1,
    f"CREATE TABLE {_TABLE}",
    own=True,
)


class WorkKind(StrEnum):
    """What a unit of work is."""

    CANDIDATES = "candidates"
    """Rewriting and verifying: all that is to be tried."""
    KERNELS = "kernels"
    """Schedules near another one, or the source of one."""
    COMPILATION = "compilation"
    RACE = "race"
    CHECK = "check"
    """A comparison with float64 on the device."""


def unit_name(*parts: object) -> bytes:
    """16 bytes for all that a unit depends on."""
    return hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=16).digest()


class WorkStore:
    """The file beside a store of results, which several processes may use at once.

    As with `Results` nothing that happens to it is an error: what cannot be read is done again, and
    what cannot be written is not kept. Calls block.
    """

    def __init__(self, results: Path) -> None:
        """Opens nothing yet; the file of a store in memory alone is none."""
        nowhere = NOWHERE in results.parents
        self._path = None if nowhere else results.with_name(results.name + SUFFIX)
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._bytes = 0
        self._inode = 0

    def get(self, question: bytes, kind: WorkKind, unit: bytes) -> bytes | None:
        """The result of a unit; `None` where there is none."""

        def read(database: sqlite3.Connection) -> bytes | None:
            row = database.execute(
                "SELECT result, sum FROM work WHERE question = ? AND kind = ? AND unit = ?",
                (question, kind.value, unit),
            ).fetchone()
            if row is None:
                return None
            result, expected = row
            if checksum(unit, result) != expected:
                raise DamagedError("a row is not what was written")
            return bytes(result)

        return self._attempt(read)

    def put(self, question: bytes, kind: WorkKind, unit: bytes, result: bytes) -> None:
        """Keeps a result, in place of the oldest ones where there is no room."""

        def write(database: sqlite3.Connection) -> None:
            with transaction(database):
                database.execute(
                    "INSERT OR REPLACE INTO work (question, kind, unit, result, sum)"
                    " VALUES (?, ?, ?, ?, ?)",
                    (question, kind.value, unit, result, checksum(unit, result)),
                )
                # Tests end the process here, in the middle of a transaction.
                fault_points.point("work.put")
            self._bytes += len(result)
            if self._bytes > MOST_BYTES:
                self._make_room(database)

        self._attempt(write)

    def forget(
        self, question: bytes | None = None, kinds: Collection[WorkKind] = tuple(WorkKind)
    ) -> None:
        """Removes the work of these kinds for a question; without a question, for all."""
        where = f"kind IN ({', '.join('?' * len(kinds))})"
        values: tuple[bytes | str, ...] = tuple(kind.value for kind in kinds)
        if question is not None:
            where, values = f"{where} AND question = ?", (*values, question)

        def remove(database: sqlite3.Connection) -> None:
            database.execute(f"DELETE FROM work WHERE {where}", values)

        if self._path is not None and self._path.exists():
            self._attempt(remove)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _make_room(self, database: sqlite3.Connection) -> None:
        """Removes the oldest rows, so that half of the room is free."""
        with transaction(database):
            database.execute(
                "DELETE FROM work WHERE id <= (SELECT id FROM (SELECT id, sum(length(result)) OVER"
                " (ORDER BY id DESC) AS newer FROM work) WHERE newer > ? ORDER BY id DESC LIMIT 1)",
                (MOST_BYTES // 2,),
            )
        self._bytes = _size(database)

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        with self._lock:
            if self._path is None:
                return None
            try:
                with translated():
                    return work(self._opened(self._path))
            except DamagedError:
                # Its loss is the time that it would have saved: it is begun anew.
                self._close()
                with suppress(UnavailableError):
                    set_aside(self._path, self._inode)
            except UnavailableError:
                self._close()
            return None

    def _opened(self, path: Path) -> sqlite3.Connection:
        if self._database is None:
            self._inode = inode_of(path)
            self._database = connect(path, FORMAT, PATIENCE)
            self._inode = inode_of(path)
            self._bytes = _size(self._database)
        return self._database

    def _close(self) -> None:
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None


def _size(database: sqlite3.Connection) -> int:
    (size,) = database.execute("SELECT coalesce(sum(length(result)), 0) FROM work").fetchone()
    return int(size)


@dataclass
class WorkRecord:
    """The units of one question: what was done before is read, and what is done is written."""

    store: WorkStore
    question: bytes
    """The `Key.digest` of what is to be answered."""
    _asked: dict[bytes, int] = field(default_factory=dict)
    """How often a unit was asked for that may be asked for again, such as a race."""

    @classmethod
    def nowhere(cls) -> WorkRecord:
        """A record that keeps nothing."""
        return cls(WorkStore(NOWHERE / FORMAT.home), b"")

    async def once(
        self,
        kind: WorkKind,
        parts: Sequence[object],
        result: type[T],
        work: Callable[[], Awaitable[T | F]],
        keeps: Callable[[T], bool] = lambda outcome: True,
    ) -> T | F:
        """The result of a unit of work that all of `parts` name, which is done where it was not
        done before.

        What is of another type than `result`, such as a `Failure`, or not what `keeps` asks for, is
        not kept: it may be the machine's and not the unit's.
        """
        if kind is WorkKind.RACE:
            # A race that is run again for noise is another race each time.
            name = unit_name(*parts)
            self._asked[name] = self._asked.get(name, 0) + 1
            parts = (*parts, self._asked[name])
        stored = await self.recall(kind, parts, result)
        if stored is not None:
            return stored
        outcome = await work()
        if isinstance(outcome, result) and keeps(outcome):
            await self.keep(kind, parts, outcome)
        return outcome

    async def recall(self, kind: WorkKind, parts: Sequence[object], result: type[T]) -> T | None:
        """The result of a unit that was done before; `None` where it was not."""
        unit = unit_name(*parts)
        stored = await to_thread.run_sync(self.store.get, self.question, kind, unit)
        if stored is None:
            return None
        try:
            return msgspec.msgpack.decode(stored, type=result)
        except msgspec.DecodeError:  # what another version wrote is done again
            return None

    async def keep(self, kind: WorkKind, parts: Sequence[object], outcome: object) -> None:
        """Keeps the result of a unit."""
        encoded, unit = msgspec.msgpack.encode(outcome), unit_name(*parts)
        await to_thread.run_sync(self.store.put, self.question, kind, unit, encoded)

    async def forget(self, kinds: Collection[WorkKind] = tuple(WorkKind)) -> None:
        """Removes what was kept of these kinds."""
        await to_thread.run_sync(self.store.forget, self.question, kinds)
