"""A loop along an index in steps of a width, several steps at a turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ..ir import Index
from .linear import linear
from .pieces import Turn, in_pieces
from .spots import Places
from .tiles import Tile
from .values import Value, Whole

Stepping: TypeAlias = Callable[[Places, list[Value]], list[Value]]
"""Folds what is at some places into the registers."""


def unrolled(
    tile: Tile, inner: Index, width: int, places: Places, values: list[Value], step: Stepping
) -> list[Value]:
    """Whole steps, with what they make of the values; what is left of the index is not done."""
    own, some, writer = tile.ranges[inner], tile.shape.unroll, tile.writer
    count = writer.divide(own.extent, width)
    whole = writer.divide(count, some)
    most = own.largest // (width * some)
    turn = partial(_turn, tile, inner, width, places, step)
    values = in_pieces(tile, whole, most, some, values, turn(some))
    if any(rest >= width for rest in own.rests(width * some)):
        begin = writer.multiply(whole, some)
        values = writer.loop(begin, count, 1, values, turn(1))
    tile.access.forget()
    return values


def _turn(tile: Tile, inner: Index, width: int, places: Places, step: Stepping, times: int) -> Turn:
    """So many steps."""
    base = tile.ranges[inner].base

    def turn(at: Whole, carried: list[Value]) -> list[Value]:
        for number in range(times):
            place = base + (linear(at) * times + number) * width
            tile.access.forget()
            carried = step({**places, inner: place}, carried)
        return carried

    return turn
