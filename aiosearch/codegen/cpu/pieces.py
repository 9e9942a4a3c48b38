"""Long sums as sums of shorter ones, which are more exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from .tiles import Tile
from .values import Value, Whole

Turn: TypeAlias = Callable[[Whole, list[Value]], list[Value]]
"""What is done in a turn of a loop, given its number and what the one before it left."""

_PIECE = 256
"""So many terms, and up to twice as many, are added one after the other."""
_FEW = 8
"""So many sums leave room for as many others."""


def in_pieces(
    tile: Tile, turns: Whole, most: int, each: int, values: list[Value], turn: Turn
) -> list[Value]:
    """Runs so many turns, `most` at most, that fold `each` elements into every register.

    A sum that is long is cut, where there are registers for the sums and their parts.
    """
    piece = max(1, _PIECE // each)
    if not tile.sums_floats or most <= 2 * piece or not 0 < len(values) <= _FEW:
        return tile.writer.loop(0, turns, 1, values, turn)
    writer = tile.writer
    zero = tile.elements.arithmetic.vectors.constant(0.0, values[0].scalar, values[0].lanes)

    def some(number: Whole, totals: list[Value]) -> Sequence[Value]:
        begin = writer.multiply(number, piece)
        end = writer.least(writer.add(begin, piece), turns)
        part = writer.loop(begin, end, 1, [zero] * len(totals), turn)
        return tile.joined(totals, part)

    count = writer.divide(writer.add(turns, piece - 1), piece)
    return writer.loop(0, count, 1, values, some)
