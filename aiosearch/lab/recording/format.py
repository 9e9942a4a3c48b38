"""The file of a recording: a header, blocks of columns with checksums, and a footer.

Each part begins with its kind, the length and the CRC-32 of what follows, so that a torn or damaged
file is told from a whole one.
"""

from __future__ import annotations

import enum
import zlib
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct as Layout
from typing import IO

import msgspec
from msgspec import Struct

from ...errors import AiosearchError

MAGIC = b"aiosearch-tree 1\n"
BLOCK_NODES = 1 << 16
_FRAME = Layout("<cII")
"""Kind, length and CRC-32 of the bytes that follow."""


class RecordingError(AiosearchError):
    """A recording cannot be written or read."""


class NodeKind(enum.IntEnum):
    """What became of a node; `SOLVES` is added to its number where it gave solutions."""

    EXPLORED = 0
    DROPPED = 1
    """The `key` of the node was explored already, or its `bound` was no better than the best
    solution."""
    ALIVE = 2
    """It asked z3, and was explored."""
    REFUTED = 3
    """It asked z3, and was not explored."""


SOLVES = 4


class Header(Struct, frozen=True):
    """What was recorded, and where. All times in the blocks are nanoseconds."""

    problem: str
    order: str
    parameters: str = ""
    """The problem as Python writes it, a long one cut short."""
    versions: dict[str, str] = {}
    recorded: str = ""
    """When it was recorded, in UTC."""


class Footer(Struct, frozen=True):
    """What a recording came to."""

    complete: bool
    """Whether the tree was walked to its end, rather than stopped."""
    nodes: int
    """Nodes that were explored."""
    questions: int
    """Distinct questions, each asked once."""
    seconds: float
    """Seconds of exploring, z3 left out."""
    check_seconds: float
    """Seconds of z3."""
    overhead: float
    """Seconds that the engine adds to a node of this problem, on the machine that recorded it;
    below zero where the recorder added more."""


class Columns:
    """Nodes in preorder, a column for each thing that is known of them; `all` has their order."""

    def __init__(self) -> None:
        self.children = array("I")
        """How many children followed, those that were `DROPPED` or `REFUTED` included."""
        self.kinds = array("B")
        self.spent = array("Q")
        """Nanoseconds that the node's own methods took."""
        self.questions = array("I")
        """One number for each node that asked, `ALIVE` or `REFUTED`; numbers follow each
        other as they first appear."""
        self.checks = array("Q")
        """Nanoseconds that z3 took, for each number."""

    def all(self) -> tuple[array[int], ...]:
        return self.children, self.kinds, self.spent, self.questions, self.checks

    def add(self, blocks: tuple[bytes, ...]) -> None:
        """Takes a block's columns on, in the order of `all`."""
        for column, block in zip(self.all(), blocks, strict=True):
            column.frombytes(block)


class RecordingWriter:
    """Writes a recording beside its place; `close` puts it there, whole."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self._growing = path.with_name(f"{path.name}.tmp")
        self.columns = Columns()
        try:
            self._require_own()
            self._file: IO[bytes] = self._growing.open("wb")
            self._file.write(MAGIC)
            self._frame(b"H", msgspec.msgpack.encode(header))
        except OSError as error:
            raise _failed("write", path, error) from None

    def flush(self) -> None:
        """Writes the `columns` that have gathered as a block."""
        block = tuple(column.tobytes() for column in self.columns.all())
        # Level 1: columns of small numbers shrink to a fifth at once, and the walk is waiting
        self._frame(b"B", zlib.compress(msgspec.msgpack.encode(block), 1))
        self.columns = Columns()

    def close(self, footer: Footer) -> None:
        """Writes the last block and the `footer`, and puts the file in its place."""
        try:
            with self._file:
                self.flush()
                self._frame(b"F", msgspec.msgpack.encode(footer))
            # In one step: a reader never sees half a recording
            self._growing.replace(self.path)
        except OSError as error:
            self.discard()
            raise _failed("write", self.path, error) from None

    def discard(self) -> None:
        """Leaves nothing behind. Safe to call after `close`."""
        with suppress(OSError):
            self._file.close()
        self._growing.unlink(missing_ok=True)

    def _frame(self, kind: bytes, payload: bytes) -> None:
        try:
            self._file.write(_FRAME.pack(kind, len(payload), zlib.crc32(payload)))
            self._file.write(payload)
        except OSError as error:
            raise _failed("write", self.path, error) from None

    def _require_own(self) -> None:
        """Refuses to replace what is no recording: somebody may miss it."""
        if not self.path.exists():
            return
        if self.path.is_file():
            with self.path.open("rb") as file:
                # An empty file is what a shell's redirection leaves behind
                if file.read(len(MAGIC)) in (MAGIC, b""):
                    return
        raise RecordingError(f"{self.path} is there already and is no recording; take another name")


def read(path: Path) -> tuple[Header, Columns, Footer]:
    """Reads a recording; raises `RecordingError` where it is none, or is damaged."""
    columns = Columns()
    header = footer = None
    try:
        for kind, payload in _frames(path):
            if kind == b"H":
                header = msgspec.msgpack.decode(payload, type=Header)
            elif kind == b"B":
                raw = zlib.decompress(payload)
                columns.add(msgspec.msgpack.decode(raw, type=tuple[bytes, ...]))
            else:
                footer = msgspec.msgpack.decode(payload, type=Footer)
    except (msgspec.MsgspecError, zlib.error, ValueError) as error:
        raise RecordingError(f"{path} is a recording that cannot be read: {error}") from None
    if header is None or footer is None:
        raise RecordingError(f"{path} ends too early; record the search again")
    return header, columns, footer


def _frames(path: Path) -> Iterator[tuple[bytes, bytes]]:
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise RecordingError(f"{path} is no recording; `--record-tree FILE` makes one")
            while head := file.read(_FRAME.size):
                yield _frame(path, file, head)
    except OSError as error:
        raise _failed("read", path, error) from None


def _frame(path: Path, file: IO[bytes], head: bytes) -> tuple[bytes, bytes]:
    kind, length, checksum = _FRAME.unpack(head.ljust(_FRAME.size, b"\0"))
    payload = file.read(length)
    if len(payload) < length or zlib.crc32(payload) != checksum:
        raise RecordingError(f"{path} is damaged; record the search again")
    return kind, payload


def _failed(what: str, path: Path, error: OSError) -> RecordingError:
    return RecordingError(f"cannot {what} the recording {path}: {error.strerror}")
