"""Roles of a kernel's indices: vectorised, row, parallel, serial; which inputs can be packed."""

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

_MOST_CODED_ROWS = 16
"""Rows that are worth laying out what they all read."""


@dataclass(frozen=True)
class IndexRoles:
    """Of the stage that does most of the work."""

    stage: KernelStage
    shapes: Mapping[KernelStage, RegisterShape]
    """How each stage would lie in registers if nothing were cut; the main one as if inputs were
    laid out, where lanes lie along what it folds otherwise."""
    blocked: tuple[LoopIndex, ...]
    serial: tuple[LoopIndex, ...]
    work: int
    """Elements that it goes through."""

    @cached_property
    def shape(self) -> RegisterShape:
        """Asked for with every schedule, and a stage is long to look up."""
        return self.shapes[self.stage]

    @property
    def along(self) -> LoopIndex | None:
        return self.shape.along

    @property
    def row(self) -> LoopIndex | None:
        return self.shape.row


def index_roles(
    kernel: TileKernel,
    machine: CpuMachine,
    layouts: Mapping[str, PackedLayout] = MappingProxyType({}),
) -> IndexRoles:
    """Where these inputs may be laid out beforehand."""
    main = max(kernel.stages, key=work)
    shapes = {stage: unblocked_shape(kernel, stage, machine) for stage in kernel.stages}
    if shapes[main].along in main.folded:
        shapes[main] = _packed_shape(kernel, main, machine, layouts) or shapes[main]
    return IndexRoles(main, shapes, blocked(kernel), serial(kernel), work(main))


def _packed_shape(
    kernel: TileKernel, main: KernelStage, machine: CpuMachine, layouts: Mapping[str, PackedLayout]
) -> RegisterShape | None:
    """How it would lie if inputs were laid out: beforehand, or by blocks that serve many rows."""
    beforehand = unblocked_shape(kernel, main, machine, layouts)
    if beforehand.along not in main.folded:
        return beforehand
    names = [one.name for one in kernel.inputs]
    found = unblocked_shape(
        kernel, main, machine, packable_inputs(kernel, names, machine, again=True)
    )
    served = (
        found.row is not None
        and found.row.size >= _MOST_CODED_ROWS
        and found.along not in main.folded
    )
    return found if served else None


def unblocked_shape(
    kernel: TileKernel,
    stage: KernelStage,
    machine: CpuMachine,
    layouts: Mapping[str, PackedLayout] = MappingProxyType({}),
) -> RegisterShape:
    """How a stage would lie in registers if nothing were cut, and of its inputs these packed."""
    buffers = (*kernel.inputs, *(one.target for one in kernel.stages))
    null = LlvmValue("null", "ptr")
    storages: dict[Buffer, Storage | PackedBuffer] = {
        one: row_major_storage(null, one) for one in buffers
    }
    if stage.folded:
        for one in kernel.inputs:
            if one.name in layouts:
                storages[one] = packed_storage(null, one, replace(layouts[one.name], coded=False))
    ranges = {one: whole_axis_range(one.size) for one in kernel.indices}
    return choose_register_shape(stage, ranges, storages, machine.width // 4, 32, RegisterRequest())


def work(stage: KernelStage) -> int:
    return math.prod(one.size for one in (*stage.free, *stage.folded))


def inputs_exceeding_l2(
    stage: KernelStage, own: RegisterShape, inputs: Iterable[Buffer], l2: int
) -> frozenset[str]:
    """The inputs down whose rows a fold goes, and whose matrix is larger than the second cache."""
    along, inner, given = own.along, own.inner, {*inputs}
    if along is None or inner is None or along == inner:
        return frozenset()
    return frozenset(
        load.buffer.name
        for load in stage.loads
        if load.buffer in given
        and load.at
        and single_index(load.at[-1]) == along
        and any(inner in set(indices(position)) for position in load.at)
        and bytes_of(load.buffer.dtype, (along.size, inner.size)) > l2
    )


def interleavable_inputs(stage: KernelStage, own: RegisterShape) -> set[str]:
    """What a matrix unit's tiles can be made of as it lies: its lanes lie side by side."""
    return {
        load.buffer.name
        for load in stage.loads
        if load.at and single_index(load.at[-1]) == own.along
    }


def packable_inputs(
    kernel: TileKernel, constant: Iterable[str], machine: CpuMachine, *, again: bool = False
) -> dict[str, PackedLayout]:
    """Of constant inputs that one product reads along its lanes: layouts of one vector's width.

    Of a product, one factor at most. Others may read it again only at the same places, if at all.
    """
    names = set(constant)
    loads = [load for stage in kernel.stages for load in stage.loads]
    readers = Counter(load.buffer.name for load in (dict.fromkeys(loads) if again else loads))
    found: dict[str, PackedLayout] = {}
    for stage in kernel.stages:
        if stage.fold is not ReductionKind.SUM or len(stage.folded) != 1:
            continue
        if again and len(set(stage.loads)) == 1:
            continue
        wanted = [load for load in stage.loads if load.buffer.name in names]
        if again:
            wanted = [load for load in wanted if _is_reused(stage, load)]
        if not again:
            wanted = [load for load in wanted if _is_whole(load)]
        columns = {load: _column(stage, load) for load in wanted if readers[load.buffer.name] == 1}
        wide = [
            (load, one) for load, one in columns.items() if one and one.size >= machine.width // 4
        ]
        if wide:
            load, column = max(wide, key=_preferred(stage, unblocked_shape(kernel, stage, machine)))
            found[load.buffer.name] = _layout(stage, load, column, machine)
    return found


def codable_inputs(
    kernel: TileKernel, layouts: Mapping[str, PackedLayout], machine: CpuMachine
) -> dict[str, LoopIndex]:
    """Of inputs that are laid out beforehand, those whose panels may be coded: their columns.

    What reads them are products of pairs, whose lanes lie along the columns. Tiles of these have to
    be of whole panels.
    """
    found: dict[str, LoopIndex] = {}
    for stage in kernel.stages:
        own = unblocked_shape(kernel, stage, machine)
        for load in stage.loads:
            layout = layouts.get(load.buffer.name)
            if layout is None or not layout.pairs or machine.width != 64 or own.along is None:
                continue
            along = single_index(load.at[layout.column]) == own.along
            if (
                along
                and own.inner is not None
                and is_contiguous_along(stage, own.inner, {load.buffer.name})
            ):
                found[load.buffer.name] = own.along
    return found


def _preferred(
    stage: KernelStage, own: RegisterShape
) -> Callable[[tuple[BufferLoad, LoopIndex]], tuple[bool, bool, int]]:
    """What lies along the lanes anyway, else side by side in what is made, else what is longest."""
    beside = single_index(stage.at[-1])
    return lambda pair: (pair[1] == own.along, pair[1] == beside, pair[1].size)


def _column(stage: KernelStage, load: BufferLoad) -> LoopIndex | None:
    """The longest index of a factor that the others do not have, where its places are indices."""
    places = [single_index(load.at[axis]) for axis in load.moving]
    if None in places or stage.folded[0] not in places or len(set(places)) < len(places):
        return None
    columns = [one for one in stage.free if one in places and not _shared(stage, load, one)]
    return max(columns, key=lambda one: one.size, default=None)


def _is_whole(load: BufferLoad) -> bool:
    """Whether it reads more than one place of each axis that has several."""
    return all(size == 1 or axis in load.moving for axis, size in enumerate(load.buffer.shape))


def _layout(
    stage: KernelStage, load: BufferLoad, column: LoopIndex, machine: CpuMachine
) -> PackedLayout:
    places = [single_index(position) for position in load.at]
    row, wide = places.index(stage.folded[0]), machine.width // 4
    # Two rows at a time are read faster: by one instruction, or widened by one each.
    pairs = load.buffer.dtype is DType.BF16 and is_float_product(stage)
    return PackedLayout(row, places.index(column), wide, pairs)


def _shared(stage: KernelStage, load: BufferLoad, index: LoopIndex) -> bool:
    """Whether the other factors depend on an index, too."""
    return any(
        index in {one for position in other.at for one in indices(position)}
        for other in stage.loads
        if other != load
    )


def _is_reused(stage: KernelStage, load: BufferLoad) -> bool:
    """Whether several rows read the same."""
    own = {one for position in load.at for one in indices(position)}
    return any(one.size > 1 for one in stage.free if one not in own)


def is_contiguous_along(
    stage: KernelStage, inner: LoopIndex | None, apart_from: Set[str] = frozenset()
) -> bool:
    """Whether a factor's neighbours lie along an index, as products of pairs take them."""
    loads = [one for one in stage.loads if one.buffer.name not in apart_from]
    return any(one.at and inner is not None and single_index(one.at[-1]) == inner for one in loads)
