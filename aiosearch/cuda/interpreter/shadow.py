"""Who touched which bytes last: races, found while a kernel runs.

Two accesses of different threads to the same bytes race if one of them writes and nothing orders
them. A barrier orders the threads of a block, `__syncwarp` those of a warp, and nothing within a
launch orders threads of different blocks. So each block counts its barriers, and each warp its own;
an access leaves its thread and both counts with the bytes (its *stamp*), and the next one compares:

    block differs                    -> unordered
    same block, fewer barriers then  -> ordered
    same warp, fewer warp barriers   -> ordered
    same thread                      -> ordered

For example, `s[t] = x; y = s[t + 1]` without a barrier: thread 1 left (thread 1, 0 barriers) as the
writer of s[1], and thread 0 reads s[1] with 0 barriers behind it, so they race.

A cell remembers the last write, the last atomic and two reads: the last, and the last before it of
another thread. Two suffice: a write races with some reader unless all of them are the writer itself
or are ordered before it, and reads that are ordered before a later one of their own block are
ordered before whatever that one is ordered before. Reads of a third block are forgotten, which can
lose a race of three blocks on one cell, and never invents one.

The cost is a few array operations for each access, and 40 bytes for each cell.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..ir.operations import NOWHERE, SourceLocation
from .arithmetic import Array
from .findings import FindingKind, KernelFaults
from .memory import MemoryBuffer

_NOBODY = -1


@dataclass(slots=True)
class Stamps:
    """For each cell: thread, its block's barriers, its warp's barriers, the line."""

    thread: Array
    barriers: Array
    warps: Array
    line: Array

    @staticmethod
    def of(cells: int) -> Stamps:
        return Stamps(
            np.full(cells, _NOBODY, np.int64),
            np.zeros(cells, np.int32),
            np.zeros(cells, np.int32),
            np.zeros(cells, np.int32),
        )

    def put(self, cells: Array, who: Accessors, line: int) -> None:
        self.thread[cells] = who.thread
        self.barriers[cells] = who.barriers
        self.warps[cells] = who.warps
        self.line[cells] = line

    def copy_from(self, second: Stamps, cells: Array) -> None:
        for name in ("thread", "barriers", "warps", "line"):
            getattr(self, name)[cells] = getattr(second, name)[cells]


@dataclass(slots=True)
class Accessors:
    """The threads that make an access: their numbers in the grid, and what they waited for."""

    thread: Array
    barriers: Array
    warps: Array

    def take(self, places: Array) -> Accessors:
        return Accessors(self.thread[places], self.barriers[places], self.warps[places])


@dataclass(slots=True)
class _Cells:
    granule: int
    writes: Stamps
    atomics: Stamps
    reads: Stamps
    earlier: Stamps
    """The last reads of threads other than those in `reads`."""


@dataclass(slots=True)
class Shadow:
    """Watches the accesses of one launch."""

    findings: KernelFaults
    block_size: int
    _cells: dict[int, _Cells] = field(default_factory=dict)
    _lines: list[SourceLocation] = field(default_factory=lambda: [NOWHERE])
    _numbers: dict[SourceLocation, int] = field(default_factory=dict)

    def read(
        self, buffer: MemoryBuffer, positions: Array, size: int, who: Accessors, at: SourceLocation
    ) -> None:
        cells = self._of(buffer, positions, size)
        line = self._line(at)
        for item, left in self._spread(cells, positions, size, who):
            self._compare(cells.writes, item, left, at, buffer, ("write", "read"))
            self._compare(cells.atomics, item, left, at, buffer, ("atomic", "read"))
            moved = item[cells.reads.thread[item] != left.thread]
            cells.earlier.copy_from(cells.reads, moved)
            # Of several lanes that read one cell now, one becomes the last and one the earlier.
            cells.reads.put(item, left, line)
            remaining_values = cells.reads.thread[item] != left.thread
            if remaining_values.any():
                cells.earlier.put(
                    item[remaining_values], left.take(np.flatnonzero(remaining_values)), line
                )

    def write(
        self, buffer: MemoryBuffer, positions: Array, size: int, who: Accessors, at: SourceLocation
    ) -> None:
        cells = self._of(buffer, positions, size)
        for item, left in self._spread(cells, positions, size, who):
            self._compare(cells.writes, item, left, at, buffer, ("write", "write"))
            self._compare(cells.atomics, item, left, at, buffer, ("atomic", "write"))
            self._compare(cells.reads, item, left, at, buffer, ("read", "write"))
            self._compare(cells.earlier, item, left, at, buffer, ("read", "write"))
            cells.writes.put(item, left, self._line(at))
            lost = cells.writes.thread[item] != left.thread
            if lost.any():
                self._compare(
                    cells.writes,
                    item[lost],
                    left.take(np.flatnonzero(lost)),
                    at,
                    buffer,
                    ("write", "write"),
                )

    def atomic(
        self, buffer: MemoryBuffer, positions: Array, size: int, who: Accessors, at: SourceLocation
    ) -> None:
        cells = self._of(buffer, positions, size)
        for item, left in self._spread(cells, positions, size, who):
            self._compare(cells.writes, item, left, at, buffer, ("write", "atomic"))
            self._compare(cells.reads, item, left, at, buffer, ("read", "atomic"))
            self._compare(cells.earlier, item, left, at, buffer, ("read", "atomic"))
            cells.atomics.put(item, left, self._line(at))

    def _line(self, at: SourceLocation) -> int:
        if at not in self._numbers:
            self._numbers[at] = len(self._lines)
            self._lines.append(at)
        return self._numbers[at]

    def _of(self, buffer: MemoryBuffer, positions: Array, size: int) -> _Cells:
        """The cells of a buffer: of four bytes, or of one where smaller elements are accessed."""
        granule = 4 if size >= 4 and not np.any(positions & 3) else 1
        existing = self._cells.get(buffer.number)
        if existing is None or existing.granule > granule:
            count = -(-buffer.data.size // granule)
            existing = _Cells(granule, *(Stamps.of(count) for _ in range(4)))
            self._cells[buffer.number] = existing
        return existing

    @staticmethod
    def _spread(
        cells: _Cells, positions: Array, size: int, who: Accessors
    ) -> list[tuple[Array, Accessors]]:
        """The cells of an access, one after the other: a double has two of four bytes."""
        first = positions // cells.granule
        return [(first + step, who) for step in range(max(size // cells.granule, 1))]

    def _compare(
        self,
        stamps: Stamps,
        cells: Array,
        who: Accessors,
        at: SourceLocation,
        buffer: MemoryBuffer,
        names: tuple[str, str],
    ) -> None:
        thread = stamps.thread[cells]
        second = (thread != _NOBODY) & (thread != who.thread)
        if not second.any():
            return
        size = self.block_size
        same_block = thread // size == who.thread // size
        same_warp = same_block & (thread % size // 32 == who.thread % size // 32)
        ordered = same_block & (stamps.barriers[cells] < who.barriers)
        ordered |= same_warp & (stamps.warps[cells] < who.warps)
        racing = np.flatnonzero(second & ~ordered)
        if not racing.size:
            return
        for number in np.unique(stamps.line[cells[racing]]):
            there = self._lines[int(number)]
            group = racing[stamps.line[cells[racing]] == number]
            first = group[0]
            left, two = int(thread[first]), int(who.thread[first])
            where = "" if there == at else f" at {there}"
            why = ", with no barrier between"
            if left // size != two // size:
                why = ": nothing orders threads of different blocks"
            message = (
                f"{names[1]} of {buffer.name} by {self._named(two)} and {names[0]} by"
                f" {self._named(left)}{where}{why}"
            )
            self.findings.add(FindingKind.RACE, at, message, there, int(group.size))

    def _named(self, thread: int) -> str:
        return f"thread {thread % self.block_size} of block {thread // self.block_size}"
