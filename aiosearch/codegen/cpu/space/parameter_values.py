"""Values that the parameters of the reduction space may take."""

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
"""Rows and vectors of sums, and whether they are a matrix unit's."""
NO_REGISTER_TILE: RegisterCounts = (0, 0, False)
"""Where no sums are in registers so, as lanes lie along what is folded."""
LEAST_PANEL_COLUMNS = 8
"""Columns whose sums one block makes at least, where lanes lie so."""

LaneReductionCounts: TypeAlias = tuple[int, int]
"""Rows and columns of sums, where lanes lie along what is folded."""

SerialTile: TypeAlias = tuple[str | None, int]
"""An index along which a block goes tile by tile, and the tile's length."""

# Sixteen rows by one vector read what the lanes read once, where there are no more rows.
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
"""Rows and vectors of sums."""
_AMX_REGISTER_COUNTS = ((16, 4), (32, 2), (16, 2), (16, 1), (48, 1))
"""The same for a matrix unit."""
_SERIAL_TILE_LENGTHS = (16, 64, 128, 256, 512)
L1_WAYS_TILE = 8
"""The same down rows of memory that lie apart: a first cache keeps a line of each of so many."""
_ROW_TILES = (8, 16, 32, 64, 128, 256)
PANEL_COUNTS = (1, 2, 4, 8, 16, 32, 64)
UNROLL_FACTORS = (2, 1, 4, 8)
PREFETCH_DISTANCE_FACTORS = (None, 0.0, 0.5, 1.0, 2.0)
"""Times what is usual."""
_LONGEST_EXACT_SUM = 1024
"""So many products may be added one after the other."""
_MOST_SERIAL_TILES = 64
"""Into so many tiles, whose sums are added one after the other, other long sums are cut at most."""
_NARROWEST_VECTOR_BYTES = 16
"""Bytes of the narrowest vectors."""


class RowSharing(StrEnum):
    """That columns share."""

    AS_THEY_ARE = "as they are"
    COPIED = "copied"
    """Each block copies its own, so that they lie close together."""
    TURNED = "turned"
    """They are laid side by side once, before all blocks."""


def vector_width_parameter(machine: CpuMachine) -> ScheduleParameter:
    """Of vectors: the widest, and half of that, of which some processors do more in a cycle."""
    half = (machine.width // 2,) if machine.width > _NARROWEST_VECTOR_BYTES else ()
    return ScheduleParameter("width", (0, *half), fine=True)


def registers_of(own: IndexRoles, machine: CpuMachine) -> Iterator[RegisterCounts]:
    """No more rows than there are; vectors that are too many, and as many as there are."""
    most = own.row.size if own.row is not None else 1
    wide = -(-own.along.size // (machine.width // 4)) if own.along is not None else 1
    if machine.bf16_matrix and is_bf16_product(own.stage):
        yield from dict.fromkeys(
            (min(rows, most), vectors, True) for rows, vectors in _AMX_REGISTER_COUNTS
        )
    seen = set()
    clamped = ((rows, wide) for rows, vectors in _VECTOR_REGISTER_COUNTS if vectors > wide)
    for rows, vectors in (*_VECTOR_REGISTER_COUNTS, *clamped):
        kept = min(rows, most)
        if kept * vectors + vectors + 1 <= machine.registers and (kept, vectors) not in seen:
            seen.add((kept, vectors))
            yield kept, vectors, False


def row_tiles(own: IndexRoles) -> list[int]:
    """All rows are one tile where they are not too many, which reads all else once."""
    if own.row is None or own.row not in own.blocked or own.row.size <= _ROW_TILES[0]:
        return [own.row.size if own.row is not None else 1]
    most = min(own.row.size, _ROW_TILES[-1])
    return [*(row for row in _ROW_TILES if row < most), most]


def serial_tiles(own: IndexRoles, outputs: Iterable[Buffer]) -> Iterator[SerialTile]:
    """Long sums are cut where outputs are more exact than one is, and not into too many pieces."""
    exact = any(one.dtype in (DType.F32, DType.F64) for one in outputs)
    long = math.prod(one.size for one in own.stage.folded) > _LONGEST_EXACT_SUM
    cut = any(one in own.stage.folded and one.size > _SERIAL_TILE_LENGTHS[0] for one in own.serial)
    if not (exact and long and cut):
        yield None, 0
    for one in own.serial:
        few = exact and one in own.stage.folded and not _multiplies(own.stage)
        least = -(-one.size // _MOST_SERIAL_TILES) if few else 0
        lengths: Sequence[int] = (
            (L1_WAYS_TILE, *_SERIAL_TILE_LENGTHS)
            if one == own.shape.inner
            else _SERIAL_TILE_LENGTHS
        )
        if least > _SERIAL_TILE_LENGTHS[-1]:
            lengths = (1 << (least - 1).bit_length(),)
        yield from ((one.name, length) for length in lengths if least <= length < one.size)


def _multiplies(stage: KernelStage) -> bool:
    """Whether it adds up products of what is used again and again, as those of matrices are."""
    match stage.value:
        case Apply(Operation.MULTIPLY, arguments):
            everywhere = set(stage.indices)
            return any(set(used_indices(one)) < everywhere for one in arguments)
    return False


def unit_tiles(own: IndexRoles) -> dict[str, int]:
    """What all sums depend on is cut as fine as can be: no block does what another one does.

    But for what registers run along, so that what is read serves several sums.
    """
    sums = [stage for stage in own.shapes if stage.fold is not ReductionKind.NONE]
    held = (own.along, own.row, own.shape.column)
    return {
        one.name: 1
        for one in own.blocked
        if one not in held and all(one in stage.free for stage in sums)
    }


def shared_rows(
    kernel: TileKernel, own: IndexRoles, machine: CpuMachine
) -> dict[str, PackedLayout | None]:
    """Rows that several columns share; and panels of them, where they lie far apart."""
    found: dict[str, PackedLayout | None] = {}
    row, inner = own.row, own.shape.inner
    for load in own.stage.loads:
        places = [single_index(position) for position in load.at]
        if load.buffer not in kernel.inputs or own.along in places or row is None:
            continue
        if inner in places and copyable_indices(load) is not None:
            apart = (
                row in places and places[-1] == inner and _is_only_reading(kernel, own.stage, load)
            )
            found[load.buffer.name] = (
                _row_panel_layout(kernel, own, load, machine) if apart else None
            )
    return found


def _row_panel_layout(
    kernel: TileKernel, own: IndexRoles, load: BufferLoad, machine: CpuMachine
) -> PackedLayout:
    """A vector's width of rows; in pairs, where any stage takes them so."""
    row = next(axis for axis, one in enumerate(load.at) if single_index(one) == own.row)
    pairs = machine.bf16_dot and any(
        is_bf16_product(one) and load in one.loads for one in kernel.stages
    )
    return PackedLayout(len(load.at) - 1, row, machine.width // 4, pairs)


def _is_only_reading(kernel: TileKernel, stage: KernelStage, load: BufferLoad) -> bool:
    """Whether all that would be read of a copy is read as this stage does it."""
    others = {
        each
        for one in kernel.stages
        for each in one.loads
        if each.buffer == load.buffer and is_shared(one, each)
    }
    return is_shared(stage, load) and others == {load}
