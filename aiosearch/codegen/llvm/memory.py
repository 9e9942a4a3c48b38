"""Loads, stores and prefetches of elements and vectors at offsets from a pointer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...tensor.types import DType
from ..native.handler import CACHE_LINE_BYTES
from ..native.machine import CpuMachine
from .builder import FunctionBuilder, LlvmValue, opaque_copy, splat, suffix, typed
from .linear import Linear

STORED = {
    DType.F64: ("double", 8),
    DType.F32: ("float", 4),
    DType.F16: ("i16", 2),
    DType.BF16: ("i16", 2),
    DType.I32: ("i32", 4),
    DType.I8: ("i8", 1),
    DType.U8: ("i8", 1),
    DType.BOOL: ("i8", 1),
}
"""Types in memory, and their bytes. What half types are is known to `scalars` alone."""

_MOST_VECTOR_BYTES = 128
"""Bits of the shortest vector that a register takes as it is."""


def bytes_of(dtype: DType, sizes: Iterable[int]) -> int:
    """Of an array, as it is stored."""
    return math.prod(sizes) * STORED[dtype][1]


def vectors_per_cache_line(lanes: int, dtype: DType) -> int:
    """How many vectors of so many lanes are a line of memory; at least one."""
    return max(1, CACHE_LINE_BYTES // (lanes * STORED[dtype][1]))


@dataclass(frozen=True)
class Storage:
    """A buffer, or the tile of it that a block works on."""

    pointer: LlvmValue
    dtype: DType
    strides: tuple[int, ...]
    """In elements."""
    origin: tuple[Linear, ...]
    """The place of the first element."""

    def offset(self, at: Sequence[Linear]) -> Linear:
        """How many elements into it a place is."""
        offset = Linear()
        for place, first, stride in zip(at, self.origin, self.strides, strict=True):
            offset += (place - first) * stride
        return offset


class Memory:
    """Reads and writes by offsets in elements."""

    def __init__(self, writer: FunctionBuilder, machine: CpuMachine) -> None:
        self._writer = writer
        self._llvm_fuses_masks = machine.width == 64
        """Whether an instruction may read memory and take a mask at once."""

    def address(self, storage: Storage, offset: Linear) -> LlvmValue:
        """The constant comes last, where machine code has room for it."""
        scalar, _ = STORED[storage.dtype]
        pointer = storage.pointer
        for value, factor in offset.terms:
            moved = self._writer.multiply(value, factor)
            text = moved.text if isinstance(moved, LlvmValue) else str(moved)
            pointer = self._gep(scalar, pointer, text)
        return self._gep(scalar, pointer, str(offset.constant)) if offset.constant else pointer

    def read(self, storage: Storage, offset: Linear, scalar: str, lanes: int = 1) -> LlvmValue:
        """What lies there, taken for something else."""
        pointer, (_, size) = self.address(storage, offset), STORED[storage.dtype]
        text = f"load {typed(scalar, lanes)}, ptr {pointer.text}, align {size}"
        return self._writer.new(text, scalar, lanes)

    def load(
        self, storage: Storage, offset: Linear, lanes: int, mask: LlvmValue | None
    ) -> LlvmValue:
        """Neighbours, as they are stored; zero where the mask is false."""
        scalar, size = STORED[storage.dtype]
        pointer = self.address(storage, offset)
        type_ = typed(scalar, lanes)
        if mask is None:
            return self._writer.new(
                f"load {type_}, ptr {pointer.text}, align {size}", scalar, lanes
            )
        if lanes == 1:
            return self._guarded(pointer, scalar, size, mask)
        name = f"llvm.masked.load.{suffix(scalar, lanes)}.p0"
        self._declare(f"declare {type_} @{name}(ptr, i32, <{lanes} x i1>, {type_})")
        text = (
            f"call {type_} @{name}(ptr {pointer.text}, i32 {size}, {mask}, {type_} zeroinitializer)"
        )
        return self._opaque_load(self._writer.new(text, scalar, lanes))

    def _opaque_load(self, loaded: LlvmValue) -> LlvmValue:
        """The same, and LLVM cannot see that.

        It would have an FMA under the same mask do the load, and then take both apart again, but
        without the mask: what is loaded in vain may not be there (seen in LLVM 22).
        """
        if not self._llvm_fuses_masks or loaded.scalar not in ("float", "double"):
            return loaded
        return self._writer.pure(opaque_copy(loaded, "v"), loaded.scalar, loaded.lanes)

    def gather(self, storage: Storage, offsets: LlvmValue, mask: LlvmValue | None) -> LlvmValue:
        scalar, size = STORED[storage.dtype]
        lanes = offsets.lanes
        type_, pointers = typed(scalar, lanes), typed("ptr", lanes)
        where = self._pointers(storage, offsets)
        name = f"llvm.masked.gather.{suffix(scalar, lanes)}.v{lanes}p0"
        self._declare(f"declare {type_} @{name}({pointers}, i32, <{lanes} x i1>, {type_})")
        arguments = f"{where}, i32 {size}, {_all_lanes(mask, lanes)}, {type_} zeroinitializer"
        text = f"call {type_} @{name}({arguments})"
        return self._writer.new(text, scalar, lanes)

    def store(
        self, storage: Storage, offset: Linear, value: LlvmValue, mask: LlvmValue | None
    ) -> None:
        """Of values as they are stored."""
        _, size = STORED[storage.dtype]
        pointer = self.address(storage, offset)
        if mask is None:
            self._writer.emit(f"store {value}, ptr {pointer.text}, align {size}")
            return
        assert value.lanes > 1, "a single element is stored or not"
        value = self._opaque_value(value)
        name = f"llvm.masked.store.{suffix(value.scalar, value.lanes)}.p0"
        self._declare(f"declare void @{name}({value.type}, ptr, i32, <{value.lanes} x i1>)")
        self._writer.emit(f"call void @{name}({value}, ptr {pointer.text}, i32 {size}, {mask})")

    def _opaque_value(self, value: LlvmValue) -> LlvmValue:
        """The same, and LLVM cannot see what it is made of.

        Of whole numbers that were longer just before it would store the only one that a mask lets
        through with the bytes behind it, which may not be there (seen in LLVM 22).
        """
        if not self._llvm_fuses_masks or value.scalar in ("float", "double"):
            return value
        least = _MOST_VECTOR_BYTES // int(value.scalar.removeprefix("i"))
        opaque = self._resized(value, max(value.lanes, least))
        opaque = self._writer.pure(opaque_copy(opaque, "v"), opaque.scalar, opaque.lanes)
        return self._resized(opaque, value.lanes)

    def _resized(self, value: LlvmValue, lanes: int) -> LlvmValue:
        """The first lanes, or more behind them, whatever is in those."""
        if value.lanes == lanes:
            return value
        order = (f"i32 {lane}" if lane < value.lanes else "i32 poison" for lane in range(lanes))
        text = f"shufflevector {value}, {value.type} poison, <{lanes} x i32> <{', '.join(order)}>"
        return self._writer.pure(text, value.scalar, lanes)

    def scatter(
        self, storage: Storage, offsets: LlvmValue, value: LlvmValue, mask: LlvmValue | None
    ) -> None:
        _, size = STORED[storage.dtype]
        lanes = value.lanes
        where = self._pointers(storage, offsets)
        name = f"llvm.masked.scatter.{suffix(value.scalar, lanes)}.v{lanes}p0"
        self._declare(f"declare void @{name}({value.type}, {where.type}, i32, <{lanes} x i1>)")
        self._writer.emit(
            f"call void @{name}({value}, {where}, i32 {size}, {_all_lanes(mask, lanes)})"
        )

    def prefetch(self, storage: Storage, offset: Linear, to_l1: bool) -> None:
        """Of a place that need not be there: into the second cache, or into the first."""
        pointer = self.address(storage, offset)
        self._declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        arguments = f"ptr {pointer.text}, i32 0, i32 {3 if to_l1 else 2}, i32 1"
        self._writer.emit(f"call void @llvm.prefetch.p0({arguments})")

    def _gep(self, scalar: str, pointer: LlvmValue, offset: str) -> LlvmValue:
        return self._writer.pure(f"getelementptr {scalar}, {pointer}, i64 {offset}", "ptr")

    def _pointers(self, storage: Storage, offsets: LlvmValue) -> LlvmValue:
        scalar, _ = STORED[storage.dtype]
        text = f"getelementptr {scalar}, {storage.pointer}, {offsets}"
        return self._writer.pure(text, "ptr", offsets.lanes)

    def _guarded(self, pointer: LlvmValue, scalar: str, size: int, mask: LlvmValue) -> LlvmValue:
        """One element, or zero: what is not to be read may not be there."""
        loaded = self._writer.when(
            mask,
            [LlvmValue(_zero(scalar), scalar)],
            lambda _: [
                self._writer.new(f"load {scalar}, ptr {pointer.text}, align {size}", scalar)
            ],
        )
        return loaded[0]

    def _declare(self, line: str) -> None:
        self._writer.declared.add(line)


def _zero(scalar: str) -> str:
    return "0" if scalar.startswith("i") else "0.0"


def _all_lanes(mask: LlvmValue | None, lanes: int) -> str:
    if mask is not None:
        return str(mask)
    return f"<{lanes} x i1> {splat('i1', 'true', lanes)}"
