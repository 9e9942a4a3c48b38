"""Values that the parameters of `reduction_space` may take: register tiles, serial tiles, unroll
factors, layouts.

The lists are short on purpose, as a space is their product and is ranked in full. They were fitted
to the rows of `benchmarks/kernels.py` and `benchmarks/hand.py`. The first value of a list is the
default; neighbours of a timed schedule differ in one parameter.

Example: f32 `X[8, 4096] @ W[4096, 4096]` on AVX-512 (32 registers of 16 lanes). A tile of 8 rows by
2 vectors has 16 accumulators and fits; 8 rows by 4 vectors would need 32 + 4 + 1 registers and is
never offered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias

from ....tensor.types import DType
from ...ir import (
    Apply,
    Buffer,
    BufferLoad,
    KernelStage,
    Operation,
    ReductionKind,
    TileKernel,
    single_index,
    used_indices,
)
from ...native.machine import CpuMachine
from ...schedule.space import ScheduleParameter
from ..index_roles import IndexRoles
from ..packing import PackedLayout
from ..prepare.precision import is_bf16_product
from ..prepare.preparation import copyable_indices
from ..prepare.transpose_kernels import is_shared

RegisterCounts: TypeAlias = tuple[int, int, bool]
"""Rows and vectors of accumulators in a register tile, and whether they are in AMX tiles."""
NO_REGISTER_TILE: RegisterCounts = (0, 0, False)
"""The value of `registers` where every reduction is vectorised over the reduced index, so that
`LaneReductionCounts` say how many accumulators there are."""
LEAST_PANEL_COLUMNS = 8
"""Columns that one block computes at least where reductions are vectorised over the reduced index:
fewer would read the rows that columns share too often."""

LaneReductionCounts: TypeAlias = tuple[int, int]
"""Rows and columns of accumulators of a reduction that is vectorised over the reduced index."""

SerialTile: TypeAlias = tuple[str | None, int]
"""The index along which a block loops tile by tile, and the tile's length; `(None, 0)` for no such
loop."""

# Sixteen rows by one vector load the vectorised operand once, where there are no more rows.
_VECTOR_REGISTER_COUNTS = (
    (8, 2),
    (6, 4),
    (4, 4),
    (4, 2),
    (2, 4),
    (12, 2),
    (16, 1),
    (14, 1),
    (1, 4),
    (1, 8),
)
"""Rows and vectors of accumulators in vector registers, fitted to `benchmarks/hand.py` and
`benchmarks/kernels.py`."""
_DIVIDING_VECTORS, _FEWEST_DIVIDING = 2, 5
"""Vectors of the register tile whose rows divide the row index, and its fewest rows."""
_AMX_REGISTER_COUNTS = ((16, 4), (32, 2), (16, 2), (16, 1), (48, 1))
"""Rows and vectors of accumulators in AMX tiles of 16 rows by 16 lanes; `amx_tiles_needed` has to
stay within 8."""
_SERIAL_TILE_LENGTHS = (16, 64, 128, 256, 512)
"""Lengths of a serial tile; 512 rows of two AVX-512 vectors of f32 are 64 KiB, which L2 keeps
beside the accumulators."""
L1_WAYS_TILE = 8
"""A serial tile of 8 rows, for operands in rows a power of two apart: all rows map to one set of
L1, which has 8 ways on Zen 4 and 12 on Sapphire Rapids (`WAYS` of `lscpu --caches`), so a ninth row
may evict the first.
"""
_ROW_TILES = (8, 16, 32, 64, 128, 256)
"""Rows of a block's tile."""
PANEL_COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""Panels of packed columns that a block spans."""
UNROLL_FACTORS = (2, 1, 4, 8)
"""Steps of the innermost loop per iteration, the default first. On a Zen 4, four were 4 to 8 %
slower than two in turns with the kernels of `benchmarks/hand.py`."""
PREFETCH_DISTANCE_FACTORS = (None, 0.0, 0.5, 1.0, 2.0)
"""Multiples of the default prefetch distance of `PrefetchSpace`; `None` leaves the default, 0.0
turns prefetching off."""
_LONGEST_EXACT_SUM = 1024
"""Products that may be accumulated one after the other: rounding errors grow with the length of a
chain, so longer sums of f32 and f64 are cut into serial tiles
(`tests/codegen/cpu/test_summation_accuracy.py` has the bound).
"""
_MOST_SERIAL_TILES = 64
"""Serial tiles of a sum that is not a matrix product, at most: their partial sums are added one
after the other, which must not be a long chain again."""
_NARROWEST_VECTOR_BYTES = 16
"""Bytes of the narrowest vectors, those of SSE and NEON."""


class RowSharing(StrEnum):
    """How a block reads the rows that all columns of its tile share."""

    AS_THEY_ARE = "as they are"
    """Broadcasts come straight from the input."""
    COPIED = "copied"
    """Each block copies its tile of the input, which makes the rows contiguous."""
    TRANSPOSED = "turned"
    """A kernel of its own transposes the input once, so that the elements of one step are
    contiguous; see `prepare.transpose_kernels`."""


def vector_width_parameter(machine: CpuMachine) -> ScheduleParameter:
    """The parameter `width`: the widest vectors (0), or half of that.

    Zen 4 executes 64-byte operations in two halves, and other processors lower the clock for them;
    there half as wide may be faster.
    """
    half = (machine.width // 2,) if machine.width > _NARROWEST_VECTOR_BYTES else ()
    return ScheduleParameter("width", (0, *half), fine=True)


def registers_of(roles: IndexRoles, machine: CpuMachine) -> Iterator[RegisterCounts]:
    """Yields the register tiles that fit: AMX tiles first, where the main stage is a bf16 product
    and the `machine` has AMX.

    Tiles with more rows than the index has are clamped to it, and a tile as many vectors wide as
    the index is long stands in for wider ones. The last one may have rows that divide the index.
    """
    most = roles.row.size if roles.row is not None else 1
    wide = -(-roles.along.size // (machine.width // 4)) if roles.along is not None else 1
    if machine.bf16_matrix and is_bf16_product(roles.stage):
        yield from dict.fromkeys(
            (min(rows, most), vectors, True) for rows, vectors in _AMX_REGISTER_COUNTS
        )
    seen = set()
    # A matrix narrower than a tile would compute lanes that nobody reads.
    clamped = ((rows, wide) for rows, vectors in _VECTOR_REGISTER_COUNTS if vectors > wide)
    for rows, vectors in (*_VECTOR_REGISTER_COUNTS, *clamped, *_dividing_counts(most, machine)):
        clamped_rows = min(rows, most)
        if (
            # One register for each accumulator, one for each vector of the vectorised operand, one
            # for the broadcast.
            clamped_rows * vectors + vectors + 1 <= machine.registers
            and (clamped_rows, vectors) not in seen
        ):
            seen.add((clamped_rows, vectors))
            yield clamped_rows, vectors, False


def _dividing_counts(size: int, machine: CpuMachine) -> list[tuple[int, int]]:
    """The most rows that divide an index and fit the registers beside `_DIVIDING_VECTORS`, where
    these are more than other tiles have.

    Example: 14 of 56 pixels read the weights 4 times, where 8 read them 7 times, and 12 leave a
    tile of 8 over.
    """
    tallest = (machine.registers - 1) // _DIVIDING_VECTORS - 1
    dividing = (rows for rows in range(tallest, _FEWEST_DIVIDING - 1, -1) if size % rows == 0)
    return [(rows, _DIVIDING_VECTORS) for rows in [*dividing][:1]]


def row_tiles(roles: IndexRoles) -> list[int]:
    """Rows of a block's tile: all of them where they are few, as that reads every other operand
    once."""
    if roles.row is None or roles.row not in roles.blocked or roles.row.size <= _ROW_TILES[0]:
        return [roles.row.size if roles.row is not None else 1]
    most = min(roles.row.size, _ROW_TILES[-1])
    return [*(row for row in _ROW_TILES if row < most), most]


def serial_tiles(roles: IndexRoles, outputs: Iterable[Buffer]) -> Iterator[SerialTile]:
    """Yields the serial tiles of a kernel, `(None, 0)` first where a reduction may run in one
    piece.

    Sums of more than `_LONGEST_EXACT_SUM` products into f32 or f64 outputs have to be cut, and
    those that are no matrix products into `_MOST_SERIAL_TILES` at most. Example: a sum over
    k=100,000 has least = 1563, longer than any listed length, so its only serial tile is 2048.
    """
    exact = any(buffer.dtype in (DType.F32, DType.F64) for buffer in outputs)
    long = math.prod(index.size for index in roles.stage.folded) > _LONGEST_EXACT_SUM
    cut = any(
        index in roles.stage.folded and index.size > _SERIAL_TILE_LENGTHS[0]
        for index in roles.serial
    )
    # Inexact outputs may round once more, so a single pass stays on offer for them.
    if not (exact and long and cut):
        yield None, 0
    for index in roles.serial:
        # A tile of a matrix product has to fit L2, so its serial tiles stay short however long the
        # sum is.
        few = exact and index in roles.stage.folded and not _multiplies(roles.stage)
        least = -(-index.size // _MOST_SERIAL_TILES) if few else 0
        lengths: Sequence[int] = (
            (L1_WAYS_TILE, *_SERIAL_TILE_LENGTHS)
            if index == roles.shape.inner
            else _SERIAL_TILE_LENGTHS
        )
        if least > _SERIAL_TILE_LENGTHS[-1]:
            # Rounded up to a power of two, so that tiles are whole vectors and whole steps of an
            # unrolled loop.
            lengths = (1 << (least - 1).bit_length(),)
        yield from ((index.name, length) for length in lengths if least <= length < index.size)


def _multiplies(stage: KernelStage) -> bool:
    """Whether a stage sums products in which an operand is reused along some index, as in a matrix
    product."""
    match stage.value:
        case Apply(Operation.MULTIPLY, arguments):
            everywhere = set(stage.indices)
            return any(set(used_indices(argument)) < everywhere for argument in arguments)
    return False


def unit_tiles(roles: IndexRoles) -> dict[str, int]:
    """Tile size 1 for each index that every reduction depends on, so that blocks never repeat work.

    Indices in registers are excepted: there a larger tile reuses operands.
    """
    sums = [stage for stage in roles.shapes if stage.reduction is not ReductionKind.NONE]
    held = (roles.along, roles.row, roles.shape.column)
    return {
        index.name: 1
        for index in roles.blocked
        if index not in held and all(index in stage.free for stage in sums)
    }


def shared_rows(
    kernel: TileKernel, roles: IndexRoles, machine: CpuMachine
) -> dict[str, PackedLayout | None]:
    """The inputs whose rows all columns of the main stage share, with the panels that a transposing
    kernel would write; `None` where transposing is of no use or not possible."""
    layouts: dict[str, PackedLayout | None] = {}
    row, inner = roles.row, roles.shape.inner
    for load in roles.stage.loads:
        places = [single_index(position) for position in load.at]
        if load.buffer not in kernel.inputs or roles.along in places or row is None:
            continue
        if inner in places and copyable_indices(load) is not None:
            # Transposing helps where a step reads one element of each of several rows: these are a
            # row apart in memory. Along the reduced index they are contiguous already.
            apart = (
                row in places
                and places[-1] == inner
                and _is_only_reading(kernel, roles.stage, load)
            )
            layouts[load.buffer.name] = (
                _row_panel_layout(kernel, roles, load, machine) if apart else None
            )
    return layouts


def _row_panel_layout(
    kernel: TileKernel, roles: IndexRoles, load: BufferLoad, machine: CpuMachine
) -> PackedLayout:
    """Panels one vector wide, with rows interleaved in pairs where any stage multiplies them by the
    bf16 dot instruction."""
    row = next(axis for axis, position in enumerate(load.at) if single_index(position) == roles.row)
    pairs = machine.bf16_dot and any(
        is_bf16_product(stage) and load in stage.loads for stage in kernel.stages
    )
    return PackedLayout(len(load.at) - 1, row, machine.width // 4, pairs)


def _is_only_reading(kernel: TileKernel, stage: KernelStage, load: BufferLoad) -> bool:
    """Whether every load that a transposed copy would serve reads what `load` reads, so that one
    copy serves all."""
    shared_loads = {
        read
        for stage in kernel.stages
        for read in stage.loads
        if read.buffer == load.buffer and is_shared(stage, read)
    }
    return is_shared(stage, load) and shared_loads == {load}
