"""Reads panels that are coded: in registers, vector by vector, what `codes` describes in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ...tensor.types import DType
from ..native.handler import LINE
from .codes import COUNTED, LISTED, LISTING, NAMES, PLAIN, TOGETHER, Codes
from .linear import Linear, linear
from .memory import Memory, Storage
from .packed import Packed
from .values import Value, Whole, splat
from .vectors import Vectors
from .writer import Writer

FETCHED = 8
"""Lines of a head: what is usual is in them."""


@dataclass(frozen=True)
class Coded(Packed):
    """A packed buffer whose panels may be coded."""

    heads: Storage = field(kw_only=True)
    """As bytes."""
    names: Value | None = field(default=None, kw_only=True)
    """What the panel at hand begins its elements with, in each part of a register."""

    @property
    def codes(self) -> Codes:
        return self.layout.codes(self.sizes)

    @property
    def bytes(self) -> Storage:
        """All elements, as bytes."""
        return as_bytes(self.flat.pointer)

    @property
    def plain(self) -> Packed:
        """The same where panels are as they are."""
        return Packed(self.flat, self.layout, self.sizes, self.origin)

    def places(self, panel: Linear, within: Linear, writer: Writer) -> tuple[Linear, Linear]:
        """Where the bytes of an element are, and where its code is."""
        begin = panel * (2 * self.codes.elements)
        half, rest = within.over(2, writer)
        assert rest == Linear(), "codes stand two in a byte"
        return begin + within, begin + self.codes.elements + half


def as_bytes(pointer: Value) -> Storage:
    return Storage(pointer, DType.BOOL, (1,), (Linear(),))


@dataclass(frozen=True)
class Head:
    """What is known of a panel."""

    storage: Coded
    panel: Linear
    memory: Memory
    vectors: Vectors

    @property
    def is_plain(self) -> Value:
        text = f"icmp sge {self._told}, {PLAIN}"
        return self.vectors.writer.pure(text, "i1")

    @property
    def count(self) -> Value:
        """Of its exceptions, whatever stands there."""
        writer, most = self.vectors.writer, self.storage.codes.most
        found = writer.call("llvm.smax.i32", "i32", 1, [str(self._told), "i32 0"])
        found = writer.call("llvm.smin.i32", "i32", 1, [str(found), f"i32 {most}"])
        found = writer.pure(f"select {self.is_plain}, i32 0, {found}", "i32")
        return writer.pure(f"zext {found} to i64", "i64")

    @property
    def names(self) -> Value:
        """In all four parts of a register."""
        short = self.memory.read(self.storage.heads, self._begin, "i8", NAMES)
        lanes = ", ".join(f"i32 {lane % NAMES}" for lane in range(TOGETHER))
        text = f"shufflevector {short}, {short.type} poison, <{TOGETHER} x i32> <{lanes}>"
        return self.vectors.writer.pure(text, "i8", TOGETHER)

    def fetch_next(self) -> None:
        """Some of the head of the panel behind."""
        for line in range(FETCHED):
            place = self._begin + self.storage.codes.head + line * LINE
            self.memory.prefetch(self.storage.heads, place, nearest=False)

    def exception(self, number: Whole) -> tuple[Value, Value]:
        """Where it is in the panel, whatever stands there, and by how much it is more."""
        writer, at = self.vectors.writer, self._begin + linear(number) * LISTING + LISTED
        place = self.memory.read(self.storage.heads, at, "i32")
        last = f"i32 {self.storage.codes.elements - 1}"
        place = writer.call("llvm.umin.i32", "i32", 1, [str(place), last])
        more = self.memory.read(self.storage.heads, at + 4, "float")
        return writer.pure(f"zext {place} to i64", "i64"), more

    @property
    def _begin(self) -> Linear:
        return self.panel * self.storage.codes.head

    @cached_property
    def _told(self) -> Value:
        """Read once, where it is first asked for: before all loops."""
        return self.memory.read(self.storage.heads, self._begin + COUNTED, "i32")


def decoded(vectors: Vectors, low: Value, codes: Value, names: Value) -> tuple[Value, Value]:
    """Two vectors of pairs of bf16, as `i16`."""
    half = TOGETHER // 2
    mask, four = (splat("i8", text, half) for text in ("15", "4"))
    first = vectors.writer.pure(f"and {codes}, {mask}", "i8", half)
    second = vectors.writer.pure(f"lshr {codes}, {four}", "i8", half)
    order = ", ".join(f"i32 {lane}" for lane in range(TOGETHER))
    which = vectors.writer.pure(
        f"shufflevector {first}, {second}, <{TOGETHER} x i32> <{order}>", "i8", TOGETHER
    )
    name = "llvm.x86.avx512.pshuf.b.512"
    high = vectors.writer.call(name, "i8", TOGETHER, [str(names), str(which)])
    found = (_mixed(vectors, low, high, 8 * part) for part in range(2))
    one, other = found
    return one, other


def _mixed(vectors: Vectors, low: Value, high: Value, begin: int) -> Value:
    """Eight bytes of each sixteen, below those of another value."""
    lanes = ", ".join(
        f"i32 {part + at}, i32 {TOGETHER + part + at}"
        for part in range(begin, TOGETHER, 16)
        for at in range(8)
    )
    text = f"shufflevector {low}, {high}, <{TOGETHER} x i32> <{lanes}>"
    mixed = vectors.writer.pure(text, "i8", TOGETHER)
    half = TOGETHER // 2
    return vectors.writer.pure(f"bitcast {mixed} to <{half} x i16>", "i16", half)
