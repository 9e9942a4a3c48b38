"""The results store: answers found before, in one SQLite file that several processes may use at
once.

`AnswerFile` is the open file, and raises what a database raises; `Results` never does: a store that
is damaged, locked or on a full disk must not keep a function from being optimized. Every call
blocks.
"""

from __future__ import annotations

import functools
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import msgspec

from ...database import (
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
from ...folders import NOWHERE, cache_folder
from ...processes import fault_points
from .answer import Answer, Key
from .unfinished_work import WorkStore

ROWS = 20_000
"""How many answers a file keeps: the newest."""
PATIENCE = 1.0
"""Seconds to wait for another process's lock."""

HOME = "results.sqlite"
"""Its name in the folder of caches."""

_TABLE = "answers (id INTEGER PRIMARY KEY, key BLOB UNIQUE, answer BLOB, sum BLOB)"
FORMAT = FileFormat("a store of results", HOME, 0x61696F72, 1, f"CREATE TABLE {_TABLE}", own=True)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Answer).decode


class AnswerFile:
    """An open file of answers; every method raises the errors of `database`."""

    def __init__(self, path: Path) -> None:
        """Opens the file, or makes it. Raises the errors of a database, as every method does."""
        self._database = connect(path, FORMAT, PATIENCE)

    def get(self, key: bytes) -> Answer | None:
        with translated():
            row = self._database.execute(
                "SELECT key, answer, sum FROM answers WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else _validated(*row)

    def put(self, answers: Iterable[Answer]) -> None:
        """Stores all of them or none, in place of older answers and of the oldest rows."""
        with translated(), transaction(self._database):
            for answer in answers:
                key, raw = answer.key.digest, _encode(answer)
                self._database.execute(
                    "INSERT OR REPLACE INTO answers (key, answer, sum) VALUES (?, ?, ?)",
                    (key, raw, checksum(key, raw)),
                )
            self._database.execute(
                # Ids ascend with time, and a replaced answer gets a new one: the oldest are the
                # smallest.
                "DELETE FROM answers WHERE id <= (SELECT max(id) FROM answers) - ?",
                (ROWS,),
            )
            # Tests end the process here, in the middle of a transaction.
            fault_points.point("answer.put")

    def name(self, key: bytes, name: str) -> None:
        """Lets an answer go by another name too, if it is still there."""
        with translated(), transaction(self._database):
            answer = self.get(key)
            if answer is not None:
                raw = _encode(answer.also(name))
                self._database.execute(
                    "UPDATE answers SET answer = ?, sum = ? WHERE key = ?",
                    (raw, checksum(key, raw), key),
                )

    def all(self) -> Iterator[Answer]:
        """The answers, the newest first; raises `DamagedError` at a row that is not what was
        written."""
        with translated():
            for row in self._rows():
                yield _validated(*row)

    def intact(self) -> tuple[list[Answer], int]:
        """The answers of rows that are what was written, the newest first, and how many are not."""
        answers, damaged = list[Answer](), 0
        with translated():
            for row in self._rows():
                try:
                    answers.append(_validated(*row))
                except DamagedError:
                    damaged += 1
        return answers, damaged

    def _rows(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        return self._database.execute("SELECT key, answer, sum FROM answers ORDER BY id DESC")

    def remove(self, keys: Iterable[bytes]) -> int:
        """Removes answers by `Key.digest`, and gives how many there were."""
        with translated(), transaction(self._database):
            cursor = self._database.executemany(
                "DELETE FROM answers WHERE key = ?", [(key,) for key in keys]
            )
            return max(cursor.rowcount, 0)

    def clear(self) -> int:
        """Removes every row, gives the space back and says how many there were."""
        with translated():
            count = self._database.execute("DELETE FROM answers").rowcount
            self._database.execute("VACUUM")
            return count

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._database.close()


def _validated(key: bytes, answer: bytes, expected: bytes) -> Answer:
    """Decodes a row; raises `DamagedError` where it is not what was written."""
    try:
        if checksum(key, answer) == expected:
            return _decode(answer)
    except (TypeError, msgspec.DecodeError):
        pass
    raise DamagedError("a row is not what was written")


T = TypeVar("T")

TRIES = 3
"""A new file may be damaged anew, if hardly ever; after so many nothing is kept."""

LATER = 5.0
"""Seconds for which a file that could not be used is done without."""

logger = logging.getLogger("aiosearch")


def default_results_path() -> Path:
    """`$XDG_CACHE_HOME/aiosearch/results.sqlite`, in `~/.cache` without that variable."""
    return cache_folder() / HOME


class Results:
    """A store of answers, which any thread and any number of processes may use at once.

    Nothing that happens to the file is an error: a damaged one is set aside and a new one begun, a
    locked or unusable one is done without for a while, and answers are kept in memory; `warn` hears
    of it once. A file that is something else stays as it is, unless it lies where the user's own
    store does.

    Calls block, for a second (`PATIENCE`) at most where another process holds a lock.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.path = path
        self._warn = warn
        self._lock = threading.Lock()
        self._file: AnswerFile | None = None
        self._inode = 0
        self._late: dict[bytes, Answer] = {}
        self.written: dict[str, None] = {}
        """The names of what was written to the file through this store, in order."""
        self._unusable_until = 0.0
        self._told = False
        self._busy = False

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> Results:
        """The store in this file, the user's without one; warnings are logged, each once."""
        return cls(Path(path) if path else default_results_path(), warn or _logged)

    @classmethod
    def nowhere(cls) -> Results:
        """A store that is kept in memory alone."""
        return cls(NOWHERE / HOME, lambda warning: None)

    def find(self, key: Key) -> Answer | None:
        """The answer to an equal question; `None` where there is none."""
        digest = key.digest
        return self._late.get(digest) or self._attempt(lambda file: file.get(digest), None)

    def keep(self, answer: Answer) -> None:
        """Writes an answer, in place of an older one; where a lock is in the way, later."""
        with self._lock:
            # In memory first: where the file is busy or broken, this process finds the answer all
            # the same.
            self._late[answer.key.digest] = answer
        self._write()

    def name(self, key: Key, name: str) -> None:
        """Lets an answer go by another name too, where that can be written: it is no loss."""
        with self._lock:
            if (late := self._late.get(key.digest)) is not None:
                self._late[key.digest] = late.also(name)
            elif self._usable:
                # A further name is no loss, so that nothing is set aside for it.
                with suppress(DamagedError, UnavailableError):
                    self._opened().name(key.digest, name)

    def all(self) -> list[Answer]:
        """Every answer of the file, the newest first."""
        return self._attempt(lambda file: list(file.all()), [])

    def export(self, folder: Path) -> list[Path]:
        """Writes every answer as a module that stands alone, and gives their paths."""
        return export(self.all(), folder)

    def forget(self, keys: Iterable[Key] | None = None) -> int:
        """Removes the answers to these questions, or all of them, and the work that was done for
        others; gives how many answers there were."""
        work = WorkStore(self.path)
        if keys is None:
            self._late.clear()
            work.forget()
            work.close()
            return self._attempt(AnswerFile.clear, 0)
        digests = [key.digest for key in keys]
        for digest in digests:
            work.forget(digest)
        work.close()
        for digest in digests:
            self._late.pop(digest, None)
        return self._attempt(lambda file: file.remove(digests), 0)

    def close(self) -> None:
        """Writes what could not be written before, if it can be now."""
        self._unusable_until = 0.0
        if self._late:
            self._write()
        with self._lock:
            self._close_file()

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _usable(self) -> bool:
        return time.monotonic() >= self._unusable_until

    def _write(self) -> None:
        def write(file: AnswerFile) -> None:
            file.put(self._late.values())
            self.written |= {answer.name: None for answer in self._late.values()}
            self._late = {}

        self._attempt(write, None)

    def _attempt(self, work: Callable[[AnswerFile], T], otherwise: T) -> T:
        with self._lock:
            # A damaged file is set aside, and the work is done again on a new one.
            for _ in range(TRIES):
                if not self._usable:
                    break
                try:
                    return work(self._opened())
                except DamagedError as error:
                    self._put_aside(error)
                except BusyError as error:
                    self._say_busy(error)
                    break
                except UnavailableError as error:
                    self._do_without(error)
        return otherwise

    def _opened(self) -> AnswerFile:
        if self._file is None:
            self._inode = inode_of(self.path)
            self._file = AnswerFile(self.path)
            self._inode = inode_of(self.path)
        return self._file

    def _put_aside(self, error: Exception) -> None:
        self._close_file()
        try:
            aside = set_aside(self.path, self._inode)
        except UnavailableError as trouble:
            self._do_without(trouble)
            return
        # Another process may have set it aside already: then nothing is said.
        if aside is not None:
            self._warn(f"the results in {self.path} are damaged ({error}); they are now in {aside}")

    def _do_without(self, error: Exception) -> None:
        self._close_file()
        self._unusable_until = time.monotonic() + LATER
        if not self._told:
            self._told = True
            self._warn(f"results are not kept in {self.path}: {error}")

    def _say_busy(self, error: Exception) -> None:
        if not self._busy:
            self._busy = True
            self._warn(f"the results in {self.path} are in use: {error}; to be tried again")

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


@functools.cache
def _logged(warning: str) -> None:
    logger.warning(warning)


def export(answers: Iterable[Answer], folder: Path) -> list[Path]:
    """Writes answers as modules that stand alone, and gives their paths; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for answer in answers:
        path = folder / answer.file_name
        path.write_text(answer.text(), encoding="utf-8")
        paths.append(path)
    return paths
