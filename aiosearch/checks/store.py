"""Verdicts on disk: an SQLite file that several processes use, and the thread that owns it.

Every call of `VerdictStore` blocks; in a running service the thread of an `Archive` makes them all,
and says what is done when the file fails.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ..database import (
    BusyError,
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
from ..processes import fault_points
from .cache import HOME
from .verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

ROWS = 500_000
"""What a file keeps: the newest. A row takes some 80 bytes here, its digest 100 in the host."""
PATIENCE = 1.0
"""Seconds to wait for another process's lock."""
SHARE = 64
"""Rows between two moments in which the event loop's thread may run, see `let_others_run`."""

_TABLE = "verdicts (id INTEGER PRIMARY KEY, digest BLOB UNIQUE, verdict BLOB, sum BLOB, made REAL)"
FORMAT = FileFormat("a verdict cache", HOME, 0x61696F73, 2, f"CREATE TABLE {_TABLE}")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Verdict).decode


class VerdictStore:
    """An open cache file. Used and closed by the thread that opened it."""

    def __init__(self, path: Path) -> None:
        """Opens the file, or makes it. Raises the errors of a database, as every method does."""
        self._database = connect(path, FORMAT, PATIENCE)

    def digests(self) -> set[bytes]:
        digests: set[bytes] = set()
        with translated():
            cursor = self._database.execute("SELECT digest FROM verdicts")
            while rows := cursor.fetchmany(2 * SHARE):
                digests.update(digest for (digest,) in rows)
                let_others_run()
        return digests

    def get(self, digest: bytes) -> Verdict | None:
        """Gives a verdict whose checksum is right, or None."""
        with translated():
            row = self._database.execute(
                "SELECT verdict, sum FROM verdicts WHERE digest = ?", (digest,)
            ).fetchone()
        return None if row is None else validated(digest, *row)

    def insert(self, verdicts: Iterable[tuple[bytes, Verdict]]) -> None:
        """Stores all of them or none, in place of older verdicts and of the oldest rows."""
        now = time.time()
        rows = [(digest, raw := _encode(v), checksum(digest, raw), now) for digest, v in verdicts]
        with translated(), transaction(self._database):
            for start in range(0, len(rows), SHARE):
                self._database.executemany(
                    "INSERT OR REPLACE INTO verdicts (digest, verdict, sum, made)"
                    " VALUES (?, ?, ?, ?)",
                    rows[start : start + SHARE],
                )
                let_others_run()
            self._database.execute(
                "DELETE FROM verdicts WHERE id <= (SELECT max(id) FROM verdicts) - ?", (ROWS,)
            )
            fault_points.point("verdict.insert")

    def oldest(self) -> float | None:
        """When the oldest verdict was written, in seconds since 1970; None where there is none."""
        with translated():
            query = self._database.execute("SELECT min(made) FROM verdicts")
            row: tuple[float | None] = query.fetchone()
        return row[0]

    def remove_before(self, moment: float) -> int:
        """Removes what was written before a time, and says how many there were."""
        return self._remove("made < ?", moment)

    def keep(self, newest: int) -> int:
        """Removes all but so many of the newest; says how many there were."""
        return self._remove("id <= (SELECT max(id) FROM verdicts) - ?", newest)

    def _remove(self, condition: str, *values: float) -> int:
        with translated():
            count = self._database.execute(
                f"DELETE FROM verdicts WHERE {condition}", values
            ).rowcount
            self._database.execute("VACUUM")
            return count

    def rows(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        with translated():
            yield from self._database.execute("SELECT digest, verdict, sum FROM verdicts")

    def clear(self) -> int:
        """Removes every row, gives the space back and says how many there were."""
        return self._remove("1")

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._database.close()


def let_others_run() -> None:
    """Waits a moment: a thread that calls SQLite row by row keeps the interpreter's lock from the
    others for the whole switch interval of 5 ms, though it gives it up at every row."""
    time.sleep(0.0001)


def validated(digest: bytes, verdict: bytes, expected: bytes) -> Verdict:
    """Decodes a row; raises `DamagedError` when it is not what was written."""
    try:
        if checksum(digest, verdict) == expected:
            return _decode(verdict)
    except (TypeError, msgspec.DecodeError):
        pass
    raise DamagedError("a row is not what was written")


Rows: TypeAlias = "list[tuple[bytes, Verdict]]"
TRIES = 3
"""A new file may be damaged anew, if hardly ever; then verdicts stay in memory."""
MAX_PENDING_VERDICTS = 4096
"""Verdicts that wait for another process's lock; older ones are forgotten."""


class Archive:
    """Reads and writes verdicts on a thread of its own, in the order of the calls.

    Nothing that happens to the file is an error: a damaged one is set aside and a new one begun,
    an unusable one is done without, and so is one that is something else; `warn` is told, in the
    event loop, and reads find nothing.
    """

    def __init__(
        self, path: Path, warn: Callable[[str], None], opened: Callable[[set[bytes]], None]
    ) -> None:
        """Calls `opened`, in the event loop, with the digests that the file holds."""
        self._path = path
        self._warn = warn
        self._opened = opened
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._finished = asyncio.Event()
        self._store: VerdictStore | None = None
        self._inode = 0
        self._late: Rows = []
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="aiosearch-verdicts", daemon=True)
        # A daemon: a host that leaves without `close` must not wait for a locked file
        self._thread.start()

    def read(self, digests: list[bytes], reply: Callable[[dict[bytes, Verdict]], None]) -> None:
        """Calls `reply` in the event loop with the verdicts that the file holds."""
        self._jobs.put(lambda: self._post(reply, self._read(digests)))

    def write(self, rows: Rows) -> None:
        self._jobs.put(lambda: self._write(rows))

    async def close(self) -> None:
        """Returns when everything is written, or cannot be."""
        self._jobs.put(None)
        await self._finished.wait()
        self._thread.join()

    def _run(self) -> None:
        self._open()
        while (job := self._jobs.get()) is not None:
            job()
        if self._late:
            self._write([])
        self._close_store()
        self._post(self._finished.set)

    def _open(self) -> None:
        digests: set[bytes] = set()
        for _ in range(TRIES):
            try:
                self._inode = inode_of(self._path)
                self._store = VerdictStore(self._path)
                self._inode = inode_of(self._path)
                digests = self._store.digests()
                break
            except DamagedError as error:
                if not self._put_aside(error):
                    break
            except Exception as error:
                self._do_without(error)
                break
        self._post(self._opened, digests)

    def _read(self, digests: list[bytes]) -> dict[bytes, Verdict]:
        verdicts: dict[bytes, Verdict] = {}

        def read(store: VerdictStore) -> None:
            for number, digest in enumerate(digests, 1):
                if number % SHARE == 0:
                    let_others_run()
                if (verdict := store.get(digest)) is not None:
                    verdicts[digest] = verdict

        self._attempt(read)
        return verdicts

    def _write(self, rows: Rows) -> None:
        def write(store: VerdictStore) -> None:
            store.insert(self._late)
            self._late = []

        # Kept until an insert succeeds: another process may hold the lock for a while
        self._late = (self._late + rows)[-MAX_PENDING_VERDICTS:]
        self._attempt(write)

    def _attempt(self, work: Callable[[VerdictStore], None]) -> None:
        if self._store is None:
            return
        try:
            work(self._store)
        except DamagedError as error:
            if self._put_aside(error):
                self._open()
        except BusyError as error:
            self._say_busy(error)
        except Exception as error:  # whatever it is, a cache must not cost more than its verdicts
            self._do_without(error)

    def _put_aside(self, error: Exception) -> bool:
        """Moves the damaged file away; whether a new one may be begun."""
        self._close_store()
        try:
            aside = set_aside(self._path, self._inode)
        except UnavailableError as trouble:
            self._do_without(trouble)
            return False
        if aside is not None:
            self._say(f"the verdict cache {self._path} is damaged ({error}); it is now {aside}")
        return True

    def _do_without(self, error: Exception) -> None:
        self._close_store()
        self._late = []
        self._say(f"the verdict cache {self._path} is not used any more: {error}")

    def _say_busy(self, error: Exception) -> None:
        if not self._busy:
            self._busy = True
            self._say(f"the verdict cache {self._path} is in use: {error}; to be tried again")

    def _say(self, message: str) -> None:
        self._post(self._warn, message)

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _post(self, function: Callable[..., object], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)
