"""Loads and stores of buffer elements at a lane address, and the decoder of coded panels.

A load is a broadcast, a contiguous vector or a gather, by the distance of neighbouring lanes in
memory. What was loaded is cached until `BufferAccess.forget`, which everyone calls who writes to
memory or enters or leaves a loop iteration: the cache holds LLVM values, and those of another basic
block need not dominate this one.

A coded panel (`coded_format`) is decoded 64 elements at a time: 64 second bytes and 32 bytes of
codes are loaded, a byte shuffle (`pshufb`) looks up each code's first byte, and two byte
interleavings put first and second bytes together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from ....tensor.types import DType
from ...ir import Buffer, BufferLoad, LoopIndex, Position
from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue, constant, i64
from ...llvm.linear import Linear, linear
from ...llvm.memory import Memory, Storage
from ...llvm.vectors import Vectors
from ...native.handler import CACHE_LINE_BYTES
from ..coded_format import (
    CODED_GROUP,
    EXCEPTION_BYTES,
    EXCEPTION_COUNT_OFFSET,
    EXCEPTION_LIST_OFFSET,
    NAMED_BYTES,
    UNCODED_PANEL,
    CodedPanelFormat,
)
from ..packing import PackedBuffer
from .addressing import LaneAddress, PositionEmitter

PREFETCHED_HEAD_LINES = 8
"""Cache lines of the next panel's head that are prefetched: the bytes it names, the count, and as
many exceptions as panels of normally distributed weights have."""


@dataclass(frozen=True)
class CodedBuffer(PackedBuffer):
    """A packed buffer whose panels may be coded."""

    heads: Storage = field(kw_only=True)
    """The heads of all panels, as bytes."""
    named_bytes: LlvmValue | None = field(default=None, kw_only=True)
    """The first bytes that the panel at hand names, repeated in each 16-byte part of a register;
    `None` outside of a panel."""

    @property
    def codes(self) -> CodedPanelFormat:
        """Sizes and offsets of the format."""
        return self.layout.codes(self.sizes)

    @property
    def bytes(self) -> Storage:
        """The elements of all panels, as bytes."""
        return as_bytes(self.flat.pointer)

    @property
    def uncoded(self) -> PackedBuffer:
        """The buffer for panels whose elements are stored as they are."""
        return PackedBuffer(self.flat, self.layout, self.sizes, self.origin)

    def byte_and_code_offsets(
        self, panel: Linear, within: Linear, writer: FunctionBuilder
    ) -> tuple[Linear, Linear]:
        """Byte offsets of an element's second byte and of its code."""
        begin = panel * (2 * self.codes.elements)
        half, odd_column = within.divmod(2, writer)
        assert odd_column == Linear(), "codes stand two in a byte"
        return begin + within, begin + self.codes.elements + half


def as_bytes(pointer: LlvmValue) -> Storage:
    """Memory at a `pointer`, addressed by byte."""
    return Storage(pointer, DType.BOOL, (1,), (Linear(),))


@dataclass(frozen=True)
class PanelHead:
    """What the head of one panel says."""

    storage: CodedBuffer
    panel: Linear
    memory: Memory
    vectors: Vectors

    @property
    def is_uncoded(self) -> LlvmValue:
        """Whether the `panel`'s elements are stored as they are."""
        text = f"icmp sge {self._stored_count}, {UNCODED_PANEL}"
        return self.vectors.writer.pure(text, "i1")

    @property
    def count(self) -> LlvmValue:
        """The number of exceptions, clamped to what the head has room for, whatever it holds; 0 if
        uncoded."""
        writer, most = self.vectors.writer, self.storage.codes.most
        # Inputs may be anything, as a caller may pass an array that `encode_panels` did not make:
        # no count may lead out of the array.
        count = writer.call("llvm.smax.i32", "i32", 1, [str(self._stored_count), "i32 0"])
        count = writer.call("llvm.smin.i32", "i32", 1, [str(count), f"i32 {most}"])
        count = writer.pure(f"select {self.is_uncoded}, i32 0, {count}", "i32")
        return writer.pure(f"zext {count} to i64", "i64")

    @property
    def named_bytes(self) -> LlvmValue:
        """The sixteen named first bytes in each of the four parts of a register."""
        short = self.memory.read(self.storage.heads, self._panel_begin, "i8", NAMED_BYTES)
        lanes = ", ".join(f"i32 {lane % NAMED_BYTES}" for lane in range(CODED_GROUP))
        text = f"shufflevector {short}, {short.type} poison, <{CODED_GROUP} x i32> <{lanes}>"
        return self.vectors.writer.pure(text, "i8", CODED_GROUP)

    def fetch_next(self) -> None:
        """Prefetches the first lines of the next panel's head."""
        for line in range(PREFETCHED_HEAD_LINES):
            place = self._panel_begin + self.storage.codes.head + line * CACHE_LINE_BYTES
            self.memory.prefetch(self.storage.heads, place, to_l1=False)

    def exception(self, number: LlvmInteger) -> tuple[LlvmValue, LlvmValue]:
        """The position of an exception in the panel, clamped to its elements, and the difference to
        what is stored there."""
        writer, at = (
            self.vectors.writer,
            self._panel_begin + linear(number) * EXCEPTION_BYTES + EXCEPTION_LIST_OFFSET,
        )
        place = self.memory.read(self.storage.heads, at, "i32")
        last = f"i32 {self.storage.codes.elements - 1}"
        place = writer.call("llvm.umin.i32", "i32", 1, [str(place), last])
        difference = self.memory.read(self.storage.heads, at + 4, "float")
        return writer.pure(f"zext {place} to i64", "i64"), difference

    @property
    def _panel_begin(self) -> Linear:
        """The byte offset of the head."""
        return self.panel * self.storage.codes.head

    @cached_property
    def _stored_count(self) -> LlvmValue:
        """The count as stored, loaded once, where it is first needed: before all loops."""
        return self.memory.read(
            self.storage.heads, self._panel_begin + EXCEPTION_COUNT_OFFSET, "i32"
        )


def decode_vectors(
    vectors: Vectors, low: LlvmValue, codes: LlvmValue, names: LlvmValue
) -> tuple[LlvmValue, LlvmValue]:
    """Two vectors of bf16 pairs, as i16, from 64 second bytes `low` and 32 bytes of codes."""
    half = CODED_GROUP // 2
    mask, four = (constant(number, "i8", half) for number in (15, 4))
    first = vectors.writer.pure(f"and {codes}, {mask.text}", "i8", half)
    second = vectors.writer.pure(f"lshr {codes}, {four.text}", "i8", half)
    order = ", ".join(f"i32 {lane}" for lane in range(CODED_GROUP))
    which = vectors.writer.pure(
        f"shufflevector {first}, {second}, <{CODED_GROUP} x i32> <{order}>", "i8", CODED_GROUP
    )
    name = "llvm.x86.avx512.pshuf.b.512"
    high = vectors.writer.call(name, "i8", CODED_GROUP, [str(names), str(which)])
    decoded = (_interleave_bytes(vectors, low, high, 8 * part) for part in range(2))
    first_vector, second_vector = decoded
    return first_vector, second_vector


def _interleave_bytes(vectors: Vectors, low: LlvmValue, high: LlvmValue, begin: int) -> LlvmValue:
    """Eight bytes of each sixteen of `low`, each followed by its byte of `high`."""
    lanes = ", ".join(
        f"i32 {part + at}, i32 {CODED_GROUP + part + at}"
        for part in range(begin, CODED_GROUP, 16)
        for at in range(8)
    )
    text = f"shufflevector {low}, {high}, <{CODED_GROUP} x i32> <{lanes}>"
    mixed = vectors.writer.pure(text, "i8", CODED_GROUP)
    half = CODED_GROUP // 2
    return vectors.writer.pure(f"bitcast {mixed} to <{half} x i16>", "i16", half)


BufferStorages: TypeAlias = Mapping[Buffer, Storage | PackedBuffer]
"""The storage of each buffer."""


class BufferAccess:
    """Prints loads and stores; a load that is cached is not printed again."""

    def __init__(self, storages: BufferStorages, memory: Memory, vectors: Vectors) -> None:
        self.storages = storages
        self.memory = memory
        self.vectors = vectors
        self.locator = PositionEmitter(vectors)
        self._loaded: dict[tuple[object, ...], LlvmValue] = {}
        self._hoisted: dict[tuple[object, ...], LlvmValue] = {}

    @contextmanager
    def hoisting(self, loads: Iterable[BufferLoad], spot: LaneAddress) -> Iterator[None]:
        """A context that loads what does not change within it first, and keeps it through `forget`;
        nothing may write there meanwhile."""
        self.forget()
        for load in loads:
            self.stored(load, spot)
        # What is in the cache now was loaded before the loops that follow, so its values dominate
        # all of them.
        self._hoisted = self._loaded
        self.forget()
        yield
        self._hoisted = {}
        self.forget()

    def forget(self) -> None:
        """Drops cached loads, but for hoisted ones."""
        self._loaded = dict(self._hoisted)

    def stored(self, load: BufferLoad, spot: LaneAddress) -> LlvmValue:
        """The element in each lane, or the one that all lanes share, in its stored type."""
        storage = self.storages[load.buffer]
        if isinstance(storage, PackedBuffer):
            return self._of_panel(storage, load, spot)
        stride = self.stride(storage, load.at, spot.along) if spot.lanes > 1 else 0
        # A stride of -1 or 2 is a gather, too: such loads are rare, and a reversal of lanes would
        # be a third case.
        if stride not in (0, 1):
            return self.memory.gather(storage, self._offsets(storage, load.at, spot), spot.mask)
        lanes = 1 if stride == 0 else spot.lanes
        offset = self.offset(storage, load.at, spot)
        # A broadcast element exists in memory even if some lanes are masked; only a guarded one may
        # not.
        mask = spot.mask if lanes == spot.lanes else self._any(spot)
        return self.once(storage, offset, lanes, mask)

    def store(
        self, target: Buffer, at: tuple[Position, ...], value: LlvmValue, spot: LaneAddress
    ) -> None:
        """Stores a `value` in its stored type: contiguous, or scattered."""
        storage = self.storages[target]
        assert isinstance(storage, Storage)
        if spot.lanes == 1 or self.stride(storage, at, spot.along) == 1:
            self.memory.store(storage, self.offset(storage, at, spot), value, spot.mask)
        else:
            self.memory.scatter(storage, self._offsets(storage, at, spot), value, spot.mask)

    def fetch(self, load: BufferLoad, spot: LaneAddress, to_l1: bool) -> None:
        """Prefetches the line of an element to L2, or to L1 if `to_l1`."""
        storage = self.storages[load.buffer]
        if isinstance(storage, CodedBuffer) and storage.named_bytes:
            self._fetch_coded(storage, load, spot, to_l1)
        elif isinstance(storage, PackedBuffer):
            self.memory.prefetch(storage.flat, self.in_panels(storage, load, spot)[0], to_l1)
        else:
            self.memory.prefetch(storage, self.offset(storage, load.at, spot), to_l1)

    def once(
        self, storage: Storage, offset: Linear, lanes: int, mask: LlvmValue | None
    ) -> LlvmValue:
        """What is stored at an `offset`, loaded unless cached."""
        # LLVM would find most repeated loads itself, but not across stores that it cannot tell
        # apart.
        key = (storage.pointer, offset, lanes, mask)
        if key not in self._loaded:
            self._loaded[key] = self.memory.load(storage, offset, lanes, mask)
        return self._loaded[key]

    def pair(self, storage: Storage, offset: Linear) -> LlvmValue:
        """A 16-bit element and the next one as an i32, loaded unless cached."""
        key = (storage.pointer, offset, "i32")
        if key not in self._loaded:
            self._loaded[key] = self.memory.read(storage, offset, "i32")
        return self._loaded[key]

    def stride(
        self, storage: Storage, at: tuple[Position, ...], along: LoopIndex | None
    ) -> int | None:
        """Elements between neighbouring lanes; `None` if not constant."""
        steps = [self.locator.step(position, along) for position in at]
        if None in steps:
            return None
        return sum(
            step * axis_stride
            for step, axis_stride in zip(steps, storage.strides, strict=True)
            if step
        )

    def offset(self, storage: Storage, at: tuple[Position, ...], spot: LaneAddress) -> Linear:
        """The offset of the first lane's element."""
        return storage.offset([self.locator.first(position, spot) for position in at])

    def pairs(self, storage: PackedBuffer, load: BufferLoad, spot: LaneAddress) -> LlvmValue:
        """Two interleaved rows of a panel, as `<2n x i16>`."""
        if isinstance(storage, CodedBuffer):
            return self._decoded(storage, load, spot)
        offset, odd = self.in_panels(storage, load, spot)
        assert odd == Linear(), "pairs of rows begin at even ones"
        return self.once(storage.flat, offset, 2 * spot.lanes, None)

    def in_panels(
        self, storage: PackedBuffer, load: BufferLoad, spot: LaneAddress
    ) -> tuple[Linear, Linear]:
        """The offset in a packed buffer, and which row of a pair."""
        return storage.offset(self._places(load, spot), self.vectors.writer)

    def _places(self, load: BufferLoad, spot: LaneAddress) -> list[Linear]:
        """The position of the first lane's element."""
        return [self.locator.first(position, spot) for position in load.at]

    def _decoded(self, storage: CodedBuffer, load: BufferLoad, spot: LaneAddress) -> LlvmValue:
        """One of the two vectors that are decoded together; both are cached."""
        writer = self.vectors.writer
        panel, within, odd = storage.parted(self._places(load, spot), writer)
        # Two vectors are decoded at once: which of both is asked for is known when the code is
        # printed.
        which = within.constant % CODED_GROUP
        within += -which
        assert odd == Linear(), "pairs of rows begin at even ones"
        assert within.divisible(CODED_GROUP), "vectors are coded two by two"
        keys = [(storage.flat.pointer, "pairs", panel, within, part) for part in range(2)]
        if keys[0] not in self._loaded:
            assert storage.named_bytes, "a panel has told its names"
            low, codes = storage.byte_and_code_offsets(panel, within, writer)
            values = (
                self.memory.read(storage.bytes, low, "i8", CODED_GROUP),
                self.memory.read(storage.bytes, codes, "i8", CODED_GROUP // 2),
            )
            decoded = decode_vectors(self.vectors, *values, storage.named_bytes)
            self._loaded.update(zip(keys, decoded, strict=True))
        return self._loaded[keys[which * 2 // CODED_GROUP]]

    def _fetch_coded(
        self, storage: CodedBuffer, load: BufferLoad, spot: LaneAddress, to_l1: bool
    ) -> None:
        """Prefetches bytes and codes; a line of bytes covers two vectors, one of codes four."""
        writer = self.vectors.writer
        panel, within, _ = storage.parted(self._places(load, spot), writer)
        low, codes = storage.byte_and_code_offsets(panel, within, writer)
        if within.constant % CODED_GROUP == 0:
            self.memory.prefetch(storage.bytes, low, to_l1)
        if within.constant % (2 * CODED_GROUP) == 0:
            self.memory.prefetch(storage.bytes, codes, to_l1)

    def _offsets(self, storage: Storage, at: tuple[Position, ...], spot: LaneAddress) -> LlvmValue:
        """The offset of each lane's element."""
        vectors, lanes = self.vectors, spot.lanes
        stride = self.stride(storage, at, spot.along)
        if stride is not None:
            first = self.offset(storage, at, spot).evaluate(vectors.writer)
            return vectors.steps(first, stride, lanes)
        offsets = constant(0, "i64", lanes)
        for position, origin, axis_stride in zip(at, storage.origin, storage.strides, strict=True):
            back = vectors.broadcast(i64(origin.evaluate(vectors.writer)), lanes)
            there = vectors.broadcast(self.locator.all(position, spot), lanes)
            local = vectors.binary("sub", there, back)
            moved = vectors.binary("mul", local, constant(axis_stride, "i64", lanes))
            offsets = vectors.binary("add", offsets, moved)
        return offsets

    def _of_panel(self, storage: PackedBuffer, load: BufferLoad, spot: LaneAddress) -> LlvmValue:
        """An element or vector of a packed buffer; panels are padded, so no mask is needed."""
        assert not isinstance(storage, CodedBuffer), "only products of pairs read what is coded"
        offset, odd = self.in_panels(storage, load, spot)
        position, origin = load.at[storage.column], storage.origin[storage.column]
        if spot.lanes == 1 or not self.locator.step(position, spot.along):
            return self.once(storage.flat, offset, 1, None)
        place = self.locator.first(position, spot) - origin
        # A vector that crossed panels would be two loads; tiles are cut so that none does.
        assert place.divisible(spot.lanes), "a vector lies in one panel"
        if not storage.pairs:
            return self.once(storage.flat, offset, spot.lanes, None)
        return self._one_of(self.once(storage.flat, offset - odd, 2 * spot.lanes, None), odd)

    def _one_of(self, pairs: LlvmValue, which: Linear) -> LlvmValue:
        """One of two interleaved rows, where which one may be known only at run time."""
        vectors = self.vectors
        # A constant row of a pair is one shuffle; an unknown one needs both and a select.
        if not which.terms:
            return vectors.deinterleaved(pairs, which.constant)
        odd = i64(which.evaluate(vectors.writer))
        truth = vectors.broadcast(vectors.writer.pure(f"icmp ne {odd}, 0", "i1"), pairs.lanes // 2)
        second, first = vectors.deinterleaved(pairs, 1), vectors.deinterleaved(pairs, 0)
        return vectors.select(truth, second, first)

    def _any(self, spot: LaneAddress) -> LlvmValue | None:
        """The mask for an element that all lanes share: whether any lane counts, where the element
        may not exist otherwise."""
        if not spot.guarded or spot.mask is None or spot.mask.lanes == 1:
            return spot.mask if spot.guarded else None
        return self.vectors.any_lane(spot.mask)
