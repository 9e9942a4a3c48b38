"""Reads and writes of buffer elements at a lane address, and the decoder of coded panels.

Elements of buffers, read and written at a spot: one, neighbours, those that lie apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from ....tensor.types import DType
from ...ir import Buffer, BufferLoad, LoopIndex, Position
from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue, i64, splat
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

PREFETCHED_VECTORS = 8
"""Lines of a head: what is usual is in them."""


@dataclass(frozen=True)
class CodedBuffer(PackedBuffer):
    """A packed buffer whose panels may be coded."""

    heads: Storage = field(kw_only=True)
    """As bytes."""
    names: LlvmValue | None = field(default=None, kw_only=True)
    """What the panel at hand begins its elements with, in each part of a register."""

    @property
    def codes(self) -> CodedPanelFormat:
        return self.layout.codes(self.sizes)

    @property
    def bytes(self) -> Storage:
        """All elements, as bytes."""
        return as_bytes(self.flat.pointer)

    @property
    def plain(self) -> PackedBuffer:
        """The same where panels are as they are."""
        return PackedBuffer(self.flat, self.layout, self.sizes, self.origin)

    def places(
        self, panel: Linear, within: Linear, writer: FunctionBuilder
    ) -> tuple[Linear, Linear]:
        """Where the bytes of an element are, and where its code is."""
        begin = panel * (2 * self.codes.elements)
        half, rest = within.over(2, writer)
        assert rest == Linear(), "codes stand two in a byte"
        return begin + within, begin + self.codes.elements + half


def as_bytes(pointer: LlvmValue) -> Storage:
    return Storage(pointer, DType.BOOL, (1,), (Linear(),))


@dataclass(frozen=True)
class PanelHead:
    """What is known of a panel."""

    storage: CodedBuffer
    panel: Linear
    memory: Memory
    vectors: Vectors

    @property
    def is_plain(self) -> LlvmValue:
        text = f"icmp sge {self._told}, {UNCODED_PANEL}"
        return self.vectors.writer.pure(text, "i1")

    @property
    def count(self) -> LlvmValue:
        """Of its exceptions, whatever stands there."""
        writer, most = self.vectors.writer, self.storage.codes.most
        found = writer.call("llvm.smax.i32", "i32", 1, [str(self._told), "i32 0"])
        found = writer.call("llvm.smin.i32", "i32", 1, [str(found), f"i32 {most}"])
        found = writer.pure(f"select {self.is_plain}, i32 0, {found}", "i32")
        return writer.pure(f"zext {found} to i64", "i64")

    @property
    def names(self) -> LlvmValue:
        """In all four parts of a register."""
        short = self.memory.read(self.storage.heads, self._begin, "i8", NAMED_BYTES)
        lanes = ", ".join(f"i32 {lane % NAMED_BYTES}" for lane in range(CODED_GROUP))
        text = f"shufflevector {short}, {short.type} poison, <{CODED_GROUP} x i32> <{lanes}>"
        return self.vectors.writer.pure(text, "i8", CODED_GROUP)

    def fetch_next(self) -> None:
        """Some of the head of the panel behind."""
        for line in range(PREFETCHED_VECTORS):
            place = self._begin + self.storage.codes.head + line * CACHE_LINE_BYTES
            self.memory.prefetch(self.storage.heads, place, nearest=False)

    def exception(self, number: LlvmInteger) -> tuple[LlvmValue, LlvmValue]:
        """Where it is in the panel, whatever stands there, and by how much it is more."""
        writer, at = (
            self.vectors.writer,
            self._begin + linear(number) * EXCEPTION_BYTES + EXCEPTION_LIST_OFFSET,
        )
        place = self.memory.read(self.storage.heads, at, "i32")
        last = f"i32 {self.storage.codes.elements - 1}"
        place = writer.call("llvm.umin.i32", "i32", 1, [str(place), last])
        more = self.memory.read(self.storage.heads, at + 4, "float")
        return writer.pure(f"zext {place} to i64", "i64"), more

    @property
    def _begin(self) -> Linear:
        return self.panel * self.storage.codes.head

    @cached_property
    def _told(self) -> LlvmValue:
        """Read once, where it is first asked for: before all loops."""
        return self.memory.read(self.storage.heads, self._begin + EXCEPTION_COUNT_OFFSET, "i32")


def decode_vectors(
    vectors: Vectors, low: LlvmValue, codes: LlvmValue, names: LlvmValue
) -> tuple[LlvmValue, LlvmValue]:
    """Two vectors of pairs of bf16, as `i16`."""
    half = CODED_GROUP // 2
    mask, four = (splat("i8", text, half) for text in ("15", "4"))
    first = vectors.writer.pure(f"and {codes}, {mask}", "i8", half)
    second = vectors.writer.pure(f"lshr {codes}, {four}", "i8", half)
    order = ", ".join(f"i32 {lane}" for lane in range(CODED_GROUP))
    which = vectors.writer.pure(
        f"shufflevector {first}, {second}, <{CODED_GROUP} x i32> <{order}>", "i8", CODED_GROUP
    )
    name = "llvm.x86.avx512.pshuf.b.512"
    high = vectors.writer.call(name, "i8", CODED_GROUP, [str(names), str(which)])
    found = (_interleave_bytes(vectors, low, high, 8 * part) for part in range(2))
    one, other = found
    return one, other


def _interleave_bytes(vectors: Vectors, low: LlvmValue, high: LlvmValue, begin: int) -> LlvmValue:
    """Eight bytes of each sixteen, below those of another value."""
    lanes = ", ".join(
        f"i32 {part + at}, i32 {CODED_GROUP + part + at}"
        for part in range(begin, CODED_GROUP, 16)
        for at in range(8)
    )
    text = f"shufflevector {low}, {high}, <{CODED_GROUP} x i32> <{lanes}>"
    mixed = vectors.writer.pure(text, "i8", CODED_GROUP)
    half = CODED_GROUP // 2
    return vectors.writer.pure(f"bitcast {mixed} to <{half} x i16>", "i16", half)


pass


BufferStorages: TypeAlias = Mapping[Buffer, Storage | PackedBuffer]
"""Where each buffer lies."""


class BufferAccess:
    """Reads and writes where a writer stands. What was read before is not read again."""

    def __init__(self, storages: BufferStorages, memory: Memory, vectors: Vectors) -> None:
        self.storages = storages
        self.memory = memory
        self.vectors = vectors
        self.locator = PositionEmitter(vectors)
        self._known: dict[tuple[object, ...], LlvmValue] = {}
        self._held: dict[tuple[object, ...], LlvmValue] = {}

    @contextmanager
    def holding(self, loads: Iterable[BufferLoad], spot: LaneAddress) -> Iterator[None]:
        """Reads what is the same wherever lanes go from here, and nobody writes meanwhile."""
        self.forget()
        for load in loads:
            self.stored(load, spot)
        self._held = self._known
        self.forget()
        yield
        self._held = {}
        self.forget()

    def forget(self) -> None:
        """For whoever has written to memory, or begins or leaves a turn of a loop."""
        self._known = dict(self._held)

    def stored(self, load: BufferLoad, spot: LaneAddress) -> LlvmValue:
        """Of each lane, or the one that all share, as it is in memory."""
        storage = self.storages[load.buffer]
        if isinstance(storage, PackedBuffer):
            return self._of_panel(storage, load, spot)
        stride = self.stride(storage, load.at, spot.along) if spot.lanes > 1 else 0
        if stride not in (0, 1):
            return self.memory.gather(storage, self._offsets(storage, load.at, spot), spot.mask)
        lanes = 1 if stride == 0 else spot.lanes
        offset = self.offset(storage, load.at, spot)
        mask = spot.mask if lanes == spot.lanes else self._any(spot)
        return self.once(storage, offset, lanes, mask)

    def store(
        self, target: Buffer, at: tuple[Position, ...], value: LlvmValue, spot: LaneAddress
    ) -> None:
        """Of a value as it is stored. Where lanes lie along an index, the places follow it."""
        storage = self.storages[target]
        assert isinstance(storage, Storage)
        if spot.lanes == 1 or self.stride(storage, at, spot.along) == 1:
            self.memory.store(storage, self.offset(storage, at, spot), value, spot.mask)
        else:
            self.memory.scatter(storage, self._offsets(storage, at, spot), value, spot.mask)

    def fetch(self, load: BufferLoad, spot: LaneAddress, nearest: bool) -> None:
        """Has it brought near, for later: into the second cache, or into the first."""
        storage = self.storages[load.buffer]
        if isinstance(storage, CodedBuffer) and storage.names:
            self._fetch_coded(storage, load, spot, nearest)
        elif isinstance(storage, PackedBuffer):
            self.memory.prefetch(storage.flat, self.in_panels(storage, load, spot)[0], nearest)
        else:
            self.memory.prefetch(storage, self.offset(storage, load.at, spot), nearest)

    def once(
        self, storage: Storage, offset: Linear, lanes: int, mask: LlvmValue | None
    ) -> LlvmValue:
        """What is stored there, loaded where it was not yet."""
        key = (storage.pointer, offset, lanes, mask)
        if key not in self._known:
            self._known[key] = self.memory.load(storage, offset, lanes, mask)
        return self._known[key]

    def pair(self, storage: Storage, offset: Linear) -> LlvmValue:
        """An element of 16 bits and the one behind it as one number, loaded the same way."""
        key = (storage.pointer, offset, "i32")
        if key not in self._known:
            self._known[key] = self.memory.read(storage, offset, "i32")
        return self._known[key]

    def stride(
        self, storage: Storage, at: tuple[Position, ...], along: LoopIndex | None
    ) -> int | None:
        """How far apart neighbouring lanes' elements are; nothing where that is not the same."""
        steps = [self.locator.step(position, along) for position in at]
        if None in steps:
            return None
        return sum(step * own for step, own in zip(steps, storage.strides, strict=True) if step)

    def offset(self, storage: Storage, at: tuple[Position, ...], spot: LaneAddress) -> Linear:
        """How far into a buffer the first lane's element is."""
        return storage.offset([self.locator.first(position, spot) for position in at])

    def pairs(self, storage: PackedBuffer, load: BufferLoad, spot: LaneAddress) -> LlvmValue:
        """Two rows of panels that hold them interleaved, as `<2n x i16>`."""
        if isinstance(storage, CodedBuffer):
            return self._decoded(storage, load, spot)
        offset, odd = self.in_panels(storage, load, spot)
        assert odd == Linear(), "pairs of rows begin at even ones"
        return self.once(storage.flat, offset, 2 * spot.lanes, None)

    def in_panels(
        self, storage: PackedBuffer, load: BufferLoad, spot: LaneAddress
    ) -> tuple[Linear, Linear]:
        """How far into a packed buffer it is, and which one of a pair."""
        return storage.offset(self._places(load, spot), self.vectors.writer)

    def _places(self, load: BufferLoad, spot: LaneAddress) -> list[Linear]:
        return [self.locator.first(position, spot) for position in load.at]

    def _decoded(self, storage: CodedBuffer, load: BufferLoad, spot: LaneAddress) -> LlvmValue:
        """One of two vectors, both of which are known then."""
        writer = self.vectors.writer
        panel, within, odd = storage.parted(self._places(load, spot), writer)
        which = within.constant % CODED_GROUP
        within += -which
        assert odd == Linear(), "pairs of rows begin at even ones"
        assert within.divisible(CODED_GROUP), "vectors are coded two by two"
        keys = [(storage.flat.pointer, "pairs", panel, within, part) for part in range(2)]
        if keys[0] not in self._known:
            assert storage.names, "a panel has told its names"
            low, codes = storage.places(panel, within, writer)
            values = (
                self.memory.read(storage.bytes, low, "i8", CODED_GROUP),
                self.memory.read(storage.bytes, codes, "i8", CODED_GROUP // 2),
            )
            found = decode_vectors(self.vectors, *values, storage.names)
            self._known.update(zip(keys, found, strict=True))
        return self._known[keys[which * 2 // CODED_GROUP]]

    def _fetch_coded(
        self, storage: CodedBuffer, load: BufferLoad, spot: LaneAddress, nearest: bool
    ) -> None:
        """A line of bytes is two vectors, one of codes four."""
        writer = self.vectors.writer
        panel, within, _ = storage.parted(self._places(load, spot), writer)
        low, codes = storage.places(panel, within, writer)
        if within.constant % CODED_GROUP == 0:
            self.memory.prefetch(storage.bytes, low, nearest)
        if within.constant % (2 * CODED_GROUP) == 0:
            self.memory.prefetch(storage.bytes, codes, nearest)

    def _offsets(self, storage: Storage, at: tuple[Position, ...], spot: LaneAddress) -> LlvmValue:
        """How far into a buffer each lane's element is."""
        vectors, lanes = self.vectors, spot.lanes
        stride = self.stride(storage, at, spot.along)
        if stride is not None:
            first = self.offset(storage, at, spot).whole(vectors.writer)
            return vectors.steps(first, stride, lanes)
        found = vectors.constant(0, "i64", lanes)
        for position, origin, own in zip(at, storage.origin, storage.strides, strict=True):
            back = vectors.spread(i64(origin.whole(vectors.writer)), lanes)
            there = vectors.spread(self.locator.all(position, spot), lanes)
            local = vectors.two("sub", there, back)
            moved = vectors.two("mul", local, vectors.constant(own, "i64", lanes))
            found = vectors.two("add", found, moved)
        return found

    def _of_panel(self, storage: PackedBuffer, load: BufferLoad, spot: LaneAddress) -> LlvmValue:
        """From a packed buffer: panels are there to their end, whatever counts of them."""
        assert not isinstance(storage, CodedBuffer), "only products of pairs read what is coded"
        offset, odd = self.in_panels(storage, load, spot)
        position, origin = load.at[storage.column], storage.origin[storage.column]
        if spot.lanes == 1 or not self.locator.step(position, spot.along):
            return self.once(storage.flat, offset, 1, None)
        place = self.locator.first(position, spot) - origin
        assert place.divisible(spot.lanes), "a vector lies in one panel"
        if not storage.pairs:
            return self.once(storage.flat, offset, spot.lanes, None)
        return self._one_of(self.once(storage.flat, offset - odd, 2 * spot.lanes, None), odd)

    def _one_of(self, pairs: LlvmValue, which: Linear) -> LlvmValue:
        """One of two rows that are interleaved; which one may be known only when it runs."""
        vectors = self.vectors
        if not which.terms:
            return vectors.every_second(pairs, which.constant)
        odd = i64(which.whole(vectors.writer))
        truth = vectors.spread(vectors.writer.pure(f"icmp ne {odd}, 0", "i1"), pairs.lanes // 2)
        second, first = vectors.every_second(pairs, 1), vectors.every_second(pairs, 0)
        return vectors.choose(truth, second, first)

    def _any(self, spot: LaneAddress) -> LlvmValue | None:
        """Whether a lane counts at all, where that matters to what they share."""
        if not spot.guarded or spot.mask is None or spot.mask.lanes == 1:
            return spot.mask if spot.guarded else None
        return self.vectors.some(spot.mask)
