"""Sums of products of 16-bit pairs, by a dot instruction or widened in registers.

Where both factors are bf16, some machines have one instruction for both products. Without it, what
moves with the lanes lies in pairs, and one instruction widens each half in registers before it is
multiplied; the other factor may be bf16, f16 or f32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir import BufferLoad, KernelStage, LoopIndex, ReductionKind, single_index, used_indices
from ...llvm.arithmetic import WORKING
from ...llvm.builder import LlvmValue, typed
from ..emit.access import BufferAccess
from ..emit.addressing import LaneAddress
from ..emit.expression import ExpressionEmitter
from ..packing import PackedBuffer
from ..prepare.precision import is_bf16_product, is_float_product, product_operands


@dataclass(frozen=True)
class PairwiseProduct(ABC):
    """A sum over an index of one factor, the same in all lanes, times one that moves with them."""

    shared: BufferLoad
    moving: BufferLoad
    inner: LoopIndex
    elements: ExpressionEmitter

    @property
    def access(self) -> BufferAccess:
        return self.elements.access

    @abstractmethod
    def step(
        self, spots: Sequence[LaneAddress], sums: Sequence[LlvmValue], *, whole: bool
    ) -> list[LlvmValue]:
        """Adds the products at an even place and, where it is whole, at the one behind."""


class DotInstruction(PairwiseProduct):
    """By the instruction."""

    def step(
        self, spots: Sequence[LaneAddress], sums: Sequence[LlvmValue], *, whole: bool
    ) -> list[LlvmValue]:
        self.access.forget()
        return [
            self._added(one, self._both(spot, whole), self._rows(spot, whole))
            for spot, one in zip(spots, sums, strict=True)
        ]

    def _added(self, total: LlvmValue, shared: LlvmValue, moving: LlvmValue) -> LlvmValue:
        """The shared one stands last: there the instruction itself spreads a word of memory."""
        lanes, writer = total.lanes, self.access.vectors.writer
        halves = typed("bfloat", 2 * lanes)
        casts = [f"bitcast {value} to {halves}" for value in (moving, shared)]
        pairs = [writer.pure(text, "bfloat", 2 * lanes) for text in casts]
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        return writer.call(name, "float", lanes, [*map(str, (total, *pairs))])

    def _both(self, spot: LaneAddress, whole: bool) -> LlvmValue:
        """The shared factor and the one behind it, in every lane."""
        access, vectors = self.access, self.access.vectors
        storage = access.storages[self.shared.buffer]
        if isinstance(storage, PackedBuffer):
            offset, _ = access.in_panels(storage, self.shared, spot)
            return vectors.spread(access.pair(storage.flat, offset), spot.lanes)
        offset = access.offset(storage, self.shared.at, spot)
        if whole:
            return vectors.spread(access.pair(storage, offset), spot.lanes)
        last = access.once(storage, offset, 1, None)
        return vectors.spread(vectors.writer.pure(f"zext {last} to i32", "i32"), spot.lanes)

    def _rows(self, spot: LaneAddress, whole: bool) -> LlvmValue:
        """Two rows interleaved, as `<2n x i16>`."""
        access, lanes = self.access, spot.lanes
        storage = access.storages[self.moving.buffer]
        if isinstance(storage, PackedBuffer):
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


class WidenedProduct(PairwiseProduct):
    """By a product of each half, which is widened before."""

    def step(
        self, spots: Sequence[LaneAddress], sums: Sequence[LlvmValue], *, whole: bool
    ) -> list[LlvmValue]:
        self.access.forget()
        sums = [*sums]
        for second in range(1 + whole):
            sums = [self._added(*one, second) for one in zip(sums, spots, strict=True)]
        return sums

    def _added(self, total: LlvmValue, spot: LaneAddress, second: int) -> LlvmValue:
        access, arithmetic = self.access, self.elements.arithmetic
        there = {**spot.places, self.inner: spot.places[self.inner] + second}
        shared = self.elements.value(self.shared, replace(spot, places=there))
        storage = access.storages[self.moving.buffer]
        assert isinstance(storage, PackedBuffer), "it lies in pairs"
        half = arithmetic.half(access.pairs(storage, self.moving, spot), second=second > 0)
        return arithmetic.multiplied(total, [shared, half])


def dot_product_of(
    stage: KernelStage, inner: LoopIndex, along: LoopIndex | None, elements: ExpressionEmitter
) -> DotInstruction | None:
    """The stage as a sum by the instruction, where it is one and its factors lie so."""
    found = _factors(stage, along)
    if found is None or along is None or not is_bf16_product(stage):
        return None
    dot = DotInstruction(*found, inner, elements)
    return dot if _fits(dot, along) else None


def widened_product_of(
    stage: KernelStage, inner: LoopIndex, along: LoopIndex | None, elements: ExpressionEmitter
) -> WidenedProduct | None:
    """The same without it, where what moves lies in pairs."""
    found = _factors(stage, along)
    if found is None or not is_float_product(stage):
        return None
    _, moving = found
    storage = elements.access.storages[moving.buffer]
    pairs = isinstance(storage, PackedBuffer) and _is_interleaved(storage, moving, inner)
    return WidenedProduct(*found, inner, elements) if pairs else None


def _factors(stage: KernelStage, along: LoopIndex | None) -> tuple[BufferLoad, BufferLoad] | None:
    """What all lanes share, and what moves with them."""
    found = product_operands(stage)
    sums = stage.fold is ReductionKind.SUM and WORKING[stage.accumulated] == "float"
    if found is None or along is None or not sums:
        return None
    moving, shared = sorted(found, key=lambda one: along not in used_indices(one))
    return (
        None
        if along in used_indices(shared) or along not in used_indices(moving)
        else (shared, moving)
    )


def _fits(dot: DotInstruction, along: LoopIndex) -> bool:
    access = dot.access
    shared, moving = (access.storages[load.buffer] for load in (dot.shared, dot.moving))
    if isinstance(shared, PackedBuffer):
        if not _is_interleaved(shared, dot.shared, dot.inner):
            return False
    elif access.stride(shared, dot.shared.at, dot.inner) != 1:
        return False
    if isinstance(moving, PackedBuffer):
        return _is_interleaved(moving, dot.moving, dot.inner)
    down = access.stride(moving, dot.moving.at, dot.inner)
    return down is not None and access.stride(moving, dot.moving.at, along) == 1


def _is_interleaved(panels: PackedBuffer, load: BufferLoad, inner: LoopIndex) -> bool:
    return panels.pairs and single_index(load.at[panels.layout.row]) == inner
