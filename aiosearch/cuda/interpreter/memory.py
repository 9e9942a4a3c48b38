"""The address space of the interpreter: buffers far apart, so that no overrun lands in another.

An address has the number of its buffer in the bits from 40 up, and below them an offset that begins
at 2^39. So an index that is too large or negative stays in the gap of its own buffer and is
noticed. Memory that each block or thread has for itself is one buffer of many segments, which lie
apart in the same way: 1 MiB more than their size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.types import ScalarType
from .arithmetic import NUMPY, Array

_SHIFT = 40
_MIDDLE = 1 << 39
_MASK = (1 << _SHIFT) - 1
_GAP = 1 << 20


@dataclass(slots=True)
class MemoryBuffer:
    """Bytes, and who owns them."""

    number: int
    name: str
    size: int
    """Of one segment."""
    data: Array
    """All segments, one after the other, as bytes."""
    segments: int = 1
    initialized: Array | None = None
    """Which bytes were written; none where all were, before the kernel began."""
    is_private: bool = False
    is_shared: bool = False

    @property
    def stride(self) -> int:
        """Between segments, in addresses."""
        return self.size + _GAP

    def base(self, segment: int | Array = 0) -> Any:
        """The address of a segment."""
        start = (self.number << _SHIFT) + _MIDDLE
        return start + np.asarray(segment, np.int64) * np.int64(self.stride)

    def positions(self, offsets: Array, size: int) -> tuple[Array, Array]:
        """Where in the data so many bytes at these offsets lie, and whether they are inside."""
        if self.segments == 1:
            inside = (offsets >= 0) & (offsets + size <= self.size)
            return offsets, inside
        segment, within = np.divmod(offsets, self.stride)
        inside = (segment >= 0) & (segment < self.segments) & (within + size <= self.size)
        return segment * self.size + within, inside


@dataclass(slots=True)
class AddressSpace:
    """Buffers by number."""

    buffers: dict[int, MemoryBuffer] = field(default_factory=dict)
    _last: int = 0

    def adopt(self, name: str, array: Array) -> MemoryBuffer:
        """Makes a contiguous array a buffer; what is written to it is written to the array."""
        data = array.reshape(-1).view(np.uint8)
        return self._enter(MemoryBuffer(0, name, data.size, data))

    def allocate(
        self,
        name: str,
        size: int,
        segments: int = 1,
        *,
        is_private: bool = False,
        is_shared: bool = False,
        initialized: bool = False,
    ) -> MemoryBuffer:
        """Makes memory that nobody has written to, with something in it that is easily noticed."""
        data = np.full(size * segments, 0 if initialized else 0xCD, np.uint8)
        written = None if initialized else np.zeros(size * segments, np.bool_)
        return self._enter(
            MemoryBuffer(0, name, size, data, segments, written, is_private, is_shared)
        )

    def _enter(self, buffer: MemoryBuffer) -> MemoryBuffer:
        self._last += 1
        buffer.number = self._last
        self.buffers[buffer.number] = buffer
        return buffer

    def release(self, buffer: MemoryBuffer) -> None:
        self.buffers.pop(buffer.number, None)

    def split(self, addresses: Array) -> list[tuple[MemoryBuffer | None, Array, Array]]:
        """Groups addresses by buffer: which, the places in the input, and the offsets there."""
        if addresses.size == 0:
            return []
        numbers = addresses >> _SHIFT
        offsets = (addresses & _MASK) - _MIDDLE
        first = int(numbers.flat[0])
        if bool(np.all(numbers == first)):
            everywhere = np.arange(addresses.size)
            return [(self.buffers.get(first), everywhere, offsets)]
        groups: list[tuple[MemoryBuffer | None, Array, Array]] = []
        for number in np.unique(numbers):
            places = np.flatnonzero(numbers == number)
            groups.append((self.buffers.get(int(number)), places, offsets[places]))
        return groups

    def at(self, address: int) -> tuple[MemoryBuffer, int]:
        """The buffer of one address, and the offset in it; raises KeyError where there is none."""
        return self.buffers[address >> _SHIFT], (address & _MASK) - _MIDDLE


def gathered(data: Array, positions: Array, type: ScalarType) -> Array:
    """Reads a scalar at each position of bytes."""
    dtype = NUMPY[type]
    size = dtype.itemsize
    usable = data[: data.size // size * size]
    if not np.any(positions % size):
        collected = usable.view(dtype if type is not ScalarType.BOOL else np.uint8)[
            positions // size
        ]
        return np.asarray(collected if type is not ScalarType.BOOL else collected != 0)
    bytes_of = data[positions[:, None] + np.arange(size)]
    return np.asarray(np.ascontiguousarray(bytes_of).view(dtype)[:, 0])


def scattered(data: Array, positions: Array, values: Array, type: ScalarType) -> None:
    """Writes a scalar at each position of bytes; of two at one position, the later."""
    dtype = NUMPY[type]
    size = dtype.itemsize
    usable = data[: data.size // size * size]
    if not np.any(positions % size):
        usable.view(dtype)[positions // size] = values
        return
    rows = np.ascontiguousarray(values.astype(dtype)).view(np.uint8).reshape(-1, size)
    data[positions[:, None] + np.arange(size)] = rows
