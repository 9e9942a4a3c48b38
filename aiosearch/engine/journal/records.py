r"""What a journal says: a header, then transactions, and the state that they add up to.

Each is one line: the checksum of a JSON text, a space and that text. For example:

    lines([JournalRecord(closed=(1,), seconds=0.5)])   b'3bd55888 {"closed":[1],"seconds":0.5}\n'

A transaction that is too long for a line is cut by `in_parts`; all parts but the last say `more`,
and a reader applies them together.
"""

from __future__ import annotations

import math
import sys
import zlib
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FORMAT = 1
PART = 48 * 1024
"""Payload bytes that one line of a snapshot aims at: 64 KB when it is text."""

_OVERHEAD = 64
_T = TypeVar("_T")
_encode = msgspec.json.Encoder().encode


class JournalHeader(Struct, frozen=True):
    """The search that a journal belongs to; `check_header` compares it."""

    aiosearch: str
    problem: str
    """The problem's class as `module:qualname`."""
    parameters: bytes
    """The problem itself as msgpack, by `parameters_of`."""
    parameters_text: str
    """The problem's `repr`, for people."""
    order: str
    strategy: str
    seed: int
    node_type: str
    format: int = FORMAT


class OpenSubtree(Struct, frozen=True, array_like=True, gc=False):
    """One `Bundle` of nodes that wait to be explored, under the ledger's number."""

    id: int
    rank: int
    priority: float
    """An infinite one comes back as the largest finite number: JSON has no infinity."""
    size: int
    blob: bytes
    depth: int
    weight: float


class JournalRecord(Struct, frozen=True, omit_defaults=True):
    """One transaction: what is finished, and what it left open."""

    closed: tuple[int, ...] = ()
    """Numbers of bundles that are open no longer."""
    opened: tuple[OpenSubtree, ...] = ()
    counts: dict[str, int] = {}
    """Added to the search's `Counts`, by name."""
    solutions: tuple[bytes, ...] = ()
    """Encoded, in the order found."""
    keys: bytes = b""
    """16-byte keys that were claimed, one after the other."""
    seconds: float = 0.0
    """Seconds of search time that passed since the record before."""
    more: bool = False
    """Whether the transaction goes on in the next record; set by `in_parts`."""

    @property
    def weight(self) -> int:
        """About how many bytes the record holds, for `PART` and `Batches`."""
        weight = _OVERHEAD + 8 * len(self.closed) + len(self.keys)
        return weight + sum(map(_weight, self.solutions)) + sum(map(_bundle_weight, self.opened))


class JournalState:
    """Where a search stands. Of solutions with equal bytes the first is kept."""

    def __init__(self, header: JournalHeader) -> None:
        self.header = header
        self.open: dict[int, OpenSubtree] = {}
        self.counts: dict[str, int] = {}
        self.solutions: list[bytes] = []
        self.keys: list[bytes] = []
        """Chunks of 16-byte keys."""
        self.seconds = 0.0
        self.next_id = 0
        """Larger than the id of any bundle that was seen open."""
        self.weight = 0
        """About how many bytes the state holds."""
        self._digests: set[bytes] = set()

    def apply(self, record: JournalRecord) -> None:
        """Adds one transaction. A bundle that is `opened` again replaces itself."""
        # Closed before opened: a task that is split closes under its number, and its parts open
        # under new ones
        for closed in record.closed:
            self._close(closed)
        for bundle in record.opened:
            self._close(bundle.id)
            self.open[bundle.id] = bundle
            self.next_id = max(self.next_id, bundle.id + 1)
            self.weight += _bundle_weight(bundle)
        for name, count in record.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        for solution in record.solutions:
            self._add_solution(solution)
        if record.keys:
            self.keys.append(record.keys)
            self.weight += _weight(record.keys)
        self.seconds += record.seconds

    def snapshot(self) -> Iterator[JournalRecord]:
        """Gives records that add up to the state as it is at this call, one line's worth each."""
        last = JournalRecord(counts=dict(self.counts), seconds=self.seconds)
        bundles = list(self.open.values())
        # Lists that only grow need no copy
        solutions = islice(self.solutions, len(self.solutions))
        keys = islice(self.keys, len(self.keys))
        return in_parts(bundles, solutions, keys, last)

    def _add_solution(self, solution: bytes) -> None:
        digest = blake2b(solution, digest_size=16).digest()
        # Workers may find a solution twice, on either side of a death
        if digest not in self._digests:
            self._digests.add(digest)
            self.solutions.append(solution)
            self.weight += _weight(solution)

    def _close(self, bundle: int) -> None:
        if (gone := self.open.pop(bundle, None)) is not None:
            self.weight -= _bundle_weight(gone)


def in_parts(
    opened: Iterable[OpenSubtree],
    solutions: Iterable[bytes],
    keys: Iterable[bytes],
    last: JournalRecord,
) -> Iterator[JournalRecord]:
    """Cuts a transaction that is too long for a line: the parts take effect together, with the
    `last`."""
    for bundles in _grouped(opened, _bundle_weight):
        yield JournalRecord(opened=tuple(bundles), more=True)
    for encoded in _grouped(solutions, _weight):
        yield JournalRecord(solutions=tuple(encoded), more=True)
    for claimed in _grouped(keys, len):
        yield JournalRecord(keys=b"".join(claimed), more=True)
    yield last


def lines(records: Iterable[JournalRecord]) -> Iterator[bytes]:
    """Writes records as lines, about `PART` bytes at a time, a long one in parts."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        for part in _short(record):
            batch.append(seal(part))
            size += len(batch[-1])
            if size > PART:
                yield b"".join(batch)
                batch, size = [], 0
    if batch:
        yield b"".join(batch)


def _short(record: JournalRecord) -> Iterable[JournalRecord]:
    if record.weight <= PART:
        return (record,)
    # Counts and closed ids stay in the last part: it is the one that makes the transaction count
    last = msgspec.structs.replace(record, opened=(), solutions=(), keys=b"")
    return in_parts(record.opened, record.solutions, (record.keys,), last)


def seal(value: JournalHeader | JournalRecord) -> bytes:
    """Writes one line: the checksum by `zlib.crc32` in hex, a space, the JSON text."""
    if isinstance(value, JournalRecord):
        value = _finite(value)
    # One line: JSON escapes every newline, so the checksum's line is the record
    text = _encode(value)
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _weight(data: bytes) -> int:
    return _OVERHEAD + len(data)


def _bundle_weight(bundle: OpenSubtree) -> int:
    return _OVERHEAD + len(bundle.blob)


def _finite(record: JournalRecord) -> JournalRecord:
    # The usual case, looked at without a copy
    if all(math.isfinite(bundle.priority) for bundle in record.opened):
        return record
    largest = sys.float_info.max
    opened = tuple(
        msgspec.structs.replace(bundle, priority=max(-largest, min(largest, bundle.priority)))
        for bundle in record.opened
    )
    return msgspec.structs.replace(record, opened=opened)


def _grouped(items: Iterable[_T], weigh: Callable[[_T], int]) -> Iterator[list[_T]]:
    """Cuts items into groups of about `PART` bytes."""
    group: list[_T] = []
    weight = 0
    for item in items:
        group.append(item)
        weight += weigh(item)
        # At least one to a group, however large it is: a bundle cannot be cut
        if weight >= PART:
            yield group
            group, weight = [], 0
    if group:
        yield group
