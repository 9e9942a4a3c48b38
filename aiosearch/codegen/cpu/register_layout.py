"""How a stage is laid into registers: vectorised index, rows, vectors, unroll factor."""

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

_GATHER_CYCLES = 12.0
"""What an element costs that is not beside its neighbour."""
ACCUMULATORS_TO_HIDE_LATENCY = 4
"""So many sums at once, of which each waits for itself alone, keep a processor busy."""


@dataclass(frozen=True)
class RegisterShape:
    """Of the innermost loops of a stage."""

    along: LoopIndex | None
    """What lanes lie along."""
    row: LoopIndex | None = None
    """What else is computed at once, so that what the lanes read serves several times."""
    rows: int = 1
    column: LoopIndex | None = None
    """Where lanes lie along a folded index: what makes up for that."""
    vectors: int = 1
    """Along `along`, or of `column`."""
    inner: LoopIndex | None = None
    """The folded index that runs innermost."""
    unroll: int = 1
    """Steps along it a turn; where lanes lie along it, chains of each sum."""
    ahead: int = 0
    """How many pairs of rows ahead of their use vectors are fetched; 0 for not at all."""
    nearest: bool = False
    """Whether they come into the first cache; the second one has room for more on its way."""
    across: bool = False
    """Whether they are of the same rows, so many blocks of registers further along the lanes."""


@dataclass(frozen=True)
class RegisterRequest:
    """What a schedule says of the stages that are worth it."""

    rows: int = 0
    """0 for what registers hold."""
    vectors: int = 0
    unroll: int = 2
    ahead: int = 0
    matrix: bool = False
    """Whether products that a matrix unit can take are its own; the others get what is usual."""
    nearest: bool = False
    across: bool = False
    lanes: tuple[int, int] | None = None
    """Rows and columns of sums where lanes lie along what is folded; nothing for what is usual."""
    chains: int = 0
    """Of each of these sums, side by side; 0 for what keeps a processor busy."""


def choose_register_shape(
    stage: KernelStage,
    ranges: Mapping[LoopIndex, TileRange],
    storages: Mapping[Buffer, Storage | PackedBuffer],
    lanes: int,
    registers: int,
    wishes: RegisterRequest,
) -> RegisterShape:
    """By what neighbours in memory are, and by what can be used again."""
    along = _best_lane_index(stage, ranges, storages, lanes)
    if stage.fold is ReductionKind.NONE:
        return RegisterShape(along)
    row, column = _reused(stage, ranges, along)
    if along in stage.folded:
        most, side = wishes.lanes or (
            wishes.rows or ACCUMULATORS_TO_HIDE_LATENCY,
            ACCUMULATORS_TO_HIDE_LATENCY,
        )
        rows = min(most, ranges[row].largest) if row else 1
        columns = min(side, ranges[column].largest) if column else 1
        chains = wishes.chains or default_chains(rows * columns)
        return RegisterShape(along, row, rows, column, columns, along, chains)
    vectors = wishes.vectors or _vectors(ranges, row, registers)
    most = -(-ranges[along].largest // lanes) if along else 1
    fitting = max(1, min(vectors, most))
    rows = wishes.rows or (registers - 2) // fitting - 1
    rows = max(1, min(rows, ranges[row].largest)) if row else 1
    if not (wishes.vectors and _in_panels(stage, along, storages)):
        vectors = fitting
    inner = _inner(stage, ranges, along)
    unroll, ahead, nearest = wishes.unroll, wishes.ahead, wishes.nearest
    across = wishes.across
    return RegisterShape(along, row, rows, None, vectors, inner, unroll, ahead, nearest, across)


def default_chains(sums: int) -> int:
    """Of each sum, where lanes lie along what is folded."""
    return 1 if sums >= ACCUMULATORS_TO_HIDE_LATENCY else ACCUMULATORS_TO_HIDE_LATENCY


def _vectors(ranges: Mapping[LoopIndex, TileRange], row: LoopIndex | None, registers: int) -> int:
    """As many as leave room for the sums of several rows."""
    rows = ranges[row].largest if row else 1
    return max(1, min(4, (registers - 4) // (min(rows, 8) + 1)))


def _in_panels(
    stage: KernelStage, along: LoopIndex | None, storages: Mapping[Buffer, Storage | PackedBuffer]
) -> bool:
    """Whether the lanes read a packed buffer, which is there to the end of its panels."""
    moving = next(
        (load.buffer for load in stage.loads if _reads_by_lane(load, along)), stage.target
    )
    return isinstance(storages.get(moving), PackedBuffer)


def _reads_by_lane(load: BufferLoad, index: LoopIndex | None) -> bool:
    return index is not None and index in used_indices(load)


def _best_lane_index(
    stage: KernelStage,
    ranges: Mapping[LoopIndex, TileRange],
    storages: Mapping[Buffer, Storage | PackedBuffer],
    lanes: int,
) -> LoopIndex | None:
    """The index along which most is beside its neighbour."""

    def costs(index: LoopIndex) -> float:
        cost = sum(_load_cost(load, index, storages) for load in stage.loads)
        if index in stage.folded:
            cost += 1.5
        elif _stride(stage.target, stage.at, index, storages) != 1:
            cost += _GATHER_CYCLES
        extent = ranges[index].largest
        return (cost + 2) * (-(-extent // lanes) * lanes / max(extent, 1))

    wanted = [
        one
        for one in stage.indices
        if ranges[one].largest > 1
        and not any(_scattered(load, one, storages) for load in stage.loads)
    ]
    return min(wanted, key=costs, default=None)


def _scattered(
    load: BufferLoad, index: LoopIndex, storages: Mapping[Buffer, Storage | PackedBuffer]
) -> bool:
    """Whether the elements along an index lie anywhere in a packed buffer."""
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
    storage = storages[load.buffer]
    if isinstance(storage, PackedBuffer):
        return 1.0 if _reads_by_lane(load, index) else 0.5
    stride = _stride(load.buffer, load.at, index, storages)
    return {0: 0.5, 1: 1.0}.get(-1 if stride is None else stride, _GATHER_CYCLES)


def _stride(
    buffer: Buffer,
    at: tuple[Position, ...],
    index: LoopIndex,
    storages: Mapping[Buffer, Storage | PackedBuffer],
) -> int | None:
    storage = storages[buffer]
    assert isinstance(storage, Storage)
    found = 0
    for position, stride in zip(at, storage.strides, strict=True):
        if index in set(indices(position)):
            if not isinstance(position, Affine):
                return None
            found += dict(position.terms)[index] * stride
    return found


def _inner(
    stage: KernelStage, ranges: Mapping[LoopIndex, TileRange], along: LoopIndex | None
) -> LoopIndex | None:
    """The longest of what is folded, where lanes lie elsewhere."""
    folded = [one for one in stage.folded if one is not along]
    return max(folded, key=lambda one: ranges[one].largest, default=None)


def _reused(
    stage: KernelStage, ranges: Mapping[LoopIndex, TileRange], along: LoopIndex | None
) -> tuple[LoopIndex | None, LoopIndex | None]:
    """Free indices that some of what moves along the lanes does not depend on, longest first."""
    moving = [load for load in stage.loads if _reads_by_lane(load, along)]
    found = [
        one
        for one in stage.free
        if one is not along
        and ranges[one].largest > 1
        and any(not _reads_by_lane(load, one) for load in moving)
    ]
    found.sort(key=lambda one: -ranges[one].largest)
    return (found[0] if found else None), (found[1] if len(found) > 1 else None)
