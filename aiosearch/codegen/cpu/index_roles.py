"""Roles of a kernel's indices: vectorised, row, parallel, serial; and which inputs can be packed.

All roles are read off the stage that does most of the work, as if nothing were cut. Packing changes
them: `a @ b.T` reads both operands along the reduced index and would be vectorised over it; if b
can be packed, its columns are vectorised instead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from ...tensor.types import DType
from ..ir import (
    Buffer,
    BufferLoad,
    KernelStage,
    LoopIndex,
    ReductionKind,
    TileKernel,
    indices,
    single_index,
)
from ..llvm.builder import LlvmValue
from ..llvm.memory import Storage, bytes_of
from ..native.machine import CpuMachine
from .emit.addressing import whole_axis_range
from .emit.storage import packed_storage, row_major_storage
from .packing import PackedBuffer, PackedLayout
from .prepare.precision import is_float_product
from .register_layout import RegisterRequest, RegisterShape, choose_register_shape
from .schedule import blocked, serial

_LEAST_ROWS_TO_PACK = 16
"""Rows from which on it pays that each block packs an operand: all of them read the packed tile.
Fitted to the attention rows of `benchmarks/kernels.py`."""


@dataclass(frozen=True)
class IndexRoles:
    """Roles in the stage that does most of the work."""

    stage: KernelStage
    """The stage that does most of the work."""
    shapes: Mapping[KernelStage, RegisterShape]
    """The register layout of each stage if nothing were cut; of the main stage as if inputs were
    packed, where it would be vectorised over the reduced index otherwise."""
    blocked: tuple[LoopIndex, ...]
    """The parallel indices, as `schedule.blocked` gives them."""
    serial: tuple[LoopIndex, ...]
    """The possible serial indices, as `schedule.serial` gives them."""
    work: int
    """Elements or products that the main stage goes through."""

    @cached_property
    def shape(self) -> RegisterShape:
        """The register layout of the main stage; cached, as hashing a stage takes long and every
        schedule asks."""
        return self.shapes[self.stage]

    @property
    def along(self) -> LoopIndex | None:
        """The vectorised index of the main stage."""
        return self.shape.along

    @property
    def row(self) -> LoopIndex | None:
        """The row index of the main stage."""
        return self.shape.row


def index_roles(
    kernel: TileKernel,
    machine: CpuMachine,
    layouts: Mapping[str, PackedLayout] = MappingProxyType({}),
) -> IndexRoles:
    """The roles in a kernel on a machine, where inputs may be packed by these `layouts`."""
    main = max(kernel.stages, key=work)
    shapes = {stage: unblocked_shape(kernel, stage, machine) for stage in kernel.stages}
    if shapes[main].along in main.folded:
        shapes[main] = _packed_shape(kernel, main, machine, layouts) or shapes[main]
    return IndexRoles(main, shapes, blocked(kernel), serial(kernel), work(main))


def _packed_shape(
    kernel: TileKernel, main: KernelStage, machine: CpuMachine, layouts: Mapping[str, PackedLayout]
) -> RegisterShape | None:
    """The register layout of the main stage if inputs were packed, beforehand or by each block;
    `None` if the vectorised index stays."""
    beforehand = unblocked_shape(kernel, main, machine, layouts)
    if beforehand.along not in main.folded:
        return beforehand
    # No input can be packed beforehand so that it helps; each block may pack any of them.
    names = [buffer.name for buffer in kernel.inputs]
    shape = unblocked_shape(
        kernel, main, machine, packable_inputs(kernel, names, machine, again=True)
    )
    served = (
        shape.row is not None
        and shape.row.size >= _LEAST_ROWS_TO_PACK
        and shape.along not in main.folded
    )
    return shape if served else None


def unblocked_shape(
    kernel: TileKernel,
    stage: KernelStage,
    machine: CpuMachine,
    layouts: Mapping[str, PackedLayout] = MappingProxyType({}),
) -> RegisterShape:
    """The register layout of a `stage` if nothing were cut and these inputs were packed."""
    buffers = (*kernel.inputs, *(stage.target for stage in kernel.stages))
    # No pointer is needed, as only strides and layouts decide.
    null = LlvmValue("null", "ptr")
    storages: dict[Buffer, Storage | PackedBuffer] = {
        buffer: row_major_storage(null, buffer) for buffer in buffers
    }
    if stage.folded:
        for buffer in kernel.inputs:
            if buffer.name in layouts:
                storages[buffer] = packed_storage(
                    null, buffer, replace(layouts[buffer.name], coded=False)
                )
    ranges = {index: whole_axis_range(index.size) for index in kernel.indices}
    return choose_register_shape(stage, ranges, storages, machine.width // 4, 32, RegisterRequest())


def work(stage: KernelStage) -> int:
    """Elements or products that a `stage` goes through."""
    return math.prod(index.size for index in (*stage.free, *stage.folded))


def inputs_exceeding_l2(
    stage: KernelStage, shape: RegisterShape, inputs: Iterable[Buffer], l2: int
) -> frozenset[str]:
    """Inputs that a reduction reads row by row and whose matrix is larger than L2."""
    along, inner, input_set = shape.along, shape.inner, {*inputs}
    if along is None or inner is None or along == inner:
        return frozenset()
    return frozenset(
        load.buffer.name
        for load in stage.loads
        if load.buffer in input_set
        and load.at
        and single_index(load.at[-1]) == along
        and any(inner in set(indices(position)) for position in load.at)
        and bytes_of(load.buffer.dtype, (along.size, inner.size)) > l2
    )


def interleavable_inputs(stage: KernelStage, shape: RegisterShape) -> set[str]:
    """Inputs whose rows AMX could take if a block interleaves them in pairs: contiguous along the
    vectorised index."""
    return {
        load.buffer.name
        for load in stage.loads
        if load.at and single_index(load.at[-1]) == shape.along
    }


def packable_inputs(
    kernel: TileKernel, constant: Iterable[str], machine: CpuMachine, *, again: bool = False
) -> dict[str, PackedLayout]:
    """Packed layouts, one vector wide, of the `constant` inputs that a single product reads.

    Of a product, at most one operand is packed. With `again`, these are the inputs that each block
    may pack: they have to be reused by several rows, and may be read more than once at the same
    positions.
    """
    names = set(constant)
    loads = [load for stage in kernel.stages for load in stage.loads]
    # A packed input exists only in its packed layout, so a second reader at other positions could
    # not find its elements.
    readers = Counter(load.buffer.name for load in (dict.fromkeys(loads) if again else loads))
    layouts: dict[str, PackedLayout] = {}
    for stage in kernel.stages:
        if stage.reduction is not ReductionKind.SUM or len(stage.folded) != 1:
            continue
        if again and len(set(stage.loads)) == 1:
            continue
        candidates = [load for load in stage.loads if load.buffer.name in names]
        if again:
            candidates = [load for load in candidates if _is_reused(stage, load)]
        if not again:
            candidates = [load for load in candidates if _is_whole(load)]
        columns = {
            load: _column(stage, load) for load in candidates if readers[load.buffer.name] == 1
        }
        wide = [
            (load, column)
            for load, column in columns.items()
            if column and column.size >= machine.width // 4
        ]
        if wide:
            load, column = max(wide, key=_preferred(stage, unblocked_shape(kernel, stage, machine)))
            layouts[load.buffer.name] = _layout(stage, load, column, machine)
    return layouts


def codable_inputs(
    kernel: TileKernel, layouts: Mapping[str, PackedLayout], machine: CpuMachine
) -> dict[str, LoopIndex]:
    """Column index of each input that is packed beforehand and may be coded.

    Coded panels are read by products of pairs that are vectorised over the columns, on machines
    with 64-byte vectors. Tiles have to be whole panels.
    """
    columns: dict[str, LoopIndex] = {}
    for stage in kernel.stages:
        shape = unblocked_shape(kernel, stage, machine)
        for load in stage.loads:
            layout = layouts.get(load.buffer.name)
            if layout is None or not layout.pairs or machine.width != 64 or shape.along is None:
                continue
            along = single_index(load.at[layout.column]) == shape.along
            if (
                along
                and shape.inner is not None
                and is_contiguous_along(stage, shape.inner, {load.buffer.name})
            ):
                columns[load.buffer.name] = shape.along
    return columns


def _preferred(
    stage: KernelStage, shape: RegisterShape
) -> Callable[[tuple[BufferLoad, LoopIndex]], tuple[bool, bool, int]]:
    """A key that prefers operands that vary along the vectorised index, then those contiguous in
    the output, then the longest."""
    beside = single_index(stage.at[-1])
    return lambda pair: (pair[1] == shape.along, pair[1] == beside, pair[1].size)


def _column(stage: KernelStage, load: BufferLoad) -> LoopIndex | None:
    """The longest free index that only this operand depends on; `None` if its positions are not
    single, distinct indices."""
    places = [single_index(load.at[axis]) for axis in load.moving]
    if None in places or stage.folded[0] not in places or len(set(places)) < len(places):
        return None
    columns = [index for index in stage.free if index in places and not _shared(stage, load, index)]
    return max(columns, key=lambda index: index.size, default=None)


def _is_whole(load: BufferLoad) -> bool:
    """Whether a `load` reads every axis of its buffer, rather than a fixed position of some."""
    return all(size == 1 or axis in load.moving for axis, size in enumerate(load.buffer.shape))


def _layout(
    stage: KernelStage, load: BufferLoad, column: LoopIndex, machine: CpuMachine
) -> PackedLayout:
    """The packed layout of an operand, one vector wide."""
    places = [single_index(position) for position in load.at]
    row, wide = places.index(stage.folded[0]), machine.width // 4
    # Two rows at a time are read faster: by one instruction, or widened by one each.
    pairs = load.buffer.dtype is DType.BF16 and is_float_product(stage)
    return PackedLayout(row, places.index(column), wide, pairs)


def _shared(stage: KernelStage, load: BufferLoad, index: LoopIndex) -> bool:
    """Whether another operand of the `stage` depends on the index, too."""
    return any(
        index in {index for position in factor.at for index in indices(position)}
        for factor in stage.loads
        if factor != load
    )


def _is_reused(stage: KernelStage, load: BufferLoad) -> bool:
    """Whether several rows of the output read the same elements."""
    read = {index for position in load.at for index in indices(position)}
    return any(index.size > 1 for index in stage.free if index not in read)


def is_contiguous_along(
    stage: KernelStage, inner: LoopIndex | None, apart_from: Set[str] = frozenset()
) -> bool:
    """Whether some operand, other than those of `apart_from`, is contiguous along an index."""
    loads = [load for load in stage.loads if load.buffer.name not in apart_from]
    return any(
        load.at and inner is not None and single_index(load.at[-1]) == inner for load in loads
    )
