"""Where buffers are: device memory with its packed layouts, and the scratch memory of a block's
tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir import Buffer, KernelStage, LoopIndex, Position, TileKernel, single_index
from ...llvm.builder import FunctionBuilder, LlvmValue
from ...llvm.linear import Linear
from ...llvm.memory import STORED, Storage
from ...native.handler import CACHE_LINE_BYTES, round_up_to_line
from ..packing import PackedBuffer, PackedLayout
from ..prepare.preparation import PreparedKernel
from ..schedule import Schedule
from .access import CodedBuffer, as_bytes
from .addressing import TileRange


def row_major_storage(pointer: LlvmValue, buffer: Buffer) -> Storage:
    """A `buffer` in row-major order at a pointer."""
    strides = tuple(math.prod(buffer.shape[axis + 1 :]) for axis in range(len(buffer.shape)))
    return Storage(pointer, buffer.dtype, strides, _origin(buffer.shape))


def packed_storage(pointer: LlvmValue, buffer: Buffer, layout: PackedLayout) -> PackedBuffer:
    """A packed, uncoded buffer at a `pointer`."""
    assert not layout.coded, "no block codes"
    flat = Storage(pointer, buffer.dtype, (1,), _origin((1,)))
    return PackedBuffer(flat, layout, buffer.shape, _origin(buffer.shape))


def coded_storage(
    pointer: LlvmValue, buffer: Buffer, layout: PackedLayout, writer: FunctionBuilder
) -> CodedBuffer:
    """A coded buffer at a `pointer`: the heads of all panels, and behind them the elements."""
    heads = layout.codes(buffer.shape).heads
    elements = writer.pure(f"getelementptr i8, {pointer}, i64 {heads}", "ptr")
    flat = Storage(elements, buffer.dtype, (1,), _origin((1,)))
    return CodedBuffer(flat, layout, buffer.shape, _origin(buffer.shape), heads=as_bytes(pointer))


def device_storages(
    kernel: TileKernel,
    layouts: Mapping[str, PackedLayout],
    numbers: Mapping[Buffer, int],
    writer: FunctionBuilder,
) -> dict[Buffer, Storage | PackedBuffer]:
    """The storage of each input and output of a kernel, whose pointers are at `numbers` of
    `%buffers`."""
    storages: dict[Buffer, Storage | PackedBuffer] = {}
    for buffer in dict.fromkeys((*kernel.inputs, *kernel.outputs)):
        slot = writer.pure(f"getelementptr ptr, ptr %buffers, i64 {numbers[buffer]}", "ptr")
        pointer = writer.new(f"load ptr, ptr {slot.text}, align 8", "ptr")
        layout = layouts.get(buffer.name)
        if layout is None:
            storages[buffer] = row_major_storage(pointer, buffer)
        elif layout.coded:
            storages[buffer] = coded_storage(pointer, buffer, layout, writer)
        else:
            storages[buffer] = packed_storage(pointer, buffer, layout)
    return storages


def tile_storage(
    storage: Storage | PackedBuffer, stage: KernelStage, ranges: Mapping[LoopIndex, TileRange]
) -> Storage | PackedBuffer:
    """The storage of a stage's tile, with its origin at the tile's begin, so that positions of the
    whole buffer address the tile."""
    stage_indices = [single_index(position) for position in stage.at]
    return replace(
        storage,
        origin=tuple(Linear() if index is None else ranges[index].base for index in stage_indices),
    )


@dataclass(frozen=True)
class _ScratchSlot:
    """Scratch memory for one tile."""

    tile: Buffer
    """The buffer, with the sizes of the tile."""
    layout: PackedLayout | None

    @property
    def strides(self) -> tuple[int, ...]:
        """Row-major strides, with rows moved apart by a cache line where they would be a multiple
        of 1024 bytes long."""
        sizes, size = self.tile.shape, STORED[self.tile.dtype][1]
        strides = [1] * len(sizes)
        for axis in range(len(sizes) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * max(sizes[axis + 1], 1)
            # Rows 1024 bytes apart meet in few sets of L1, and evict each other when a register
            # tile reads several of them.
            if axis == len(sizes) - 2 and strides[axis] * size % 1024 == 0:
                strides[axis] += CACHE_LINE_BYTES // size
        return tuple(strides)

    @property
    def bytes(self) -> int:
        """Bytes of the `tile` and a cache line behind it; never zero."""
        sizes, size = self.tile.shape, STORED[self.tile.dtype][1]
        length = self.strides[0] * sizes[0] if sizes else 1
        if self.layout is not None:
            length = math.prod(self.layout.shape(sizes))
        # The line behind keeps a vector load of the last elements inside the slot, and two threads'
        # tiles out of one line.
        return round_up_to_line(max(length * size, 1)) + CACHE_LINE_BYTES

    def storage(self, pointer: LlvmValue) -> Storage | PackedBuffer:
        """The storage of the slot at a `pointer`."""
        if self.layout is not None:
            return packed_storage(pointer, self.tile, self.layout)
        return replace(row_major_storage(pointer, self.tile), strides=self.strides)


class ScratchMemory:
    """Scratch memory for all tiles of a kernel, one after the other."""

    def __init__(self, prepared: PreparedKernel, schedule: Schedule) -> None:
        self._prepared = prepared
        self._schedule = schedule
        kernel = prepared.kernel
        self._slots = {
            stage.target: self._slot(stage)
            for stage in kernel.stages
            if stage.target not in kernel.outputs
        }

    @property
    def bytes(self) -> int:
        """Bytes that one thread needs."""
        return sum(room.bytes for room in self._slots.values())

    def storages(self, writer: FunctionBuilder) -> dict[Buffer, Storage | PackedBuffer]:
        """The storage of each tile."""
        storages: dict[Buffer, Storage | PackedBuffer] = {}
        begin = 0
        for buffer, room in self._slots.items():
            pointer = writer.pure(f"getelementptr i8, ptr %scratch, i64 {begin}", "ptr")
            storages[buffer] = room.storage(pointer)
            begin += room.bytes
        return storages

    def _slot(self, stage: KernelStage) -> _ScratchSlot:
        """The slot for the target of a `stage`."""
        axes = zip(stage.at, stage.target.shape, strict=True)
        whole = stage.target in self._prepared.lasting
        sizes = tuple(self._slot_length(position, size, whole) for position, size in axes)
        layout = self._prepared.panels.get(stage.target)
        return _ScratchSlot(replace(stage.target, shape=sizes), layout)

    def _slot_length(self, position: Position, size: int, whole: bool) -> int:
        """The length of a slot along an axis: a tile, or all of it."""
        index = single_index(position)
        serial = () if whole else (self._prepared.serial,)
        if index is not None and index in (*self._prepared.parallel, *serial):
            return self._schedule.tile(index)
        return size


def _origin(sizes: Sequence[int]) -> tuple[Linear, ...]:
    """The origin of a buffer that begins at its pointer."""
    return (Linear(),) * len(sizes)
