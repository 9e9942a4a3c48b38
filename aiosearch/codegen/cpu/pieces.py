"""Long sums as sums of shorter ones, which are more exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .tiles import Tile
from .values import Value, Whole

Turn: TypeAlias = Callable[[Whole, list[Value]], list[Value]]
"""What is done in a turn of a loop, given its number and what the one before it left."""

_PIECE, _SHORT = 256, 64
"""So many terms, and up to twice as many, are added one after the other; the latter where sums are
few."""
_FEW = 8
"""So many sums leave registers for as many others."""


def in_pieces(
    tile: Tile, turns: Whole, most: int, each: int, values: list[Value], turn: Turn
) -> list[Value]:
    """Runs so many turns, `most` at most, that fold `each` elements into every register.

    A sum that is long is cut, and what its parts come to is too.
    """
    length = max(2, piece(tile) // max(1, each))
    if not tile.sums_floats or most <= 2 * length or not values:
        return tile.writer.loop(0, turns, 1, values, turn)
    writer = tile.writer

    def some(number: Whole, totals: list[Value]) -> list[Value]:
        begin = writer.multiply(number, length)
        end = writer.least(writer.add(begin, length), turns)
        part = writer.loop(begin, end, 1, zeros(tile, totals), turn)
        return tile.joined(totals, part)

    count = writer.divide(writer.add(turns, length - 1), length)
    return in_pieces(tile, count, -(-most // length), 1, values, some)


def piece(tile: Tile) -> int:
    """How many terms are added before their parts are: as many in all blocks of registers."""
    shape = tile.shape
    sums = shape.rows * shape.vectors * (shape.unroll if tile.lane_folded else 1)
    return _SHORT if sums <= _FEW else _PIECE


def zeros(tile: Tile, values: list[Value]) -> list[Value]:
    """Sums of nothing, as many as there are of these and of their kind."""
    vectors = tile.elements.arithmetic.vectors
    return [vectors.constant(0.0, one.scalar, one.lanes) for one in values]
