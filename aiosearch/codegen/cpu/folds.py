"""What the elements of a block come to where a stage folds."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Index, Load
from .codedfolds import CodedFold, coded_product
from .lanefolds import LaneFold
from .linear import linear
from .matrixfolds import MatrixFold
from .registers import Block, Innermost, Take
from .rowfolds import RowFold
from .spots import Places, Spot
from .values import Value, Whole


class FoldPrinter:
    """Loops around the innermost one."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._tile = block.tile
        self._inner = _innermost(block)

    def each(self, take: Take) -> None:
        """Hands on one after the other.

        What was there before is added last: a long sum is one of shorter ones, which is more exact.
        """
        tile = self._tile
        outer = [one for one in tile.stage.folded if one is not tile.shape.inner]
        found = self._outer(outer, self._block.places, self._inner.begun())
        self._inner.ended(found, self._added(take) if tile.adds else take)

    def _added(self, take: Take) -> Take:
        """With what is there already."""
        return lambda spot, value: take(spot, self._tile.joined([self._old(spot)], [value])[0])

    def _outer(self, left: Sequence[Index], places: Places, values: list[Value]) -> list[Value]:
        if not left:
            return self._inner.along(places, values)
        one, *rest = left
        own = self._tile.ranges[one]

        def turn(at: Whole, inner: list[Value]) -> Sequence[Value]:
            return self._outer(rest, {**places, one: own.base + linear(at)}, inner)

        return self._tile.writer.loop(0, own.extent, 1, values, turn)

    def _old(self, spot: Spot) -> Value:
        """What is there already."""
        stage, elements = self._tile.stage, self._tile.elements
        self._tile.access.forget()
        return elements.value(Load(stage.target, stage.at), spot)


def _innermost(block: Block) -> Innermost:
    tile = block.tile
    if tile.lane_folded:
        return LaneFold(block)
    coded = coded_product(tile)
    if coded is not None:
        return CodedFold(block, coded, _innermost)
    if tile.product is not None:
        return MatrixFold(block, tile.product, tile.unit)
    return RowFold(block)
