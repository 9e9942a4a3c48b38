"""Sums of products of half-typed neighbours, for which some machines have one instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...tensor.types import DType
from ..ir import Affine, Apply, Fold, Index, Load, Operation, Stage, indices
from .elements import Elements, Spot
from .linear import Linear
from .memory import Storage
from .packed import Packed
from .writer import Value, typed


@dataclass(frozen=True)
class Dot:
    """A sum over an index of one factor, the same in all lanes, times one that moves with them."""

    shared: Load
    moving: Load
    inner: Index
    elements: Elements

    def step(self, spots: Sequence[Spot], sums: Sequence[Value], *, whole: bool) -> list[Value]:
        """Adds the products at an even place and, where it is whole, at the one behind."""
        self.elements.known.clear()
        return [
            self._added(one, self._both(spot, whole), self._pairs(spot, whole))
            for spot, one in zip(spots, sums, strict=True)
        ]

    def _added(self, total: Value, first: Value, second: Value) -> Value:
        lanes = total.lanes
        halves = typed("bfloat", 2 * lanes)
        a, b = (self._as(value, "bfloat", 2 * lanes) for value in (first, second))
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        return self.elements.writer.call(
            name, "float", lanes, [str(total), f"{halves} {a.text}", f"{halves} {b.text}"]
        )

    def _both(self, spot: Spot, whole: bool) -> Value:
        """The shared factor and the one behind it, in every lane."""
        storage = self.elements.storages[self.shared.buffer]
        assert isinstance(storage, Storage)
        writer, arithmetic = self.elements.writer, self.elements.arithmetic
        offset = storage.offset([self.elements.place(at, spot) for at in self.shared.at])
        if whole:
            key = (storage.pointer, storage.dtype, offset, -2, None)
            if key not in self.elements.known:
                self.elements.known[key] = self.elements.memory.read(storage, offset, "i32")
            return arithmetic.spread(self.elements.known[key], spot.lanes)
        alone = self.elements.once(storage, offset, 1, None)
        return arithmetic.spread(writer.pure(f"zext {alone} to i32", "i32"), spot.lanes)

    def _pairs(self, spot: Spot, whole: bool) -> Value:
        """Rows interleaved, as `<2n x i16>`."""
        elements, lanes = self.elements, spot.lanes
        storage = elements.storages[self.moving.buffer]
        if isinstance(storage, Packed):
            offset, odd = elements.unpacked(storage, self.moving, spot)
            assert odd == Linear(), "pairs of rows begin at even ones"
            return elements.once(storage.flat, offset, 2 * lanes, None)
        offset = storage.offset([elements.place(at, spot) for at in self.moving.at])
        first = elements.once(storage, offset, lanes, spot.mask)
        if whole:
            down = elements.stride(storage, self.moving.at, self.inner)
            assert down is not None
            second = elements.once(storage, offset + down, lanes, spot.mask)
        else:
            second = elements.arithmetic.constant(0, "i16", lanes)
        return elements.interleaved(first, second)

    def _as(self, value: Value, scalar: str, lanes: int) -> Value:
        text = f"bitcast {value} to {typed(scalar, lanes)}"
        return self.elements.writer.pure(text, scalar, lanes)


def paired(stage: Stage, inner: Index, along: Index | None, elements: Elements) -> Dot | None:
    """The stage as such a sum, where it is one and its factors lie so."""
    match stage.value:
        case Apply(operation=Operation.MULTIPLY, arguments=(Load() as one, Load() as other)):
            pass
        case _:
            return None
    if stage.fold is not Fold.SUM or along is None or stage.target.dtype is not DType.F32:
        return None
    if along in _used(one):
        one, other = other, one
    if not _halves(one, other) or along in _used(one) or along not in _used(other):
        return None
    dot = Dot(one, other, inner, elements)
    return dot if _fits(dot, along) else None


def _fits(dot: Dot, along: Index) -> bool:
    elements = dot.elements
    shared, moving = (elements.storages[load.buffer] for load in (dot.shared, dot.moving))
    if isinstance(shared, Packed) or elements.stride(shared, dot.shared.at, dot.inner) != 1:
        return False
    if isinstance(moving, Packed):
        row = dot.moving.at[moving.layout.row]
        return moving.pairs and row == Affine(((dot.inner, 1),))
    down = elements.stride(moving, dot.moving.at, dot.inner)
    return down is not None and elements.stride(moving, dot.moving.at, along) == 1


def _halves(*loads: Load) -> bool:
    return all(load.buffer.dtype is DType.BF16 for load in loads)


def _used(load: Load) -> set[Index]:
    return {one for position in load.at for one in indices(position)}
