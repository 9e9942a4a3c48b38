"""Where a kernel's buffers are: arguments, and tiles in a thread's scratch memory."""

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
    """A buffer in row-major order."""
    strides = tuple(math.prod(buffer.shape[axis + 1 :]) for axis in range(len(buffer.shape)))
    return Storage(pointer, buffer.dtype, strides, _origin(buffer.shape))


def packed_storage(pointer: LlvmValue, buffer: Buffer, layout: PackedLayout) -> PackedBuffer:
    assert not layout.coded, "no block codes"
    flat = Storage(pointer, buffer.dtype, (1,), _origin((1,)))
    return PackedBuffer(flat, layout, buffer.shape, _origin(buffer.shape))


def coded_storage(
    pointer: LlvmValue, buffer: Buffer, layout: PackedLayout, writer: FunctionBuilder
) -> CodedBuffer:
    """Its elements are behind the heads of all panels."""
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
    """The kernel's inputs and outputs, by where their pointers stand."""
    found: dict[Buffer, Storage | PackedBuffer] = {}
    for buffer in dict.fromkeys((*kernel.inputs, *kernel.outputs)):
        slot = writer.pure(f"getelementptr ptr, ptr %buffers, i64 {numbers[buffer]}", "ptr")
        pointer = writer.new(f"load ptr, ptr {slot.text}, align 8", "ptr")
        layout = layouts.get(buffer.name)
        if layout is None:
            found[buffer] = row_major_storage(pointer, buffer)
        elif layout.coded:
            found[buffer] = coded_storage(pointer, buffer, layout, writer)
        else:
            found[buffer] = packed_storage(pointer, buffer, layout)
    return found


def tile_storage(
    storage: Storage | PackedBuffer, stage: KernelStage, ranges: Mapping[LoopIndex, TileRange]
) -> Storage | PackedBuffer:
    """Where the tile of a stage begins now."""
    own = [single_index(position) for position in stage.at]
    return replace(
        storage, origin=tuple(Linear() if one is None else ranges[one].base for one in own)
    )


@dataclass(frozen=True)
class _ScratchSlot:
    """For one tile."""

    tile: Buffer
    """With the sizes of the tile."""
    layout: PackedLayout | None

    @property
    def strides(self) -> tuple[int, ...]:
        """Rows that would begin at the same places of the cache are moved apart."""
        sizes, size = self.tile.shape, STORED[self.tile.dtype][1]
        found = [1] * len(sizes)
        for axis in range(len(sizes) - 2, -1, -1):
            found[axis] = found[axis + 1] * max(sizes[axis + 1], 1)
            if axis == len(sizes) - 2 and found[axis] * size % 1024 == 0:
                found[axis] += CACHE_LINE_BYTES // size
        return tuple(found)

    @property
    def bytes(self) -> int:
        """With a line behind it, and never none."""
        sizes, size = self.tile.shape, STORED[self.tile.dtype][1]
        length = self.strides[0] * sizes[0] if sizes else 1
        if self.layout is not None:
            length = math.prod(self.layout.shape(sizes))
        return round_up_to_line(max(length * size, 1)) + CACHE_LINE_BYTES

    def storage(self, pointer: LlvmValue) -> Storage | PackedBuffer:
        if self.layout is not None:
            return packed_storage(pointer, self.tile, self.layout)
        return replace(row_major_storage(pointer, self.tile), strides=self.strides)


class ScratchMemory:
    """Room for the tiles of a kernel, one after the other."""

    def __init__(self, prepared: PreparedKernel, schedule: Schedule) -> None:
        self._prepared = prepared
        self._schedule = schedule
        kernel = prepared.kernel
        self._rooms = {
            stage.target: self._room(stage)
            for stage in kernel.stages
            if stage.target not in kernel.outputs
        }

    @property
    def bytes(self) -> int:
        return sum(room.bytes for room in self._rooms.values())

    def storages(self, writer: FunctionBuilder) -> dict[Buffer, Storage | PackedBuffer]:
        found: dict[Buffer, Storage | PackedBuffer] = {}
        begin = 0
        for buffer, room in self._rooms.items():
            pointer = writer.pure(f"getelementptr i8, ptr %scratch, i64 {begin}", "ptr")
            found[buffer] = room.storage(pointer)
            begin += room.bytes
        return found

    def _room(self, stage: KernelStage) -> _ScratchSlot:
        axes = zip(stage.at, stage.target.shape, strict=True)
        whole = stage.target in self._prepared.lasting
        sizes = tuple(self._longest(one, size, whole) for one, size in axes)
        layout = self._prepared.panels.get(stage.target)
        return _ScratchSlot(replace(stage.target, shape=sizes), layout)

    def _longest(self, position: Position, size: int, whole: bool) -> int:
        """Of a tile along an axis; the whole serial index, where that lasts."""
        own = single_index(position)
        serial = () if whole else (self._prepared.serial,)
        if own is not None and own in (*self._prepared.parallel, *serial):
            return self._schedule.tile(own)
        return size


def _origin(sizes: Sequence[int]) -> tuple[Linear, ...]:
    return (Linear(),) * len(sizes)
