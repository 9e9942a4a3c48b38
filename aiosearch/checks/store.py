"""The verdicts on disk: one SQLite file that several processes may use at once.

Every call blocks; in a running service one thread makes them all (see `archive`).
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ..database import DamagedError, Format, checksum, connect, transaction, translated
from ..engine import faults
from .cache import HOME
from .verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

ROWS = 500_000
"""What a file keeps: the newest. A row takes some 80 bytes here, its digest 100 in the host."""
PATIENCE = 1.0
"""Seconds to wait for another process's lock."""
SHARE = 64
"""Rows between two moments in which the event loop's thread may run."""

_TABLE = "verdicts (id INTEGER PRIMARY KEY, digest BLOB UNIQUE, verdict BLOB, sum BLOB)"
FORMAT = Format("a verdict cache", HOME, 0x61696F73, 1, f"CREATE TABLE {_TABLE}")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Verdict).decode


class Store:
    """An open cache file. Used and closed by the thread that opened it."""

    def __init__(self, path: Path) -> None:
        """Opens the file, or makes it. Raises the errors of a database, as every method does."""
        self._database = connect(path, FORMAT, PATIENCE)

    def digests(self) -> set[bytes]:
        known: set[bytes] = set()
        with translated():
            cursor = self._database.execute("SELECT digest FROM verdicts")
            while rows := cursor.fetchmany(2 * SHARE):
                known.update(digest for (digest,) in rows)
                let_others_run()
        return known

    def get(self, digest: bytes) -> Verdict | None:
        """Gives a verdict whose checksum is right."""
        with translated():
            row = self._database.execute(
                "SELECT verdict, sum FROM verdicts WHERE digest = ?", (digest,)
            ).fetchone()
        return None if row is None else validated(digest, *row)

    def insert(self, verdicts: Iterable[tuple[bytes, Verdict]]) -> None:
        """Stores all of them or none, in place of older verdicts and of the oldest rows."""
        rows = [(digest, raw := _encode(v), checksum(digest, raw)) for digest, v in verdicts]
        with translated(), transaction(self._database):
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
        with translated():
            yield from self._database.execute("SELECT digest, verdict, sum FROM verdicts")

    def clear(self) -> int:
        """Removes every row, gives the space back and says how many there were."""
        with translated():
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


def validated(digest: bytes, verdict: bytes, expected: bytes) -> Verdict:
    """Decodes a row; raises DamagedError when it is not what was written."""
    try:
        if checksum(digest, verdict) == expected:
            return _decode(verdict)
    except (TypeError, msgspec.DecodeError):
        pass
    raise DamagedError("a row is not what was written")
