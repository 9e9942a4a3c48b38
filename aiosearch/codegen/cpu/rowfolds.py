"""A fold down the rows: what the lanes read moves on, and each lane has a sum of its own."""

from __future__ import annotations

from functools import partial

from ..ir import Index
from .dots import Pairs, paired, widened
from .linear import linear
from .registers import Block, Take
from .spots import Places
from .starts import Starts
from .steps import Step
from .tiles import Tile
from .unrolling import unrolled
from .values import Value


def product_of_pairs(tile: Tile, inner: Index) -> Pairs | None:
    """What adds up pairs, by the instruction or without it, where they begin at even places."""
    if not tile.ranges[inner].base.divisible(2):
        return None
    given = tile.stage, inner, tile.shape.along, tile.elements
    return (paired(*given) if tile.dots else None) or widened(*given)


class RowFold:
    """One step after the other, or two at once."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._tile = block.tile
        self._step = Step(block)

    def begun(self, starts: Starts | None = None) -> list[Value]:
        return starts.values if starts else [self._tile.neutral()] * self._block.size

    def along(self, places: Places, values: list[Value]) -> list[Value]:
        inner = self._tile.shape.inner
        if inner is None:
            return self._step.taken(places, values)
        dot = product_of_pairs(self._tile, inner)
        if dot is not None:
            return self._pairs(dot, inner, places, values)
        return unrolled(self._tile, inner, 1, places, values, self._step.taken)

    def ended(self, values: list[Value], take: Take) -> None:
        """Each is whole already."""
        self._block.hand_on(values, take)

    def _pairs(self, dot: Pairs, inner: Index, places: Places, values: list[Value]) -> list[Value]:
        """Two at a time; what is left of an odd number is paired with zeros."""

        def step(at: Places, carried: list[Value]) -> list[Value]:
            self._step.fetch(at, pairs=True)
            return dot.step(self._block.spots(at), carried, whole=True)

        values = unrolled(self._tile, inner, 2, places, values, step)
        own, writer = self._tile.ranges[inner], self._tile.writer
        if own.rests(2):
            done = linear(writer.divide(own.extent, 2)) * 2
            spots = self._block.spots({**places, inner: own.base + done})
            odd = writer.below(0, writer.remainder(own.extent, 2))
            values = writer.when(odd, values, partial(dot.step, spots, whole=False))
        return values
