"""The answers on disk: one SQLite file that several processes may use at once.

Every call blocks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from ..database import DamagedError, Format, checksum, connect, transaction, translated
from ..engine import faults
from .answers import Answer

ROWS = 20_000
"""What a file keeps: the newest."""
PATIENCE = 1.0
"""Seconds to wait for another process's lock."""

HOME = "results.sqlite"
"""Its name in the folder of caches."""

_TABLE = "answers (id INTEGER PRIMARY KEY, key BLOB UNIQUE, answer BLOB, sum BLOB)"
FORMAT = Format("a store of results", HOME, 0x61696F72, 1, f"CREATE TABLE {_TABLE}", own=True)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Answer).decode


class AnswerFile:
    """An open file."""

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
                "DELETE FROM answers WHERE id <= (SELECT max(id) FROM answers) - ?", (ROWS,)
            )
            faults.point("answer.put")

    def name(self, key: bytes, name: str) -> None:
        """Lets an answer go by another name too, if it is still there."""
        with translated(), transaction(self._database):
            known = self.get(key)
            if known is not None:
                raw = _encode(known.also(name))
                self._database.execute(
                    "UPDATE answers SET answer = ?, sum = ? WHERE key = ?",
                    (raw, checksum(key, raw), key),
                )

    def all(self) -> Iterator[Answer]:
        """The newest first."""
        with translated():
            for row in self._rows():
                yield _validated(*row)

    def intact(self) -> tuple[list[Answer], int]:
        """The same of rows that are what was written, and how many are not."""
        found, damaged = list[Answer](), 0
        with translated():
            for row in self._rows():
                try:
                    found.append(_validated(*row))
                except DamagedError:
                    damaged += 1
        return found, damaged

    def _rows(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        return self._database.execute("SELECT key, answer, sum FROM answers ORDER BY id DESC")

    def remove(self, keys: Iterable[bytes]) -> int:
        """Says how many there were."""
        with translated(), transaction(self._database):
            found = self._database.executemany(
                "DELETE FROM answers WHERE key = ?", [(key,) for key in keys]
            )
            return max(found.rowcount, 0)

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
    """Decodes a row; raises DamagedError when it is not what was written."""
    try:
        if checksum(key, answer) == expected:
            return _decode(answer)
    except (TypeError, msgspec.DecodeError):
        pass
    raise DamagedError("a row is not what was written")
