"""Consumer fusion: elementwise stages applied to a reduction's results while they are in
registers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...ir import (
    Buffer,
    BufferLoad,
    Expression,
    KernelStage,
    LoopIndex,
    ReductionKind,
    TileKernel,
    indices,
)
from ...llvm.arithmetic import working_type
from ..packing import PackedLayout


@dataclass(frozen=True)
class Epilogue:
    """Of one fold; what it is stored as is this value."""

    fold: BufferLoad
    """The element, in the value."""
    value: Expression


def with_epilogues(
    kernel: TileKernel, serial: LoopIndex | None, panels: Mapping[Buffer, PackedLayout]
) -> tuple[TileKernel, dict[Buffer, Epilogue]]:
    """The kernel with folds that are stored where their one reader goes, as that makes them.

    From then on a stage's loads are only those of its fold: what else the ending loads is not
    among them.
    """
    endings: dict[Buffer, Epilogue] = {}
    stages = list(kernel.stages)
    for fold in kernel.stages:
        # A reader is the ending of one fold at most; its other operands stay stages.
        reader = _epilogue_of(fold, kernel, serial)
        if reader is not None and reader in stages and _keeps_lanes(fold, panels):
            endings[reader.target] = Epilogue(BufferLoad(fold.target, fold.at), reader.value)
            whole = replace(fold, target=reader.target, at=reader.at)
            stages = [whole if one == reader else one for one in stages if one != fold]
    return replace(kernel, stages=tuple(stages)), endings


def fused_epilogues(kernel: TileKernel) -> set[Buffer]:
    """Folds that are stored as their one reader makes them, if lanes lie so: one of each reader."""
    found: dict[KernelStage, Buffer] = {}
    for fold in kernel.stages:
        reader = _epilogue_of(fold, kernel, None)
        if reader is not None:
            found.setdefault(reader, fold.target)
    return {*found.values()}


def _epilogue_of(
    fold: KernelStage, kernel: TileKernel, serial: LoopIndex | None
) -> KernelStage | None:
    """What alone reads a fold, and may be done at once."""
    readers = [one for one in kernel.stages if _reads(one, fold)]
    if len(readers) != 1 or not _is_epilogue(readers[0], fold, kernel, serial):
        return None
    return readers[0]


def _reads(stage: KernelStage, other: KernelStage) -> bool:
    return any(load.buffer == other.target for load in stage.loads)


def _is_epilogue(
    reader: KernelStage, fold: KernelStage, kernel: TileKernel, serial: LoopIndex | None
) -> bool:
    """Whether a stage only changes the elements of a fold, each by itself, and may do so at once.

    It is in a register as its working type, so both have to work in the same. In which pass along
    the serial index a stage runs is seen from its loads, so there an ending may read nothing that
    the kernel makes.
    """
    if (
        fold.fold is ReductionKind.NONE
        or reader.fold is not ReductionKind.NONE
        or fold.target in kernel.outputs
    ):
        return False
    others = [one for one in reader.loads if one.buffer != fold.target]
    if serial is not None and (serial in fold.folded or not _are_inputs(others, kernel)):
        return False
    elsewhere = any(one.at != fold.at for one in reader.loads if one.buffer == fold.target)
    same = set(reader.free) == set(fold.free) and working_type(reader) == working_type(fold)
    alike = reader.accumulated == fold.accumulated
    return same and alike and not elsewhere


def _keeps_lanes(fold: KernelStage, panels: Mapping[Buffer, PackedLayout]) -> bool:
    """Whether neighbours of the result are neighbours in a factor, so that lanes lie along them.

    Where lanes lie along what is folded, one element at a time would be changed.
    """
    free = set(fold.free)
    rows = [load.at[_lanes(panels.get(load.buffer))] for load in fold.loads if load.at]
    return any(free & set(indices(position)) for position in rows)


def _lanes(layout: PackedLayout | None) -> int:
    """The axis along which neighbours lie."""
    return -1 if layout is None else layout.column


def _are_inputs(loads: Iterable[BufferLoad], kernel: TileKernel) -> bool:
    """Whether they are there from the beginning, and not made by the kernel."""
    return all(one.buffer in kernel.inputs for one in loads)
