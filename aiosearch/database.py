"""SQLite files that several processes use at once, and that nobody has to trust.

What goes wrong with one is sorted by what can be done about it: a `DamagedError` is set aside and
made anew, an `UnavailableError` done without, a `ForeignError` reported, a `BusyError` waited for.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from .folders import NOWHERE, cache_folder, is_shared, make_folder, nearest_above, shared

COMPANIONS = ("", "-wal", "-shm")

_HEADER = b"SQLite format 3\0"
_IDENTITY = slice(68, 72)
"""The bytes of an SQLite file that hold its application id."""
# SQLITE_ERROR as well: a table that is not there is a file of something else
_NOT_OURS = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class DamagedError(Exception):
    """The file is not what it should be, or not any more."""


class UnavailableError(Exception):
    """The file cannot be used: no permission, no space, no such folder."""


class ForeignError(UnavailableError):
    """The file is something else of the user's, to be left as it is."""


class BusyError(UnavailableError):
    """Another process holds a lock for longer than we wait."""


class _File(NamedTuple):
    """What identifies an open file: where it is, and what it is open as."""

    device: int
    inode: int
    identity: int


_open: Counter[_File] = Counter()
_opening = threading.RLock()


@dataclass(frozen=True)
class FileFormat:
    """By what a file is known to be ours."""

    what: str
    """What the file is in words, such as `a verdict cache`."""
    home: str
    """Its name in the `cache_folder`; there, what is something else is damage."""
    application_id: int
    version: int
    schema: str
    """The statement that creates its only table."""
    own: bool = False
    """Whether nobody else may write it, because what it holds is run."""


class _Connection(sqlite3.Connection):
    """A connection that is counted in `_open` until it is closed."""

    file: _File | None = None

    def close(self) -> None:
        super().close()
        with _opening:
            if self.file is not None:
                _open[self.file] -= 1
            self.file = None


def connect(path: Path, format: FileFormat, patience: float) -> sqlite3.Connection:
    """Opens a file, or makes it; locks are waited for at most `patience` seconds.

    Any thread may use the connection, one at a time. Raises `DamagedError` or an
    `UnavailableError`.
    """
    with _opening:
        with translated():
            make_folder(path.parent)
            require_ours(path, format)
            if format.own:
                _require_own(path)
            database = sqlite3.connect(
                path,
                timeout=patience,
                # Transactions are begun by `transaction`, not by sqlite3 behind our back
                isolation_level=None,
                check_same_thread=False,
                factory=_Connection,
            )
        try:
            with translated():
                _prepare(database, format, patience)
                database.file = _file(path, format)
            _open[database.file] += 1
        except BaseException:
            database.close()
            raise
    return database


def require_ours(path: Path, format: FileFormat) -> None:
    """Raises ForeignError where a file that a user names is something else; changes nothing.

    A folder is something else wherever it lies.

    What is ours and damaged passes, as do an empty file and none. A file that is open here is not
    looked at: a process that closes a file loses all locks that it has on it, SQLite's too.
    """
    if path.is_dir():
        raise ForeignError("it is a folder")
    if _is_at_home(path, format) or not path.is_file():
        return
    with _opening:
        file = _file(path, format)
        opened = [opened_file.identity for opened_file in +_open if opened_file[:2] == file[:2]]
        ours = file.identity in opened if opened else _looks_ours(path, format)
    if not ours:
        raise ForeignError(f"it is something else, not {format.what}, and is left as it is")


def is_there(path: Path) -> bool:
    """Says whether there is a file; raises `UnavailableError` where that cannot be told.

    That is also where there can be none, as it would lie in what is no folder, if the user has
    one at all.
    """
    with translated():
        if path.exists():
            return True
    above = nearest_above(path)
    if above != NOWHERE and not above.is_dir():
        raise UnavailableError(f"{above} is no folder")
    return False


def _file(path: Path, format: FileFormat) -> _File:
    status = path.stat()
    return _File(status.st_dev, status.st_ino, format.application_id)


def _looks_ours(path: Path, format: FileFormat) -> bool:
    with path.open("rb") as file:
        head = file.read(_IDENTITY.stop)
    identity = head[_IDENTITY]
    foreign = len(identity) == 4 and int.from_bytes(identity, "big") != format.application_id
    return head[: len(_HEADER)] == _HEADER[: len(head)] and not foreign


def _is_at_home(path: Path, format: FileFormat) -> bool:
    return path.absolute() == cache_folder() / format.home


def _require_own(path: Path) -> None:
    """Raises UnavailableError where others could put something into the file, or take its place.

    SQLite also reads what lies beside it, so the folder has to be nobody else's; folders above it
    may be shared where nobody can move what is another's.
    """
    path.touch(mode=0o600)
    path = path.resolve()
    beside = [Path(f"{path}{suffix}") for suffix in (*COMPANIONS, "-journal")]
    exposed = next(
        (companion for companion in beside if companion.exists() and is_shared(companion.stat())),
        None,
    )
    place = exposed or shared(path.parent)
    if place is not None:
        raise UnavailableError(
            f"others can write {place}, and what lies in such a file is run; `chmod go-w {place}`"
            " where it is yours"
        )


def checksum(key: bytes, row: bytes) -> bytes:
    """What is stored beside a row, so that one that was changed is not believed."""
    # Eight bytes: against rot and torn pages, not against anybody who means it
    return blake2b(key + row, digest_size=8, person=b"aiosearch-row").digest()


def set_aside(path: Path, inode: int) -> Path | None:
    """Renames a damaged file and its `COMPANIONS`, unless another process has done it already.

    `inode` is what the file had when it was opened.
    """
    if inode_of(path) != inode:
        return None
    now = time.time_ns()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09}"
    aside = f"{path}.damaged-{stamp}"
    with translated():
        # The log before the file: a file without its log is only older, a log without its file is
        # nothing
        for suffix in reversed(COMPANIONS):
            with suppress(FileNotFoundError):
                os.rename(f"{path}{suffix}", f"{aside}{suffix}")
    return Path(aside)


def inode_of(path: Path) -> int:
    """The file's inode; 0 when there is no such file."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


@contextmanager
def transaction(database: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    database.execute(begin)
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


@contextmanager
def translated() -> Iterator[None]:
    """Sorts SQLite's errors by what can be done about them."""
    try:
        yield
    except sqlite3.Error as error:
        if _code(error) in _BUSY:
            raise BusyError(str(error)) from error
        if _code(error) in _NOT_OURS:
            raise DamagedError(str(error)) from error
        raise UnavailableError(str(error)) from error
    except OSError as error:
        raise UnavailableError(str(error)) from error
    except (ValueError, MemoryError) as error:  # text or sizes that make no sense
        raise DamagedError(str(error)) from error


def _prepare(database: sqlite3.Connection, format: FileFormat, patience: float) -> None:
    """Checks that the file is ours before it changes anything, and makes a new file ours."""
    end = time.monotonic() + patience
    while True:
        try:
            with transaction(database, "BEGIN"):  # or it may be made between two looks at it
                ours = _is_ours(database, format)
            if not ours:
                with transaction(database):
                    if not _is_ours(database, format):
                        _create(database, format)
            # Not a part of the transaction, and SQLite does not wait for the lock that it needs.
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _is_ours(database: sqlite3.Connection, format: FileFormat) -> bool:
    """Says whether the file has our table; a file with something else is damaged."""
    ((identity,),) = database.execute("PRAGMA application_id")
    ((version,),) = database.execute("PRAGMA user_version")
    tables = "SELECT sql FROM sqlite_master WHERE sql NOT NULL"
    schema = [sql for (sql,) in database.execute(tables)]
    if (identity, version, schema) == (format.application_id, format.version, [format.schema]):
        return True
    if identity or version or schema:
        raise DamagedError(f"it is not {format.what} of this version")
    return False


def _create(database: sqlite3.Connection, format: FileFormat) -> None:
    database.execute(format.schema)
    database.execute(f"PRAGMA application_id = {format.application_id}")
    database.execute(f"PRAGMA user_version = {format.version}")


def _code(error: sqlite3.Error) -> int:
    """Gives SQLite's primary result code; Python's own complaints about a row have none."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return sqlite3.SQLITE_CORRUPT if code == sqlite3.SQLITE_IOERR_SHORT_READ else code & 0xFF
