"""Loops of reductions: unrolled, and in pieces whose sums are added (pairwise summation).

A loop along an index in steps of a width, several steps at a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ...ir import LoopIndex
from ...llvm.builder import LlvmInteger, LlvmValue
from ...llvm.linear import linear
from ..emit.addressing import IndexPlaces
from ..emit.tile import StageTile

LoopBody: TypeAlias = Callable[[LlvmInteger, list[LlvmValue]], list[LlvmValue]]
"""What is done in a turn of a loop, given its number and what the one before it left."""

_PIECE_TERMS, _SHORT_PIECE_TERMS = 256, 64
"""So many terms, and up to twice as many, are added one after the other; the latter where sums are
few."""
_FEW_PIECES = 8
"""So many sums leave registers for as many others."""


def sum_in_pieces(
    tile: StageTile,
    turns: LlvmInteger,
    most: int,
    each: int,
    values: list[LlvmValue],
    turn: LoopBody,
) -> list[LlvmValue]:
    """Runs so many turns, `most` at most, that fold `each` elements into every register.

    A sum that is long is cut, and what its parts come to is too.
    """
    length = max(2, piece_length(tile) // max(1, each))
    if not tile.sums_floats or most <= 2 * length or not values:
        return tile.writer.loop(0, turns, 1, values, turn)
    writer = tile.writer

    def some(number: LlvmInteger, totals: list[LlvmValue]) -> list[LlvmValue]:
        begin = writer.multiply(number, length)
        end = writer.least(writer.add(begin, length), turns)
        part = writer.loop(begin, end, 1, neutral_accumulators(tile, totals), turn)
        return tile.joined(totals, part)

    count = writer.divide(writer.add(turns, length - 1), length)
    return sum_in_pieces(tile, count, -(-most // length), 1, values, some)


def piece_length(tile: StageTile) -> int:
    """How many terms are added before their parts are: as many in all blocks of registers."""
    shape = tile.shape
    sums = shape.rows * shape.vectors * (shape.unroll if tile.lane_folded else 1)
    return _SHORT_PIECE_TERMS if sums <= _FEW_PIECES else _PIECE_TERMS


def neutral_accumulators(tile: StageTile, values: list[LlvmValue]) -> list[LlvmValue]:
    """Sums of nothing, as many as there are of these and of their kind."""
    vectors = tile.elements.arithmetic.vectors
    return [vectors.constant(0.0, one.scalar, one.lanes) for one in values]


pass


StepEmitter: TypeAlias = Callable[[IndexPlaces, list[LlvmValue]], list[LlvmValue]]
"""Folds what is at some places into the registers."""


def unrolled_loop(
    tile: StageTile,
    inner: LoopIndex,
    width: int,
    places: IndexPlaces,
    values: list[LlvmValue],
    step: StepEmitter,
) -> list[LlvmValue]:
    """Whole steps, with what they make of the values; what is left of the index is not done."""
    own, some, writer = tile.ranges[inner], tile.shape.unroll, tile.writer
    count = writer.divide(own.extent, width)
    whole = writer.divide(count, some)
    most = own.largest // (width * some)
    turn = partial(_unrolled_steps, tile, inner, width, places, step)
    values = sum_in_pieces(tile, whole, most, some, values, turn(some))
    if any(rest >= width for rest in own.rests(width * some)):
        begin = writer.multiply(whole, some)
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
    """So many steps."""
    base = tile.ranges[inner].base

    def turn(at: LlvmInteger, carried: list[LlvmValue]) -> list[LlvmValue]:
        for number in range(times):
            place = base + (linear(at) * times + number) * width
            tile.access.forget()
            carried = step({**places, inner: place}, carried)
        return carried

    return turn
