"""Loads, stores and prefetches of elements and vectors at offsets from a pointer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...tensor.types import DType
from ..native.handler import CACHE_LINE_BYTES
from ..native.machine import CpuMachine
from .builder import FunctionBuilder, LlvmValue, constant, opaque_copy, suffix, typed
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
"""The LLVM type and the bytes of each element type in memory. 16-bit floats are i16 here;
`scalars.float_formats` converts them."""

_LEAST_VECTOR_BITS = 128
"""Bits of the shortest vector register."""


def bytes_of(dtype: DType, sizes: Iterable[int]) -> int:
    """Bytes of an array in memory."""
    return math.prod(sizes) * STORED[dtype][1]


def vectors_per_cache_line(lanes: int, dtype: DType) -> int:
    """How many vectors of so many lanes a cache line holds, at least one."""
    return max(1, CACHE_LINE_BYTES // (lanes * STORED[dtype][1]))


@dataclass(frozen=True)
class Storage:
    """A buffer in memory, or the tile of it that a block works on."""

    pointer: LlvmValue
    dtype: DType
    strides: tuple[int, ...]
    """Elements between neighbours along each axis."""
    origin: tuple[Linear, ...]
    """The position of the element at the pointer."""

    def offset(self, at: Sequence[Linear]) -> Linear:
        """The offset, in elements, of a position."""
        offset = Linear()
        for place, first, stride in zip(at, self.origin, self.strides, strict=True):
            offset += (place - first) * stride
        return offset


class Memory:
    """Prints loads and stores by offsets in elements."""

    def __init__(self, writer: FunctionBuilder, machine: CpuMachine) -> None:
        self._writer = writer
        self._llvm_fuses_masks = machine.width == 64
        """Whether an instruction may read memory and take a mask at once."""

    def address(self, storage: Storage, offset: Linear) -> LlvmValue:
        """The address of an element, with the constant part added last, as it fits into an x86
        addressing mode."""
        scalar, _ = STORED[storage.dtype]
        pointer = storage.pointer
        # One `getelementptr` per term: addresses with common terms share their beginning.
        for value, factor in offset.terms:
            moved = self._writer.multiply(value, factor)
            text = moved.text if isinstance(moved, LlvmValue) else str(moved)
            pointer = self._gep(scalar, pointer, text)
        return self._gep(scalar, pointer, str(offset.constant)) if offset.constant else pointer

    def read(self, storage: Storage, offset: Linear, scalar: str, lanes: int = 1) -> LlvmValue:
        """What is at an `offset`, loaded as another type."""
        pointer, (_, size) = self.address(storage, offset), STORED[storage.dtype]
        text = f"load {typed(scalar, lanes)}, ptr {pointer.text}, align {size}"
        return self._writer.new(text, scalar, lanes)

    def load(
        self, storage: Storage, offset: Linear, lanes: int, mask: LlvmValue | None
    ) -> LlvmValue:
        """Contiguous elements in their stored type; zero where the `mask` is false."""
        scalar, size = STORED[storage.dtype]
        pointer = self.address(storage, offset)
        type_ = typed(scalar, lanes)
        if mask is None:
            return self._writer.new(
                f"load {type_}, ptr {pointer.text}, align {size}", scalar, lanes
            )
        # A masked load of one lane would be a vector operation; a branch is cheaper.
        if lanes == 1:
            return self._guarded(pointer, scalar, size, mask)
        name = f"llvm.masked.load.{suffix(scalar, lanes)}.p0"
        self._declare(f"declare {type_} @{name}(ptr, i32, <{lanes} x i1>, {type_})")
        text = (
            f"call {type_} @{name}(ptr {pointer.text}, i32 {size}, {mask}, {type_} zeroinitializer)"
        )
        return self._opaque_load(self._writer.new(text, scalar, lanes))

    def _opaque_load(self, loaded: LlvmValue) -> LlvmValue:
        """The `loaded` value, opaque to LLVM.

        LLVM 22 would let a multiply-add under the same mask do the load, and then split both again,
        without the mask: an access to memory that may not exist.
        """
        if not self._llvm_fuses_masks or not loaded.is_float:
            return loaded
        return self._writer.pure(opaque_copy(loaded, "v"), loaded.scalar, loaded.lanes)

    def gather(self, storage: Storage, offsets: LlvmValue, mask: LlvmValue | None) -> LlvmValue:
        """Elements at any offsets; zero where the `mask` is false."""
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
        """Stores contiguous elements in their stored type."""
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
        """The `value` to store, opaque to LLVM.

        LLVM 22 would store the single element that a mask lets through, of integers that were
        truncated just before, together with the bytes behind it, which may not exist.
        """
        if not self._llvm_fuses_masks or value.is_float:
            return value
        # A narrower value would be extended around the assembly statement, and narrowed again
        # behind it.
        least = _LEAST_VECTOR_BITS // int(value.scalar.removeprefix("i"))
        opaque = self._resized(value, max(value.lanes, least))
        opaque = self._writer.pure(opaque_copy(opaque, "v"), opaque.scalar, opaque.lanes)
        return self._resized(opaque, value.lanes)

    def _resized(self, value: LlvmValue, lanes: int) -> LlvmValue:
        """The first lanes of a `value`, or more lanes of undefined content."""
        if value.lanes == lanes:
            return value
        order = (f"i32 {lane}" if lane < value.lanes else "i32 poison" for lane in range(lanes))
        text = f"shufflevector {value}, {value.type} poison, <{lanes} x i32> <{', '.join(order)}>"
        return self._writer.pure(text, value.scalar, lanes)

    def scatter(
        self, storage: Storage, offsets: LlvmValue, value: LlvmValue, mask: LlvmValue | None
    ) -> None:
        """Stores elements at any offsets, those under the `mask`."""
        _, size = STORED[storage.dtype]
        lanes = value.lanes
        where = self._pointers(storage, offsets)
        name = f"llvm.masked.scatter.{suffix(value.scalar, lanes)}.v{lanes}p0"
        self._declare(f"declare void @{name}({value.type}, {where.type}, i32, <{lanes} x i1>)")
        self._writer.emit(
            f"call void @{name}({value}, {where}, i32 {size}, {_all_lanes(mask, lanes)})"
        )

    def prefetch(self, storage: Storage, offset: Linear, to_l1: bool) -> None:
        """Prefetches the cache line of an `offset`, which need not exist, to L2 or to L1."""
        pointer = self.address(storage, offset)
        self._declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        arguments = f"ptr {pointer.text}, i32 0, i32 {3 if to_l1 else 2}, i32 1"
        self._writer.emit(f"call void @llvm.prefetch.p0({arguments})")

    def _gep(self, scalar: str, pointer: LlvmValue, offset: str) -> LlvmValue:
        """An address by one offset."""
        return self._writer.pure(f"getelementptr {scalar}, {pointer}, i64 {offset}", "ptr")

    def _pointers(self, storage: Storage, offsets: LlvmValue) -> LlvmValue:
        """The addresses of each lane's element."""
        scalar, _ = STORED[storage.dtype]
        text = f"getelementptr {scalar}, {storage.pointer}, {offsets}"
        return self._writer.pure(text, "ptr", offsets.lanes)

    def _guarded(self, pointer: LlvmValue, scalar: str, size: int, mask: LlvmValue) -> LlvmValue:
        """One element, or zero: behind a branch, as the element may not exist."""
        loaded = self._writer.when(
            mask,
            [constant(0, scalar)],
            lambda _: [
                self._writer.new(f"load {scalar}, ptr {pointer.text}, align {size}", scalar)
            ],
        )
        return loaded[0]

    def _declare(self, line: str) -> None:
        """Declares an intrinsic."""
        self._writer.declared.add(line)


def _all_lanes(mask: LlvmValue | None, lanes: int) -> str:
    """The `mask`, or one that is true in all lanes."""
    return str(constant(True, "i1", lanes) if mask is None else mask)
