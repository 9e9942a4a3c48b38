"""Loops of reductions: unrolled, and in pieces whose sums are added (pairwise summation).

The problem: the rounding error of a sum grows with the number of terms added one after the other.
Cut into pieces that are added separately, and their sums again in pieces where these are many, n
terms have an error that grows with the length of a piece plus the number of pieces on each level.

Example: 100,000 products in a register tile of 16 sums, two steps per iteration. Pieces have 128
iterations, 256 products, which makes 391 of them. Their sums are added one after the other, as 391
is no more than twice 256. The longest chain of additions has 256 + 391 links instead of 100,000.

Invariant: how a sum is cut depends on the shape of the register tile and the length of the
reduction only, never on the block: equal rows have equal sums in all blocks. Cost: one addition per
piece, and as many registers again for the sums of pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ...ir import LoopIndex
from ...llvm.builder import LlvmInteger, LlvmValue, constant
from ...llvm.linear import linear
from ..emit.addressing import IndexPlaces
from ..emit.tile import StageTile

LoopBody: TypeAlias = Callable[[LlvmInteger, list[LlvmValue]], list[LlvmValue]]
"""Prints an iteration, from its number and the values that the one before left."""

_PIECE_TERMS, _SHORT_PIECE_TERMS = 256, 64
"""Terms of a piece: 256, or 64 where accumulators are few; a sum of up to twice as many is not
cut."""
_FEW_PIECES = 8
"""Up to so many accumulators leave registers for as many sums of pieces; with more, these spill
once per piece, so pieces are longer."""


def sum_in_pieces(
    tile: StageTile,
    turns: LlvmInteger,
    most: int,
    turn_terms: int,
    values: list[LlvmValue],
    turn: LoopBody,
) -> list[LlvmValue]:
    """Prints `turns` iterations, `most` at most, each of which adds `turn_terms` terms to every
    accumulator."""
    # A piece of one iteration would add an addition per iteration and save none.
    length = max(2, piece_length(tile) // max(1, turn_terms))
    if not tile.sums_floats or most <= 2 * length or not values:
        return tile.writer.loop(0, turns, 1, values, turn)
    writer = tile.writer

    def piece(number: LlvmInteger, totals: list[LlvmValue]) -> list[LlvmValue]:
        begin = writer.multiply(number, length)
        # The last piece may be shorter.
        end = writer.minimum(writer.add(begin, length), turns)
        # A piece starts from zero, and its sums are added to the totals once: the totals are used
        # once per piece and may spill.
        part = writer.loop(begin, end, 1, neutral_accumulators(totals), turn)
        return tile.combined(totals, part)

    count = writer.divide(writer.add(turns, length - 1), length)
    return sum_in_pieces(tile, count, -(-most // length), 1, values, piece)


def piece_length(tile: StageTile) -> int:
    """Terms of a piece, the same for all register tiles of a stage."""
    shape = tile.shape
    sums = shape.rows * shape.vectors * (shape.unroll if tile.lane_reduction else 1)
    return _SHORT_PIECE_TERMS if sums <= _FEW_PIECES else _PIECE_TERMS


def neutral_accumulators(values: list[LlvmValue]) -> list[LlvmValue]:
    """Zeros, as many and of the same types as `values`."""
    return [constant(0.0, value.scalar, value.lanes) for value in values]


StepEmitter: TypeAlias = Callable[[IndexPlaces, list[LlvmValue]], list[LlvmValue]]
"""Prints the step at some places, from and to accumulators."""


def unrolled_loop(
    tile: StageTile,
    inner: LoopIndex,
    width: int,
    places: IndexPlaces,
    values: list[LlvmValue],
    step: StepEmitter,
) -> list[LlvmValue]:
    """Prints whole steps of `width` along `inner`, several per iteration; what is left of the index
    is not covered."""
    inner_range, unroll, writer = tile.ranges[inner], tile.shape.unroll, tile.writer
    count = writer.divide(inner_range.extent, width)
    # Iterations of `unroll` steps first, then single steps.
    whole = writer.divide(count, unroll)
    most = inner_range.largest // (width * unroll)
    turn = partial(_unrolled_steps, tile, inner, width, places, step)
    values = sum_in_pieces(tile, whole, most, unroll, values, turn(unroll))
    if any(remainder >= width for remainder in inner_range.remainders(width * unroll)):
        begin = writer.multiply(whole, unroll)
        values = writer.loop(begin, count, 1, values, turn(1))
    tile.access.forget()
    return values


def _unrolled_steps(
    tile: StageTile,
    inner: LoopIndex,
    width: int,
    places: IndexPlaces,
    step: StepEmitter,
    times: int,
) -> LoopBody:
    """The body of an iteration with so many steps."""
    base = tile.ranges[inner].base

    def turn(at: LlvmInteger, carried: list[LlvmValue]) -> list[LlvmValue]:
        for number in range(times):
            place = base + (linear(at) * times + number) * width
            tile.access.forget()
            # Loads that a step has cached belong to its iteration and must not be reused in the
            # next.
            carried = step({**places, inner: place}, carried)
        return carried

    return turn
