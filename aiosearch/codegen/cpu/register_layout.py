"""How a stage is laid into registers: vectorised index, rows, vectors, unroll factor.

A reduction holds a register tile of accumulators: rows along one free index times vectors along the
vectorised one, so that each load of the vectorised operand serves all rows and each broadcast all
vectors. Where every free index would need gathers, the reduced index is vectorised instead, and
accumulators are lane sums that are added up at the end.

Example: `out[i, j] = sum over k of X[i, k] * W[k, j]` with sizes 8, 4096, 4096 and 32 registers of
16 lanes: j is vectorised, as W and out are contiguous along it; i is the row; 8 rows by 3 vectors
are the default, 24 accumulators, 3 vectors of W and a broadcast, within 32 registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir import (
    Affine,
    Buffer,
    BufferLoad,
    KernelStage,
    LoopIndex,
    Position,
    ReductionKind,
    indices,
    used_indices,
)
from ..llvm.memory import Storage
from .emit.addressing import TileRange
from .packing import PackedBuffer

_VECTOR_COST, _BROADCAST_COST, _GATHER_COST = 1.0, 0.5, 12.0
"""Costs of a load, in units of a contiguous vector; the lanes of a gather are loads of their own.

These and the two below were fitted to `benchmarks/kernels.py`: only which index costs least
matters, so anything between a few cheap loads and a gather per lane would do.
"""
_LANE_SUM_COST, _STEP_COST = 1.5, 2.0
"""Costs of adding up lanes at the end, and of a step whatever it loads."""
ACCUMULATORS_TO_HIDE_LATENCY = 4
"""Independent accumulators needed to hide FMA latency: 4 cycles on Zen 4 and on Intel since
Skylake. With two multiply-adds per cycle eight would be needed for full throughput, but such
reductions wait for loads.
"""


@dataclass(frozen=True)
class RegisterShape:
    """The innermost loops of a stage."""

    along: LoopIndex | None
    """The vectorised index."""
    row: LoopIndex | None = None
    """The index of rows that are computed at once and share the vectorised operand."""
    rows: int = 1
    """Rows of the register tile."""
    column: LoopIndex | None = None
    """The second free index of the register tile, where the reduced index is vectorised."""
    vectors: int = 1
    """Vectors of the register tile along `along`, or elements along `column`."""
    inner: LoopIndex | None = None
    """The reduced index of the innermost loop."""
    unroll: int = 1
    """Steps along `inner` per iteration; chains of each sum where the reduced index is
    vectorised."""
    prefetch_distance: int = 0
    """Pairs of rows, or register tiles if `prefetch_along_lanes`, by which loads are prefetched; 0
    for no prefetch."""
    prefetch_to_l1: bool = False
    """Whether prefetches go to L1 rather than L2, which has room for more lines in flight."""
    prefetch_along_lanes: bool = False
    """Whether prefetches go further along the same rows rather than to later rows."""


@dataclass(frozen=True)
class RegisterRequest:
    """What a schedule asks of the register layout of stages that reduce."""

    rows: int = 0
    """Rows of accumulators; 0 for as many as the registers hold."""
    vectors: int = 0
    """Vectors of accumulators; 0 for the default."""
    unroll: int = 2
    prefetch_distance: int = 0
    matrix: bool = False
    """Whether products that AMX can take go there; other stages get the default tile."""
    prefetch_to_l1: bool = False
    prefetch_along_lanes: bool = False
    lanes: tuple[int, int] | None = None
    """Rows and columns of accumulators where the reduced index is vectorised; `None` for the
    default."""
    chains: int = 0
    """Independent accumulators per sum where the reduced index is vectorised; 0 for the default."""


def choose_register_shape(
    stage: KernelStage,
    ranges: Mapping[LoopIndex, TileRange],
    storages: Mapping[Buffer, Storage | PackedBuffer],
    lanes: int,
    registers: int,
    request: RegisterRequest,
) -> RegisterShape:
    """The register layout of a stage over tiles of these `ranges`, with buffers in these
    `storages`.

    The vectorised index is the one with the most contiguous loads, the row the longest free index
    along which the vectorised operand is reused.
    """
    along = _best_lane_index(stage, ranges, storages, lanes)
    if stage.reduction is ReductionKind.NONE:
        return RegisterShape(along)
    row, column = _reused(stage, ranges, along)
    if along in stage.folded:
        most, side = request.lanes or (
            request.rows or ACCUMULATORS_TO_HIDE_LATENCY,
            ACCUMULATORS_TO_HIDE_LATENCY,
        )
        rows = min(most, ranges[row].largest) if row else 1
        columns = min(side, ranges[column].largest) if column else 1
        chains = request.chains or default_chains(rows * columns)
        return RegisterShape(along, row, rows, column, columns, along, chains)
    vectors = request.vectors or _vectors(ranges, row, registers)
    most = -(-ranges[along].largest // lanes) if along else 1
    fitting = max(1, min(vectors, most))
    # Accumulators and one vector of the other operand per column of vectors, with two registers
    # left for broadcasts.
    rows = request.rows or (registers - 2) // fitting - 1
    rows = max(1, min(rows, ranges[row].largest)) if row else 1
    # Beyond the last column a panel is padded with zeros: computing them takes no longer than a
    # narrower tile, and saves a loop for the remainder.
    if not (request.vectors and _in_panels(stage, along, storages)):
        vectors = fitting
    inner = _inner(stage, ranges, along)
    return RegisterShape(
        along,
        row,
        rows,
        None,
        vectors,
        inner,
        request.unroll,
        request.prefetch_distance,
        request.prefetch_to_l1,
        request.prefetch_along_lanes,
    )


def default_chains(sums: int) -> int:
    """Independent accumulators per sum, given how many sums there are: one if they hide FMA latency
    together."""
    # Several sums of one register tile are independent of each other already.
    return 1 if sums >= ACCUMULATORS_TO_HIDE_LATENCY else ACCUMULATORS_TO_HIDE_LATENCY


def _vectors(ranges: Mapping[LoopIndex, TileRange], row: LoopIndex | None, registers: int) -> int:
    """Vectors of accumulators by default, leaving registers for several rows."""
    rows = ranges[row].largest if row else 1
    return max(1, min(4, (registers - 4) // (min(rows, 8) + 1)))


def _in_panels(
    stage: KernelStage, along: LoopIndex | None, storages: Mapping[Buffer, Storage | PackedBuffer]
) -> bool:
    """Whether the vectorised operand is packed: a panel is padded to its full width, so vectors
    beyond the last column may be loaded."""
    # Without a load that varies along the lanes, the target decides, which is packed in copies.
    moving = next(
        (load.buffer for load in stage.loads if _reads_by_lane(load, along)), stage.target
    )
    return isinstance(storages.get(moving), PackedBuffer)


def _reads_by_lane(load: BufferLoad, index: LoopIndex | None) -> bool:
    """Whether a `load` depends on the index."""
    return index is not None and index in used_indices(load)


def _best_lane_index(
    stage: KernelStage,
    ranges: Mapping[LoopIndex, TileRange],
    storages: Mapping[Buffer, Storage | PackedBuffer],
    lanes: int,
) -> LoopIndex | None:
    """The index over which vectorising costs least: the number of loads weighted by their cost, and
    the fraction of lanes in use."""

    def costs(index: LoopIndex) -> float:
        cost = sum(_load_cost(load, index, storages) for load in stage.loads)
        # Lane sums have to be added up in the end: a little more than a contiguous store, far less
        # than a scatter.
        if index in stage.folded:
            cost += _LANE_SUM_COST
        elif _stride(stage.target, stage.at, index, storages) != 1:
            cost += _GATHER_COST
        extent = ranges[index].largest
        # Waste in a last, partly filled vector counts: 17 elements take as long as 32.
        return (cost + _STEP_COST) * (-(-extent // lanes) * lanes / max(extent, 1))

    eligible = [
        index
        for index in stage.indices
        if ranges[index].largest > 1
        and not any(_scattered(load, index, storages) for load in stage.loads)
    ]
    return min(eligible, key=costs, default=None)


def _scattered(
    load: BufferLoad, index: LoopIndex, storages: Mapping[Buffer, Storage | PackedBuffer]
) -> bool:
    """Whether a packed buffer would have to be gathered along an `index`."""
    storage = storages[load.buffer]
    if not isinstance(storage, PackedBuffer):
        return False
    along = index in set(indices(load.at[storage.column]))
    if storage.layout.coded:
        return not along  # no other lanes can read it
    return _reads_by_lane(load, index) and (storage.layout.shared or not along)


def _load_cost(
    load: BufferLoad, index: LoopIndex, storages: Mapping[Buffer, Storage | PackedBuffer]
) -> float:
    """Cost of loading a vector along an index: 0.5 for a broadcast, 1 for a contiguous vector,
    `_GATHER_COST` for a gather."""
    storage = storages[load.buffer]
    if isinstance(storage, PackedBuffer):
        return _VECTOR_COST if _reads_by_lane(load, index) else _BROADCAST_COST
    stride = _stride(load.buffer, load.at, index, storages)
    costs = {0: _BROADCAST_COST, 1: _VECTOR_COST}
    return costs.get(-1 if stride is None else stride, _GATHER_COST)


def _stride(
    buffer: Buffer,
    at: tuple[Position, ...],
    index: LoopIndex,
    storages: Mapping[Buffer, Storage | PackedBuffer],
) -> int | None:
    """Elements between neighbours of a buffer along an index; `None` if it is not constant."""
    storage = storages[buffer]
    assert isinstance(storage, Storage)
    elements = 0
    for position, stride in zip(at, storage.strides, strict=True):
        if index in set(indices(position)):
            if not isinstance(position, Affine):
                return None
            elements += dict(position.terms)[index] * stride
    return elements


def _inner(
    stage: KernelStage, ranges: Mapping[LoopIndex, TileRange], along: LoopIndex | None
) -> LoopIndex | None:
    """The longest reduced index that is not vectorised."""
    folded = [index for index in stage.folded if index is not along]
    return max(folded, key=lambda index: ranges[index].largest, default=None)


def _reused(
    stage: KernelStage, ranges: Mapping[LoopIndex, TileRange], along: LoopIndex | None
) -> tuple[LoopIndex | None, LoopIndex | None]:
    """The two longest free indices along which some vectorised operand is reused: row and
    column."""
    moving = [load for load in stage.loads if _reads_by_lane(load, along)]
    reusable = [
        index
        for index in stage.free
        if index is not along
        and ranges[index].largest > 1
        and any(not _reads_by_lane(load, index) for load in moving)
    ]
    reusable.sort(key=lambda index: -ranges[index].largest)
    return (reusable[0] if reusable else None), (reusable[1] if len(reusable) > 1 else None)
