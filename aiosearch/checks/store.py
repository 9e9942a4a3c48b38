"""The verdicts on disk: one SQLite file that several processes may use at once.

Every call blocks; in a running service one thread makes them all (see `archive`).
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..engine import faults
from .verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

APPLICATION_ID = 0x61696F73
VERSION = 1
ROWS = 500_000
"""What a file keeps: the newest. A row takes some 80 bytes here, its digest 100 in the host."""
PATIENCE = 1.0
"""Seconds to wait for another process's lock."""
COMPANIONS = ("", "-wal", "-shm")

_NOT_A_CACHE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_TABLE = "verdicts (id INTEGER PRIMARY KEY, digest BLOB UNIQUE, verdict BLOB, sum BLOB)"
_SCHEMA = f"CREATE TABLE {_TABLE}"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Verdict).decode


SHARE = 64
"""Rows between two moments in which the event loop's thread may run."""


class DamagedError(Exception):
    """The file is not a verdict cache, or not any more."""


class UnavailableError(Exception):
    """The file cannot be used: no permission, no space, no such folder."""


class BusyError(UnavailableError):
    """Another process holds a lock for longer than we wait."""


class Store:
    """An open cache file. Used and closed by the thread that opened it."""

    def __init__(self, path: Path) -> None:
        """Opens the file, or makes it. Raises the errors above, as every method does."""
        with _translated():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        try:
            with _translated():
                _prepare(self._database)
        except BaseException:
            self._database.close()
            raise

    def digests(self) -> set[bytes]:
        known: set[bytes] = set()
        with _translated():
            cursor = self._database.execute("SELECT digest FROM verdicts")
            while rows := cursor.fetchmany(2 * SHARE):
                known.update(digest for (digest,) in rows)
                let_others_run()
        return known

    def get(self, digest: bytes) -> Verdict | None:
        """Gives a verdict whose checksum is right."""
        with _translated():
            row = self._database.execute(
                "SELECT verdict, sum FROM verdicts WHERE digest = ?", (digest,)
            ).fetchone()
        return None if row is None else validated(digest, *row)

    def insert(self, verdicts: Iterable[tuple[bytes, Verdict]]) -> None:
        """Stores all of them or none, in place of older verdicts and of the oldest rows."""
        rows = [(digest, raw := _encode(v), checksum(digest, raw)) for digest, v in verdicts]
        with _translated(), _transaction(self._database):
            for start in range(0, len(rows), SHARE):
                self._database.executemany(
                    "INSERT OR REPLACE INTO verdicts (digest, verdict, sum) VALUES (?, ?, ?)",
                    rows[start : start + SHARE],
                )
                let_others_run()
            self._database.execute(
                "DELETE FROM verdicts WHERE id <= (SELECT max(id) FROM verdicts) - ?", (ROWS,)
            )
            faults.point("verdict.insert")

    def rows(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        with _translated():
            yield from self._database.execute("SELECT digest, verdict, sum FROM verdicts")

    def clear(self) -> int:
        """Removes every row, gives the space back and says how many there were."""
        with _translated():
            count = self._database.execute("DELETE FROM verdicts").rowcount
            self._database.execute("VACUUM")
            return count

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._database.close()


def let_others_run() -> None:
    """Waits a moment: a thread that calls SQLite row by row keeps the interpreter's lock from the
    others for the whole switch interval of 5 ms, though it gives it up at every row."""
    time.sleep(0.0001)


def checksum(digest: bytes, verdict: bytes) -> bytes:
    return blake2b(digest + verdict, digest_size=8, person=b"aiosearch-row").digest()


def validated(digest: bytes, verdict: bytes, expected: bytes) -> Verdict:
    """Decodes a row; raises DamagedError when it is not what was written."""
    try:
        if checksum(digest, verdict) == expected:
            return _decode(verdict)
    except (TypeError, msgspec.DecodeError):
        pass
    raise DamagedError("a row is not what was written")


def set_aside(path: Path, inode: int) -> Path | None:
    """Renames a damaged file and its companions, unless another process has done it already.

    `inode` is what the file had when it was opened.
    """
    if inode_of(path) != inode:
        return None
    now = time.time_ns()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09}"
    aside = f"{path}.damaged-{stamp}"
    with _translated():
        for suffix in reversed(COMPANIONS):
            with suppress(FileNotFoundError):
                os.rename(f"{path}{suffix}", f"{aside}{suffix}")
    return Path(aside)


def inode_of(path: Path) -> int:
    """Gives 0 when there is no such file."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _prepare(database: sqlite3.Connection) -> None:
    """Checks that the file is ours before it changes anything, and makes a new file ours."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if not _is_ours(database):
                with _transaction(database):
                    if not _is_ours(database):
                        _create(database)
            # Not a part of the transaction, and SQLite does not wait for the lock that it needs.
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _is_ours(database: sqlite3.Connection) -> bool:
    """Says whether the file has our table; a file with something else is damaged."""
    ((identity,),) = database.execute("PRAGMA application_id")
    ((version,),) = database.execute("PRAGMA user_version")
    tables = "SELECT sql FROM sqlite_master WHERE sql NOT NULL"
    schema = [sql for (sql,) in database.execute(tables)]
    if (identity, version, schema) == (APPLICATION_ID, VERSION, [_SCHEMA]):
        return True
    if identity or version or schema:
        raise DamagedError("it is not a verdict cache of this version")
    return False


def _create(database: sqlite3.Connection) -> None:
    database.execute(_SCHEMA)
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    database.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


@contextmanager
def _translated() -> Iterator[None]:
    """Sorts SQLite's errors by what can be done about them."""
    try:
        yield
    except sqlite3.Error as error:
        if _code(error) in _BUSY:
            raise BusyError(str(error)) from error
        if _code(error) in _NOT_A_CACHE:
            raise DamagedError(str(error)) from error
        raise UnavailableError(str(error)) from error
    except OSError as error:
        raise UnavailableError(str(error)) from error
    except (ValueError, MemoryError) as error:  # text or sizes that make no sense
        raise DamagedError(str(error)) from error


def _code(error: sqlite3.Error) -> int:
    """Gives SQLite's primary result code; Python's own complaints about a row have none."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return sqlite3.SQLITE_CORRUPT if code == sqlite3.SQLITE_IOERR_SHORT_READ else code & 0xFF
