"""The journal of a search: each measurement as a line, written before the next one begins.

After `kill -9` the next search of the same kernel, arguments, device and source text reads what is
there and measures none of it again. At most the measurement that was under way is lost; a last line
that was cut off is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from ..folders import cache_folder, make_folder
from .errors import TableError
from .search.proposals import Measurement
from .space.sites import Value, as_value
from .types import Pytree


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


class MeasurementJournal:
    """A file of one search, open for writing at its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            make_folder(self.path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise TableError(f"cannot write the journal {self.path}: {error.strerror}") from error
        self._end_line()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def lines(self) -> Iterator[JournalLine]:
        """What earlier searches wrote."""
        try:
            text = self.path.read_bytes()
        except OSError:
            return
        for line in text.splitlines():
            try:
                entry = msgspec.json.decode(line, type=JournalLine)
            except msgspec.DecodeError:  # cut off, or of another version: measured again
                continue
            decisions = {name: as_value(value) for name, value in entry.decisions.items()}
            yield msgspec.structs.replace(entry, decisions=decisions)

    def write(self, measurement: Measurement) -> None:
        """Appends a line in one call of the system, which a kill cannot cut in two for others."""
        os.write(self._descriptor, msgspec.json.encode(JournalLine.of(measurement)) + b"\n")

    def _end_line(self) -> None:
        """Ends a line that a kill cut off, so that the next one stands alone."""
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")


def journal_path(*parts: Pytree) -> Path:
    """Where the journal of a search lies that these tell from all others."""
    text = "\0".join(map(str, parts)).encode()
    name = blake2b(text, digest_size=12, person=b"aiosearch-tune").hexdigest()
    return cache_folder() / "tuning" / f"{name}.jsonl"
