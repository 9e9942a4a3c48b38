"""What the elements of a block come to where a stage folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..ir import Index, Load
from .lanefolds import LaneFold
from .linear import linear
from .registers import Block
from .rowfolds import RowFold
from .spots import Places
from .values import Value, Whole


class Innermost(Protocol):
    """A fold along the index that runs innermost."""

    registers: int
    """How many parts of sums it goes on with."""

    def along(self, places: Places, values: list[Value]) -> list[Value]:
        """The parts, with all elements of the index."""

    def ended(self, values: list[Value]) -> list[Value]:
        """The parts of each element, joined."""


class FoldPrinter:
    """Loops around the innermost one."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._tile = block.tile
        self._inner: Innermost = LaneFold(block) if block.tile.lane_folded else RowFold(block)

    def values(self) -> list[Value]:
        """One for each register of the block.

        What was there before is added last: a long sum is one of shorter ones, which is more exact.
        """
        tile = self._tile
        outer = [one for one in tile.stage.folded if one is not tile.shape.inner]
        begun = [tile.neutral()] * self._inner.registers
        found = self._inner.ended(self._outer(outer, self._block.places, begun))
        return tile.joined(self._old(), found) if tile.adds else found

    def _outer(self, left: Sequence[Index], places: Places, values: list[Value]) -> list[Value]:
        if not left:
            return self._inner.along(places, values)
        one, *rest = left
        own = self._tile.ranges[one]

        def turn(at: Whole, inner: list[Value]) -> Sequence[Value]:
            return self._outer(rest, {**places, one: own.base + linear(at)}, inner)

        return self._tile.writer.loop(0, own.extent, 1, values, turn)

    def _old(self) -> list[Value]:
        """What is there already."""
        stage, elements = self._tile.stage, self._tile.elements
        self._tile.access.forget()
        load = Load(stage.target, stage.at)
        return [elements.value(load, spot) for spot in self._block.targets()]
