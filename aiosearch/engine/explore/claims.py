"""The table of keys that are claimed: of nodes with equal keys, whose subtrees are equal, one is
explored.

Worker processes share one table per search and machine. Python has no compare-and-swap, so the
table needs no more of the hardware than that an aligned store of eight bytes is whole: duplicates
are found without a lock, and everything that writes holds a record lock on its window of slots,
which the kernel releases when its holder dies.

Sharing is crash-safe because a claim counts only as far as its owner's reports did: the host writes
down the last report that it committed of a dead worker, and later claims are void. Whoever meets a
void claim takes it over.

A key of 16 bytes is two words; the first one names the window of `WINDOW` slots that may hold it.
With the owner 7 in its third report, a claim with bound 4.5 is

    slot: [first word, second word, 7 << 32 | 3, 4.5]

Cost: a duplicate takes a probe of a few slots; a new claim adds two system calls for the lock, 1.2
µs together. Memory is 32 bytes a slot. See docs/why/design.md.
"""

from __future__ import annotations

import enum
import math
import mmap
import os
import struct
from hashlib import blake2b

import msgspec

from ...memory import ORDERED, lock, reopen, unlink_if_named, unlock, unnamed_file

PART_BYTES = 32 * 1024
"""Bytes that are sent at once: a link is never busy with them for long."""


class KeyChunks:
    """Keys of 16 bytes each, in parts of `PART_BYTES`."""

    def __init__(self) -> None:
        self._parts: list[bytearray] = []

    def add(self, keys: bytes) -> None:
        if not self._parts or len(self._parts[-1]) + len(keys) > PART_BYTES:
            self._parts.append(bytearray())
        self._parts[-1] += keys

    def part(self, number: int) -> bytes:
        """One part, counted from 0; empty beyond the last."""
        return bytes(self._parts[number]) if number < len(self._parts) else b""


CAPACITY = 1 << 22
"""Keys that a table has room for; memory is taken only for slots that are used."""
OWNERS = 1 << 22
HOST = OWNERS - 1
"""The owner whose claims are never void: `SharedClaims.create` and the keys of earlier runs."""
WINDOW = 128
"""A key lives within this many slots of the place that its first word names."""

_SLOT = 32
_HEADER = 4 * OWNERS
_WORDS = struct.Struct("=QQ")
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Claim(enum.Enum):
    """What became of a claim. All but `DUPLICATE` mean: explore this node."""

    NEW = enum.auto()
    DUPLICATE = enum.auto()
    REOPENED = enum.auto()
    """The key was explored with a worse bound only: a better path may lead to a better solution."""
    FULL = enum.auto()
    """No free slot in the key's window remembers it: its subtree may be explored more than once."""


_NEW, _DUPLICATE, _REOPENED, _FULL = Claim


def key_digest(key: bytes | str | int | tuple[object, ...]) -> bytes:
    """Gives the 16 bytes that stand for a key in every process.

    Keys of different types differ: `key_digest(b"1")`, `key_digest("1")` and `key_digest(1)`
    are three digests.
    """
    if isinstance(key, bytes):
        return blake2b(key, digest_size=16).digest()
    if isinstance(key, str):
        return blake2b(key.encode(), digest_size=16, person=b"str").digest()
    if isinstance(key, int):
        data = key.to_bytes(key.bit_length() // 8 + 1, "little", signed=True)
        return blake2b(data, digest_size=16, person=b"int").digest()
    return blake2b(_encode(key), digest_size=16, person=b"tuple").digest()


class LocalClaims:
    """The table of a search without worker processes: a dictionary with `SharedClaims`' methods."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._bounds: dict[bytes, float] = {}

    def claim(self, key: bytes, bound: float = -math.inf) -> Claim:
        """Claims a key; one that was claimed with a larger `bound` is `REOPENED`."""
        bounds = self._bounds
        claimed = bounds.get(key)
        if claimed is None:
            if len(bounds) >= self._capacity:
                return _FULL
            bounds[key] = bound
            return _NEW
        if bound >= claimed:
            return _DUPLICATE
        bounds[key] = bound
        return _REOPENED

    def preload(self, keys: bytes) -> None:
        """Adds the keys, 16 bytes each, that an earlier run of a search without bounds explored."""
        for start in range(0, len(keys), 16):
            self.claim(keys[start : start + 16])

    def close(self) -> None:
        self._bounds.clear()


class SharedClaims:
    """One process's view of the table that a search's workers share.

    The host calls `create`, workers `attach` to its `path`. The host must `release` a dead worker
    before it gives that worker's open work to others, or they would meet claims that nobody
    honours.

    A slot is four words: two of key, the stamp (owner and report number) and the bound. The stamp
    is written last and zero while the slot is being written; the key, once there, never changes.
    So a reader that finds key and stamp has found a claim, and a writer killed at any instruction
    leaves a slot that its own key can still use, or, half a key, one slot that nobody uses.
    """

    def __init__(self, fd: int, path: str, owner: int) -> None:
        self.path = path
        """Where workers of the same user `attach` while the host has the table open."""
        self.sequence = 1
        """The number of the report that will carry the claims made now; `WorkerSession`
        counts it up."""
        self._fd = fd
        self._owner = owner
        self._map = mmap.mmap(fd, 0)
        view = memoryview(self._map)
        self._cuts = view[:_HEADER].cast("I")
        self._words = view[_HEADER:].cast("Q")
        self._bounds = view[_HEADER:].cast("d")
        self._capacity = (len(self._map) - _HEADER) // _SLOT - WINDOW

    @classmethod
    def create(cls, capacity: int = CAPACITY) -> SharedClaims:
        """Makes an empty table for `capacity` keys. The creator's own claims are never void."""
        fd, path = unnamed_file("aiosearch-claims")
        os.ftruncate(fd, _HEADER + (capacity + WINDOW) * _SLOT)
        return cls(fd, path, HOST)

    @classmethod
    def attach(cls, path: str, owner: int) -> SharedClaims:
        """Opens a table by its path, for one life of one worker.

        Owners are numbered from 1, and a number is never used again in the same table.
        """
        if not 0 < owner < HOST:
            raise ValueError(f"owner {owner} is not between 1 and {HOST - 1}")
        # Locks exclude open file descriptions from each other, so each process needs its own
        return cls(reopen(path), path, owner)

    def claim(self, key: bytes, bound: float = -math.inf) -> Claim:
        """Claims a 16-byte key; one that was claimed with a larger `bound` is `REOPENED`."""
        first, second = _WORDS.unpack(key)
        # Zero marks a free slot, so a digest that begins with eight zero bytes is stored as 1
        first = first or 1
        words = self._words
        home = first % self._capacity
        for at in range(home * 4, (home + WINDOW) * 4, 4):
            word = words[at]
            if word == first and words[at + 1] == second:
                if self._valid(words[at + 2]) and self._covers(at, bound):
                    return _DUPLICATE
                break
            if not word:
                break
        else:
            return _FULL
        # Locked windows may overlap: the lock is on the slots, by number, so neighbours exclude
        # each other
        lock(self._fd, home, WINDOW)
        try:
            return self._settle(first, second, bound)
        finally:
            unlock(self._fd, home, WINDOW)

    def release(self, owner: int, committed: int) -> None:
        """Voids the claims that a dead worker made after its report `committed` (0: all of
        them)."""
        # One store of four bytes: from this moment every process sees the later claims as void
        self._cuts[owner] = committed + 1

    def preload(self, keys: bytes) -> None:
        """Adds the keys, 16 bytes each, that an earlier run of a search without bounds explored.

        A few microseconds per key, so a caller with a loop to serve gives a slice at a time.
        """
        # All slots at once: one lock for thousands of keys, before any worker is busy
        lock(self._fd, 0, 0)
        try:
            for first, second in _WORDS.iter_unpack(keys):
                self._settle(first or 1, second, -math.inf)
        finally:
            unlock(self._fd, 0, 0)

    def close(self) -> None:
        """Gives the memory back. Safe to call twice."""
        if self._map.closed:
            return
        for view in (self._cuts, self._words, self._bounds):
            view.release()
        self._map.close()
        os.close(self._fd)
        if self._owner == HOST:
            unlink_if_named(self.path)

    def _settle(self, first: int, second: int, bound: float) -> Claim:
        """Decides a claim and writes it down; the caller holds the lock of the key's window."""
        words = self._words
        home = first % self._capacity
        for at in range(home * 4, (home + WINDOW) * 4, 4):
            word = words[at]
            if not word:
                words[at] = first
                words[at + 1] = second
                return self._write(at, bound, _NEW)
            if word == first and words[at + 1] == second:
                if not self._valid(words[at + 2]):
                    return self._write(at, bound, _NEW)
                if bound >= self._bounds[at + 3]:
                    return _DUPLICATE
                return self._write(at, bound, _REOPENED)
        return _FULL

    def _write(self, at: int, bound: float, claim: Claim) -> Claim:
        self._words[at + 2] = 0  # a bound must never be read, or left, under another's stamp
        self._bounds[at + 3] = bound
        self._words[at + 2] = self._owner << 32 | self.sequence
        return claim

    def _valid(self, stamp: int) -> bool:
        cut = self._cuts[stamp >> 32]
        return stamp != 0 and (not cut or stamp & 0xFFFFFFFF < cut)

    def _covers(self, at: int, bound: float) -> bool:
        """Says, without a lock, whether the slot's claim is at least as good as one with
        `bound`.

        The stamp was read before. On a processor that lets loads pass each other (`ORDERED`
        is false) the bound could be older than the stamp, so there only a search without
        bounds may believe it.
        """
        if ORDERED:
            return bound >= self._bounds[at + 3]
        return bound == -math.inf == self._bounds[at + 3]
