"""Sums of products of 16-bit pairs, by a dot instruction or widened in registers.

`vdpbf16ps` adds two products of bf16 to each f32 lane: `total[l] += a[2l] * b[2l] + a[2l+1] *
b[2l+1]`. So the varying operand needs two rows interleaved, and the broadcast operand two
neighbours in every lane. Without the instruction, the varying operand is in pairs too, and one
instruction, a shift or a mask, widens either row in registers before it is multiplied; the
broadcast operand may be bf16, f16 or f32 then.

Example: `out[j] = sum over k of x[k] * W[k, j]`, W packed with rows in pairs. Step k=6 loads W[6,
0], W[7, 0], W[6, 1], W[7, 1], ... as one vector of 32 bf16, broadcasts the 32 bits of x[6], x[7],
and one instruction adds 32 products to 16 sums.

Invariants: pairs begin at even rows, as panels interleave rows 2n and 2n + 1; a last odd row is
paired with zero. An Emerald Rapids needs for one instruction the time of four multiply-adds
(`benchmarks/dots.py`), so there `Schedule.wide` is often faster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir import BufferLoad, KernelStage, LoopIndex, ReductionKind, single_index, used_indices
from ...llvm.arithmetic import WORKING
from ...llvm.builder import LlvmValue, constant, typed
from ..emit.access import BufferAccess
from ..emit.addressing import LaneAddress
from ..emit.expression import ExpressionEmitter
from ..packing import PackedBuffer
from ..prepare.precision import is_bf16_product, is_float_product, product_operands


@dataclass(frozen=True)
class PairwiseProduct(ABC):
    """A sum over `inner` of a broadcast operand `shared` times one that varies along the lanes,
    `moving`, two products at a time."""

    shared: BufferLoad
    moving: BufferLoad
    inner: LoopIndex
    elements: ExpressionEmitter

    @property
    def access(self) -> BufferAccess:
        """Loads of the operands."""
        return self.elements.access

    @abstractmethod
    def step(
        self, spots: Sequence[LaneAddress], sums: Sequence[LlvmValue], *, whole: bool
    ) -> list[LlvmValue]:
        """The sums after the products at an even row and, if `whole`, at the next row."""


class DotInstruction(PairwiseProduct):
    """The products by the dot instruction."""

    def step(
        self, spots: Sequence[LaneAddress], sums: Sequence[LlvmValue], *, whole: bool
    ) -> list[LlvmValue]:
        """The `sums` after one dot instruction each."""
        self.access.forget()
        return [
            self._accumulated(total, self._both(spot, whole), self._rows(spot, whole))
            for spot, total in zip(spots, sums, strict=True)
        ]

    def _accumulated(self, total: LlvmValue, shared: LlvmValue, moving: LlvmValue) -> LlvmValue:
        """One sum after one dot instruction."""
        lanes, writer = total.lanes, self.access.vectors.writer
        # The broadcast operand stands last, as only the last operand can be broadcast from memory
        # by the instruction itself.
        halves = typed("bfloat", 2 * lanes)
        casts = [f"bitcast {value} to {halves}" for value in (moving, shared)]
        pairs = [writer.pure(text, "bfloat", 2 * lanes) for text in casts]
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        return writer.call(name, "float", lanes, [*map(str, (total, *pairs))])

    def _both(self, spot: LaneAddress, whole: bool) -> LlvmValue:
        """An element of the broadcast operand and its neighbour, in every lane."""
        access, vectors = self.access, self.access.vectors
        storage = access.storages[self.shared.buffer]
        if isinstance(storage, PackedBuffer):
            offset, _ = access.in_panels(storage, self.shared, spot)
            return vectors.broadcast(access.pair(storage.flat, offset), spot.lanes)
        offset = access.offset(storage, self.shared.at, spot)
        if whole:
            return vectors.broadcast(access.pair(storage, offset), spot.lanes)
        # Zero-extension puts a zero in place of the element behind the last row.
        last = access.once(storage, offset, 1, None)
        return vectors.broadcast(vectors.writer.pure(f"zext {last} to i32", "i32"), spot.lanes)

    def _rows(self, spot: LaneAddress, whole: bool) -> LlvmValue:
        """Two rows of the varying operand, interleaved, as `<2n x i16>`."""
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
            # 0 * 0 adds nothing; the element of the broadcast operand is zero, too.
            second = constant(0, "i16", lanes)
        return access.vectors.interleaved(first, second)


class WidenedProduct(PairwiseProduct):
    """The products by multiply-adds of f32, each row widened before."""

    def step(
        self, spots: Sequence[LaneAddress], sums: Sequence[LlvmValue], *, whole: bool
    ) -> list[LlvmValue]:
        """The `sums` after one multiply-add per row."""
        self.access.forget()
        sums = [*sums]
        # All sums take the first row before the second, so that multiply-adds on one sum are far
        # apart.
        for second in range(1 + whole):
            sums = [
                self._accumulated(*sum_and_spot, second)
                for sum_and_spot in zip(sums, spots, strict=True)
            ]
        return sums

    def _accumulated(self, total: LlvmValue, spot: LaneAddress, second: int) -> LlvmValue:
        """One sum after a multiply-add with the first or the `second` row."""
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
    """The stage as a sum by dot instruction, if it is a bf16 product whose operands are contiguous
    as needed."""
    factors = _factors(stage, along)
    if factors is None or along is None or not is_bf16_product(stage):
        return None
    dot = DotInstruction(*factors, inner, elements)
    return dot if _fits(dot, along) else None


def widened_product_of(
    stage: KernelStage, inner: LoopIndex, along: LoopIndex | None, elements: ExpressionEmitter
) -> WidenedProduct | None:
    """The `stage` as a sum of widened products, if the varying operand is packed in pairs."""
    factors = _factors(stage, along)
    if factors is None or not is_float_product(stage):
        return None
    _, moving = factors
    storage = elements.access.storages[moving.buffer]
    pairs = isinstance(storage, PackedBuffer) and _is_interleaved(storage, moving, inner)
    return WidenedProduct(*factors, inner, elements) if pairs else None


def _factors(stage: KernelStage, along: LoopIndex | None) -> tuple[BufferLoad, BufferLoad] | None:
    """The broadcast and the varying operand of a sum of products; `None` for any other stage."""
    operands = product_operands(stage)
    sums = stage.reduction is ReductionKind.SUM and WORKING[stage.accumulated] == "float"
    if operands is None or along is None or not sums:
        return None
    # A product commutes: the operand that depends on the vectorised index is `moving`, whichever is
    # written first.
    moving, shared = sorted(operands, key=lambda load: along not in used_indices(load))
    return (
        None
        if along in used_indices(shared) or along not in used_indices(moving)
        else (shared, moving)
    )


def _fits(dot: DotInstruction, along: LoopIndex) -> bool:
    """Whether the operands are where the instruction needs them: `shared` contiguous along the
    reduced index or in pairs, `moving` in pairs or contiguous along the lanes."""
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
    """Whether panels hold pairs of rows of the reduced index."""
    return panels.pairs and single_index(load.at[panels.layout.row]) == inner
