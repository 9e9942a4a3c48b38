"""What the elements of a block come to where a stage folds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir import Index, Load
from .codedfolds import CodedFold, coded_product
from .lanefolds import LaneFold
from .linear import linear
from .matrixfolds import MatrixFold
from .pieces import in_pieces, piece, zeros
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
        plainly = isinstance(self._inner, RowFold | LaneFold)
        self._plain = plainly and self._tile.sums_floats

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
        tile, own, terms = self._tile, self._tile.ranges[one], self._terms(rest)

        def turn(at: Whole, totals: list[Value]) -> list[Value]:
            there = {**places, one: own.base + linear(at)}
            if terms < piece(tile):
                return self._outer(rest, there, totals)
            part = self._outer(rest, there, zeros(tile, totals))
            return tile.joined(totals, part)

        if not self._plain:
            return tile.writer.loop(0, own.extent, 1, values, turn)
        each = terms if terms < piece(tile) else 1
        return in_pieces(tile, own.extent, own.largest, each, values, turn)

    def _terms(self, left: Sequence[Index]) -> int:
        """How many there are along these and the innermost one; none where no sums are cut."""
        inner = self._tile.shape.inner
        along = [*left, inner] if inner else left
        return math.prod(self._tile.ranges[one].largest for one in along) if self._plain else 0

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
