"""What was measured: every point of every search, in one SQLite file that several processes use.

Problem: a measurement takes a second, and its process may be killed at any moment. So each is a
transaction of its own, which is over before the next measurement begins: after `kill -9` at most
the measurement that was under way is lost. Measurements outlive the search that made them. So where
a table is another, was thrown away, or lies on another branch, the next search of the same kernel
begins with all that was measured, and only the last race is run again.

Invariants: a measurement belongs to a search, which is named by all that its time depends on: the
kernel, its arguments, the device, the text of the function and the versions. A search that is to be
run `again` leaves out what a search that came to its end has measured, and takes what one measured
that was broken off.

Cost: some 100 microseconds for a measurement, whatever else is in the file, and 400 where two
processes write at once on two busy cores; none waits for the disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec
from msgspec import Struct

from ..database import (
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
from ..folders import cache_folder
from .errors import TableError
from .kernels import KernelCall
from .search.proposals import Measurement
from .space.sites import Value, as_value
from .space.traces import point_key
from .tunables import AnyTunable, device_name, versions

HOME = "tuning.sqlite"
ROWS = 200_000
"""As many measurements a file keeps: the newest. Each takes some 300 bytes."""
PATIENCE = 20.0
"""Seconds to wait for other processes, each of which holds the file for less than a millisecond."""

_TABLE = (
    "measurements (id INTEGER PRIMARY KEY, search BLOB, point TEXT, line BLOB, ended INTEGER,"
    " sum BLOB, UNIQUE (search, point))"
)
FORMAT = FileFormat("a store of measurements", HOME, 0x61696F74, 1, f"CREATE TABLE {_TABLE}")


class JournalLine(Struct, frozen=True, omit_defaults=True):
    """A measurement as it is written: decisions alone, from which the space gives the trace."""

    decisions: dict[str, Value]
    seconds: float | None = None
    gate: str = ""
    reason: str = ""
    predicted: float | None = None
    at: float = 0.0

    @classmethod
    def of(cls, measurement: Measurement) -> JournalLine:
        return cls(
            measurement.trace.decisions,
            measurement.seconds,
            measurement.gate,
            measurement.reason,
            measurement.predicted,
            measurement.at,
        )


T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(JournalLine).decode


@dataclass(frozen=True)
class SearchName:
    """All that the time of a point depends on, beside the point itself."""

    kernel: str
    arguments: tuple[str, ...]
    device: str
    source: str
    """A digest of the function's text, and of its space's."""
    versions: str

    @classmethod
    def of(cls, kernel: AnyTunable, call: KernelCall) -> Self:
        """That of a search for calls like this one, in this process."""
        from .. import __version__

        made_by = f"aiosearch {__version__}, {versions()}"
        return cls(kernel.name, call.text, device_name(), kernel.source, made_by)

    @cached_property
    def digest(self) -> bytes:
        parts = (self.kernel, str(self.arguments), self.device, self.source, self.versions)
        return _digest(parts, 16)

    @property
    def path(self) -> Path:
        """What is locked while the search runs; in older versions it held what was measured."""
        parts = (self.kernel, str(self.arguments), self.device, self.source)
        return cache_folder() / "tuning" / f"{_digest(parts, 12).hex()}.jsonl"


class MeasurementJournal:
    """The measurements of one search, in the store of the user."""

    def __init__(self, search: SearchName, path: Path | None = None) -> None:
        self.path = path or cache_folder() / HOME
        self._search = search
        self._database: sqlite3.Connection | None = None
        self._inode = 0

    def __enter__(self) -> Self:
        self._take_over()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None

    def lines(self) -> Iterator[JournalLine]:
        """What was measured, in the order in which it was.

        What is not as it was written is left out; so is what failed in a search that came to its
        end, since the cause may lie in what the function calls, and be mended since.
        """
        query = "SELECT line, ended, sum FROM measurements WHERE search = ? ORDER BY id"
        digest = self._search.digest
        rows = self._attempt(lambda database: database.execute(query, (digest,)).fetchall())
        for text, ended, expected in rows:
            if checksum(digest, text) == expected:
                lines = _decoded(text)
                yield from (line for line in lines if line.seconds is not None or not ended)

    def write(self, measurement: Measurement) -> None:
        """Writes a measurement, in the place of an earlier one of the same point."""
        self._write([JournalLine.of(measurement)])

    def end(self) -> None:
        """Notes that the search came to its end; of a function without a text nothing is kept, as
        another one of its name could not be told from it.
        """
        if self._search.source:
            self._change("UPDATE measurements SET ended = 1 WHERE search = ?")
        else:
            self._change("DELETE FROM measurements WHERE search = ?")

    def forget_ended(self) -> None:
        """Leaves out what was measured by a search that came to its end."""
        self._change("DELETE FROM measurements WHERE search = ? AND ended")

    def _change(self, statement: str) -> None:
        self._attempt(lambda database: database.execute(statement, (self._search.digest,)))

    def _write(self, lines: Sequence[JournalLine]) -> None:
        digest, rows = self._search.digest, list[tuple[bytes, str, bytes, bytes]]()
        for line in lines:
            text = _encode(line)
            rows.append((digest, point_key(line.decisions), text, checksum(digest, text)))

        def write(database: sqlite3.Connection) -> None:
            with transaction(database):
                database.executemany(
                    "INSERT OR REPLACE INTO measurements (search, point, line, ended, sum)"
                    " VALUES (?, ?, ?, 0, ?)",
                    rows,
                )
                # Ids ascend with time, so the oldest are the smallest.
                database.execute(
                    "DELETE FROM measurements WHERE id <= (SELECT max(id) FROM measurements) - ?",
                    (ROWS,),
                )

        self._attempt(write)

    def _take_over(self) -> None:
        """Takes what an older version has written, which had a file of lines for each search."""
        path = self._search.path
        try:
            text = path.read_bytes()
        except OSError:
            text = b""
        self._write([line for row in text.splitlines() for line in _decoded(row)])
        path.unlink(missing_ok=True)

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Does work on the file; a damaged one is set aside, as all that is lost is time."""
        try:
            try:
                with translated():
                    return work(self._opened())
            except DamagedError:
                self.close()
                set_aside(self.path, self._inode)
                with translated():
                    return work(self._opened())
        except (DamagedError, UnavailableError) as error:
            raise TableError(
                f"cannot keep measurements in {self.path}: {error}; XDG_CACHE_HOME names another"
                " folder"
            ) from error

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            self._inode = inode_of(self.path)
            self._database = connect(self.path, FORMAT, PATIENCE)
            self._inode = inode_of(self.path)
        return self._database


def _decoded(line: bytes) -> Iterator[JournalLine]:
    """A line as it was written; nothing where it was cut off, or is of another version."""
    with suppress(msgspec.DecodeError):
        entry = _decode(line)
        decisions = {name: as_value(value) for name, value in entry.decisions.items()}
        yield msgspec.structs.replace(entry, decisions=decisions)


def _digest(parts: Sequence[str], size: int) -> bytes:
    text = "\0".join(parts).encode()
    return blake2b(text, digest_size=size, person=b"aiosearch-tune").digest()
