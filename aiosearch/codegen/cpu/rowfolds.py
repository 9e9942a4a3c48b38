"""A fold down the rows: what the lanes read moves on, and each lane has a sum of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ..ir import Index
from .dots import Dot, paired
from .linear import linear
from .pieces import Turn, in_pieces
from .registers import Block
from .spots import Places
from .steps import Step
from .values import Value, Whole

Stepping: TypeAlias = Callable[[Places, list[Value]], list[Value]]
"""Folds what is at some places into the registers."""


class RowFold:
    """One step after the other, or two by one instruction."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._tile = block.tile
        self._step = Step(block)
        self.registers = block.size

    def along(self, places: Places, values: list[Value]) -> list[Value]:
        inner = self._tile.shape.inner
        if inner is None:
            return self._step.taken(places, values)
        dot = self._dot(inner)
        if dot is not None:
            return self._pairs(dot, inner, places, values)
        return self._unrolled(inner, 1, places, values, self._step.taken)

    def ended(self, values: list[Value]) -> list[Value]:
        """Each is whole already."""
        return values

    def _dot(self, inner: Index) -> Dot | None:
        """What adds up pairs, where the machine has that and they begin at even places."""
        tile = self._tile
        if not tile.dots or not tile.ranges[inner].base.divisible(2):
            return None
        return paired(tile.stage, inner, tile.shape.along, tile.access)

    def _pairs(self, dot: Dot, inner: Index, places: Places, values: list[Value]) -> list[Value]:
        """Two at a time; what is left of an odd number is paired with zeros."""

        def step(at: Places, carried: list[Value]) -> list[Value]:
            self._step.fetch(at)
            return dot.step(self._block.spots(at), carried, whole=True)

        values = self._unrolled(inner, 2, places, values, step)
        own, writer = self._tile.ranges[inner], self._tile.writer
        if own.rests(2):
            done = linear(writer.divide(own.extent, 2)) * 2
            spots = self._block.spots({**places, inner: own.base + done})
            odd = writer.below(0, writer.remainder(own.extent, 2))
            values = writer.when(odd, values, partial(dot.step, spots, whole=False))
        return values

    def _unrolled(
        self, inner: Index, width: int, places: Places, values: list[Value], step: Stepping
    ) -> list[Value]:
        """Steps of `width` along an index, several at a turn; what is left is not done."""
        tile, own, some = self._tile, self._tile.ranges[inner], self._tile.shape.unroll
        writer = tile.writer
        count = writer.divide(own.extent, width)
        whole = writer.divide(count, some)
        most = own.largest // (width * some)
        turn = partial(self._turn, inner, width, places, step)
        values = in_pieces(tile, whole, most, some, values, turn(some))
        if own.rests(width * some):
            begin = writer.multiply(whole, some)
            values = writer.loop(begin, count, 1, values, turn(1))
        tile.access.forget()
        return values

    def _turn(self, inner: Index, width: int, places: Places, step: Stepping, times: int) -> Turn:
        """So many steps."""
        base = self._tile.ranges[inner].base

        def turn(at: Whole, carried: list[Value]) -> list[Value]:
            for number in range(times):
                place = base + (linear(at) * times + number) * width
                self._tile.access.forget()
                carried = step({**places, inner: place}, carried)
            return carried

        return turn
