"""Sums of products of half-typed neighbours, two at a time.

Where both factors are bf16, some machines have one instruction for both products. Without it, what
moves with the lanes lies in pairs, and one instruction widens each half in registers before it is
multiplied; the other factor may be bf16, f16 or f32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir import Fold, Index, Load, Stage, alone, used
from .access import Access
from .arithmetic import WORKING
from .elements import Elements
from .packed import Packed
from .products import factors, of_bf16, of_floats
from .spots import Spot
from .values import Value, typed


@dataclass(frozen=True)
class Pairs(ABC):
    """A sum over an index of one factor, the same in all lanes, times one that moves with them."""

    shared: Load
    moving: Load
    inner: Index
    elements: Elements

    @property
    def access(self) -> Access:
        return self.elements.access

    @abstractmethod
    def step(self, spots: Sequence[Spot], sums: Sequence[Value], *, whole: bool) -> list[Value]:
        """Adds the products at an even place and, where it is whole, at the one behind."""


class Dot(Pairs):
    """By the instruction."""

    def step(self, spots: Sequence[Spot], sums: Sequence[Value], *, whole: bool) -> list[Value]:
        self.access.forget()
        return [
            self._added(one, self._both(spot, whole), self._rows(spot, whole))
            for spot, one in zip(spots, sums, strict=True)
        ]

    def _added(self, total: Value, shared: Value, moving: Value) -> Value:
        """The shared one stands last: there the instruction itself spreads a word of memory."""
        lanes, writer = total.lanes, self.access.vectors.writer
        halves = typed("bfloat", 2 * lanes)
        casts = [f"bitcast {value} to {halves}" for value in (moving, shared)]
        pairs = [writer.pure(text, "bfloat", 2 * lanes) for text in casts]
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        return writer.call(name, "float", lanes, [*map(str, (total, *pairs))])

    def _both(self, spot: Spot, whole: bool) -> Value:
        """The shared factor and the one behind it, in every lane."""
        access, vectors = self.access, self.access.vectors
        storage = access.storages[self.shared.buffer]
        if isinstance(storage, Packed):
            offset, _ = access.in_panels(storage, self.shared, spot)
            return vectors.spread(access.pair(storage.flat, offset), spot.lanes)
        offset = access.offset(storage, self.shared.at, spot)
        if whole:
            return vectors.spread(access.pair(storage, offset), spot.lanes)
        last = access.once(storage, offset, 1, None)
        return vectors.spread(vectors.writer.pure(f"zext {last} to i32", "i32"), spot.lanes)

    def _rows(self, spot: Spot, whole: bool) -> Value:
        """Two rows interleaved, as `<2n x i16>`."""
        access, lanes = self.access, spot.lanes
        storage = access.storages[self.moving.buffer]
        if isinstance(storage, Packed):
            return access.pairs(storage, self.moving, spot)
        offset = access.offset(storage, self.moving.at, spot)
        first = access.once(storage, offset, lanes, spot.mask)
        if whole:
            down = access.stride(storage, self.moving.at, self.inner)
            assert down is not None
            second = access.once(storage, offset + down, lanes, spot.mask)
        else:
            second = access.vectors.constant(0, "i16", lanes)
        return access.vectors.interleaved(first, second)


class Widened(Pairs):
    """By a product of each half, which is widened before."""

    def step(self, spots: Sequence[Spot], sums: Sequence[Value], *, whole: bool) -> list[Value]:
        self.access.forget()
        sums = [*sums]
        for second in range(1 + whole):
            sums = [self._added(*one, second) for one in zip(sums, spots, strict=True)]
        return sums

    def _added(self, total: Value, spot: Spot, second: int) -> Value:
        access, arithmetic = self.access, self.elements.arithmetic
        there = {**spot.places, self.inner: spot.places[self.inner] + second}
        shared = self.elements.value(self.shared, replace(spot, places=there))
        storage = access.storages[self.moving.buffer]
        assert isinstance(storage, Packed), "it lies in pairs"
        half = arithmetic.half(access.pairs(storage, self.moving, spot), second=second > 0)
        return arithmetic.multiplied(total, [shared, half])


def paired(stage: Stage, inner: Index, along: Index | None, elements: Elements) -> Dot | None:
    """The stage as a sum by the instruction, where it is one and its factors lie so."""
    found = _factors(stage, along)
    if found is None or along is None or not of_bf16(stage):
        return None
    dot = Dot(*found, inner, elements)
    return dot if _fits(dot, along) else None


def widened(stage: Stage, inner: Index, along: Index | None, elements: Elements) -> Widened | None:
    """The same without it, where what moves lies in pairs."""
    found = _factors(stage, along)
    if found is None or not of_floats(stage):
        return None
    _, moving = found
    storage = elements.access.storages[moving.buffer]
    pairs = isinstance(storage, Packed) and _lie_in_pairs(storage, moving, inner)
    return Widened(*found, inner, elements) if pairs else None


def _factors(stage: Stage, along: Index | None) -> tuple[Load, Load] | None:
    """What all lanes share, and what moves with them."""
    found = factors(stage)
    sums = stage.fold is Fold.SUM and WORKING[stage.accumulated] == "float"
    if found is None or along is None or not sums:
        return None
    moving, shared = sorted(found, key=lambda one: along not in used(one))
    return None if along in used(shared) or along not in used(moving) else (shared, moving)


def _fits(dot: Dot, along: Index) -> bool:
    access = dot.access
    shared, moving = (access.storages[load.buffer] for load in (dot.shared, dot.moving))
    if isinstance(shared, Packed):
        if not _lie_in_pairs(shared, dot.shared, dot.inner):
            return False
    elif access.stride(shared, dot.shared.at, dot.inner) != 1:
        return False
    if isinstance(moving, Packed):
        return _lie_in_pairs(moving, dot.moving, dot.inner)
    down = access.stride(moving, dot.moving.at, dot.inner)
    return down is not None and access.stride(moving, dot.moving.at, along) == 1


def _lie_in_pairs(panels: Packed, load: Load, inner: Index) -> bool:
    return panels.pairs and alone(load.at[panels.layout.row]) == inner
