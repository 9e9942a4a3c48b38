"""Epilogue fusion: elementwise stages applied to a reduction's results while they are in registers.

Example: `t0[i, j] = sum over k of Q[i, k] * K[k, j]`, `t1[i, j] = exp(t0[i, j])`. If t1 alone reads
t0, the reduction stores `exp` of each result into t1, and t0 never exists.

It is legal if the reader is the only one, runs once per result at the same indices, computes in the
same type, and can run at the same time: it must not wait for other stages of the kernel, and lanes
of a result have to be lanes of the reader.
"""

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
    """The elementwise function of a reduction's result."""

    reduction: BufferLoad
    """The load, within `value`, that stands for the result."""
    value: Expression
    """The expression that is stored."""


def with_epilogues(
    kernel: TileKernel, serial: LoopIndex | None, panels: Mapping[Buffer, PackedLayout]
) -> tuple[TileKernel, dict[Buffer, Epilogue]]:
    """The `kernel` with reductions that store their reader's value, and the epilogue of each by the
    buffer it stores.

    The loads of such a stage are those of its reduction only; what the epilogue loads is not among
    them.
    """
    endings: dict[Buffer, Epilogue] = {}
    stages = list(kernel.stages)
    for reduction in kernel.stages:
        # A reader is the ending of one reduction at most; its other operands stay stages.
        reader = _epilogue_of(reduction, kernel, serial)
        if reader is not None and reader in stages and _keeps_lanes(reduction, panels):
            endings[reader.target] = Epilogue(
                BufferLoad(reduction.target, reduction.at), reader.value
            )
            whole = replace(reduction, target=reader.target, at=reader.at)
            stages = [whole if stage == reader else stage for stage in stages if stage != reduction]
    return replace(kernel, stages=tuple(stages)), endings


def fused_epilogues(kernel: TileKernel) -> set[Buffer]:
    """Buffers that do not exist if every reduction with a possible epilogue gets it, one for each
    reader."""
    fused: dict[KernelStage, Buffer] = {}
    for reduction in kernel.stages:
        reader = _epilogue_of(reduction, kernel, None)
        if reader is not None:
            fused.setdefault(reader, reduction.target)
    return {*fused.values()}


def _epilogue_of(
    reduction: KernelStage, kernel: TileKernel, serial: LoopIndex | None
) -> KernelStage | None:
    """The stage that alone reads a reduction and can be its epilogue; `None` if there is none."""
    readers = [stage for stage in kernel.stages if _reads(stage, reduction)]
    if len(readers) != 1 or not _is_epilogue(readers[0], reduction, kernel, serial):
        return None
    return readers[0]


def _reads(stage: KernelStage, source: KernelStage) -> bool:
    """Whether a `stage` loads the target of another."""
    return any(load.buffer == source.target for load in stage.loads)


def _is_epilogue(
    reader: KernelStage, reduction: KernelStage, kernel: TileKernel, serial: LoopIndex | None
) -> bool:
    """Whether a stage is a legal epilogue of a reduction.

    A result is in a register in its working type, so both stages need the same. The pass in which a
    stage runs follows from its loads, so along a `serial` index an epilogue may load inputs only.
    """
    if (
        reduction.reduction is ReductionKind.NONE
        or reader.reduction is not ReductionKind.NONE
        or reduction.target in kernel.outputs
    ):
        return False
    operands = [load for load in reader.loads if load.buffer != reduction.target]
    # The value of a reduction over the serial index is complete only after the loop.
    if serial is not None and (serial in reduction.folded or not _are_inputs(operands, kernel)):
        return False
    # A reader of `t0[i - 1]` needs the result of another register tile.
    elsewhere = any(
        load.at != reduction.at for load in reader.loads if load.buffer == reduction.target
    )
    same = set(reader.free) == set(reduction.free) and working_type(reader) == working_type(
        reduction
    )
    # Both stages have to hold values in the same accumulating type, or the fused store would round
    # differently.
    alike = reader.accumulated == reduction.accumulated
    return same and alike and not elsewhere


def _keeps_lanes(reduction: KernelStage, panels: Mapping[Buffer, PackedLayout]) -> bool:
    """Whether some operand is contiguous along a free index, so that the reduction vectorises that
    one.

    A reduction vectorised over its reduced index has scalar results, and an epilogue on scalars
    would be slower than a stage of its own.
    """
    # Only the position along the contiguous axis decides which index is vectorised.
    free = set(reduction.free)
    rows = [load.at[_lanes(panels.get(load.buffer))] for load in reduction.loads if load.at]
    return any(free & set(indices(position)) for position in rows)


def _lanes(layout: PackedLayout | None) -> int:
    """The axis along which a buffer is contiguous."""
    return -1 if layout is None else layout.column


def _are_inputs(loads: Iterable[BufferLoad], kernel: TileKernel) -> bool:
    """Whether all loads are of the `kernel`'s inputs."""
    return all(load.buffer in kernel.inputs for load in loads)
