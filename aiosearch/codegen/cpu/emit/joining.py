"""Kernels that run as one phase, as they need of each other no more than the rows they work on.

Problem: all threads meet between two phases, whoever comes first waits, and what one has written is
read by another, out of a cache further away.

Example: a norm of f32[128, 256] in blocks of 4 rows, and a product of it by [256, 256] in blocks of
16 rows by 64 columns. Rows 16 to 31 of the product need rows 16 to 31 of the norm. So there is one
phase of 8 groups, each of 16 rows: four blocks of the norm, then four of the product, run by one
thread, which finds the rows in its cache. Attention needs all rows of its keys, so a phase begins
there.

Invariant: a kernel joins those before it if each element that it reads of theirs lies at its own
row, and was written at theirs, so no group reads what another writes. Blocks of one kernel never
depend on each other, so they may be dealt in any other way.

Cost: a group reads the weights of all its kernels, where a phase of one kernel reads its own again
and again; so whether to join is for trials to find.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...ir import Buffer, LoopIndex, TileKernel, single_index
from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue, i64
from ..schedule import Schedule, blocked

_MOST_ASSIGNMENTS = 32
"""As many ways to choose the row of each kernel are followed at once."""


@dataclass(frozen=True, slots=True)
class BlockGrid:
    """How the blocks of a kernel are numbered: by their tile along each index that is cut."""

    kernel: TileKernel
    tiles: tuple[tuple[LoopIndex, int], ...]
    """Each of these indices with the size of its tiles, the one that changes slowest first."""

    def tile(self, row: LoopIndex) -> int:
        """The size of the tiles along an index."""
        return dict(self.tiles)[row]

    def around(self, row: LoopIndex) -> tuple[int, int, int]:
        """How many tiles lie along the indices that change more slowly, along this one, and along
        those that change faster.
        """
        counts = [-(-index.size // tile) for index, tile in self.tiles]
        at = [index for index, _ in self.tiles].index(row)
        return math.prod(counts[:at]), counts[at], math.prod(counts[at + 1 :])

    def written_at(self, row: LoopIndex) -> dict[Buffer, set[int]]:
        """The axes of each output along which an element lies at its row."""
        axes: dict[Buffer, set[int]] = {}
        for stage in self.kernel.stages:
            if stage.target in self.kernel.outputs:
                at = {axis for axis, place in enumerate(stage.at) if single_index(place) == row}
                axes[stage.target] = axes.get(stage.target, at) & at
        return axes


@dataclass(frozen=True, slots=True)
class JoinedPhase:
    """Neighbouring kernels that run as one phase, or a kernel that runs alone."""

    first: int
    """The number of the first kernel."""
    rows: tuple[LoopIndex, ...]
    """The row of each kernel; of one that runs alone there is none."""
    tile: int = 0
    """Rows of a group."""
    groups: int = 0

    @property
    def kernels(self) -> range:
        """The numbers of its kernels."""
        return range(self.first, self.first + max(1, len(self.rows)))


def constants_first(kernels: Iterable[TileKernel]) -> list[TileKernel]:
    """The kernels, those that read nothing at the beginning, so that they part no others."""
    return sorted(kernels, key=lambda kernel: bool(kernel.inputs))


def phases_by_rows(
    kernels: Iterable[TileKernel], schedules: Mapping[str, Schedule], least: int
) -> list[JoinedPhase]:
    """The phases that kernels run in by these schedules, joined where they can be; each joined
    phase has `least` groups at least.
    """
    grids = []
    for kernel in constants_first(kernels):
        schedule = schedules[kernel.name]
        tiles = tuple((index, schedule.tile(index)) for index in blocked(kernel))
        grids.append(BlockGrid(kernel, tiles))
    packed = [
        name
        for schedule in schedules.values()
        for name in (*schedule.layouts, *schedule.transposed)
    ]
    return joined_phases(grids, least, packed)


def rows_in_common(kernels: Sequence[TileKernel], least: int) -> dict[str, LoopIndex]:
    """By name, the kernels that could be joined if each was cut as finely as it can be, with their
    rows.
    """
    finest = {
        kernel.name: Schedule({index.name: 1 for index in blocked(kernel)}) for kernel in kernels
    }
    ordered = constants_first(kernels)
    return {
        ordered[number].name: row
        for phase in phases_by_rows(kernels, finest, least)
        for number, row in zip(phase.kernels, phase.rows, strict=False)
    }


def joined_phases(
    grids: Sequence[BlockGrid], least: int, packed: Iterable[str] = ()
) -> list[JoinedPhase]:
    """The phases of kernels that run in this order, as many kernels in each as possible.

    Each joined phase has `least` groups at least. What lies in a `packed` layout is never passed on
    within a phase, as a panel holds elements of several rows.
    """
    phases: list[JoinedPhase] = []
    first, unshared = 0, frozenset(packed)
    while first < len(grids):
        ways: list[tuple[LoopIndex, ...]] = [()]
        for number in range(first, len(grids)):
            longer = [
                (*rows, row)
                for rows in ways
                for row, _ in grids[number].tiles
                if _joins(grids[first : number + 1], (*rows, row), least, unshared)
            ]
            if not longer:
                break
            ways = longer[:_MOST_ASSIGNMENTS]
        rows = ways[0]
        if len(rows) > 1:
            tile, groups = _cut(grids[first : first + len(rows)], rows)
            phases.append(JoinedPhase(first, rows, tile, groups))
        else:
            phases.append(JoinedPhase(first, ()))
        first = phases[-1].kernels.stop
    return phases


def print_joined(
    name: str, phase: JoinedPhase, grids: Sequence[BlockGrid], parts: Sequence[str]
) -> str:
    """The LLVM function that runs groups `%begin` to before `%end`; `parts` are the functions of
    the kernels, which take numbers of blocks.
    """
    writer = FunctionBuilder()

    def run(group: LlvmInteger) -> None:
        for number, row, part in zip(phase.kernels, phase.rows, parts, strict=True):
            slower, count, faster = grids[number].around(row)
            tiles = phase.tile // grids[number].tile(row)
            first = writer.multiply(group, tiles)
            last = writer.minimum(writer.add(first, tiles), count)
            ends = [writer.multiply(tile, faster) for tile in (first, last)]

            # The blocks of these rows lie apart where another index changes more slowly.
            def along(
                slow: LlvmInteger,
                stride: int = count * faster,
                ends: Sequence[LlvmInteger] = ends,
                part: str = part,
            ) -> None:
                begin, end = (writer.add(writer.multiply(slow, stride), at) for at in ends)
                writer.emit(
                    f"call void @{part}(ptr %buffers, ptr %scratch, {i64(begin)}, {i64(end)})"
                )

            if slower == 1:
                along(0)
            else:
                writer.repeat(0, slower, along)

    begin, end = (LlvmValue(text, "i64") for text in ("%begin", "%end"))
    writer.repeat(begin, end, run)
    head = f"define void @{name}(ptr %buffers, ptr %scratch, i64 %begin, i64 %end) {{"
    return "\n".join([head, *writer.text, "  ret void", "}"])


def _joins(
    grids: Sequence[BlockGrid], rows: Sequence[LoopIndex], least: int, packed: frozenset[str]
) -> bool:
    """Whether the last of these kernels may run with those before it, by these rows."""
    if rows[-1].size != rows[0].size or _cut(grids, rows)[1] < least:
        return False
    written = {
        buffer: axes
        for grid, row in zip(grids[:-1], rows, strict=False)
        for buffer, axes in grid.written_at(row).items()
    }
    return all(
        buffer.name not in packed and read & written[buffer]
        for buffer, read in _read_at(grids[-1].kernel, rows[-1])
        if buffer in written
    )


def _read_at(kernel: TileKernel, row: LoopIndex) -> Iterator[tuple[Buffer, set[int]]]:
    """Each buffer that is read, with the axes along which that is at a row."""
    for stage in kernel.stages:
        for load in stage.loads:
            yield (
                load.buffer,
                {axis for axis, place in enumerate(load.at) if single_index(place) == row},
            )


def _cut(grids: Sequence[BlockGrid], rows: Sequence[LoopIndex]) -> tuple[int, int]:
    """Rows of a group, in whole tiles of each kernel, and how many groups there are."""
    tile = math.lcm(*(grid.tile(row) for grid, row in zip(grids, rows, strict=True)))
    return tile, -(-rows[0].size // tile)
