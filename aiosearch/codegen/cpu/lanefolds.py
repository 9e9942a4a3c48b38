"""A fold along the lanes: several vectors a turn, each with a sum of its own."""

from __future__ import annotations

from ..ir import Index
from .elements import shared
from .linear import Linear, linear
from .pieces import Turn, in_pieces
from .ranges import Range
from .registers import Block, Take
from .spots import Places, Spot
from .starts import Starts
from .steps import Step
from .values import Value, Whole


class LaneFold:
    """Chains of sums side by side, as one alone is slow to add up."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._tile = block.tile
        self._step = Step(block)
        self._chains = block.tile.shape.unroll

    def begun(self, starts: Starts | None = None) -> list[Value]:
        assert starts is None, "only products of pairs have some"
        return [self._tile.neutral()] * (self._block.size * self._chains)

    def along(self, places: Places, values: list[Value]) -> list[Value]:
        """What lanes share of what it begins with is read before."""
        beginning = self._tile.beginning
        held = shared(beginning.stage, self._index) if beginning else []
        with self._tile.access.holding(held, Spot(places)):
            return self._vectors(places, values)

    def ended(self, values: list[Value], take: Take) -> None:
        """Chains and lanes come to one element for each register."""
        tile, many = self._tile, self._block.size
        found = values[:many]
        for begin in range(many, len(values), many):
            found = tile.joined(found, values[begin : begin + many])
        across = tile.elements.arithmetic.vectors.across
        self._block.hand_on([across(one, tile.stage.fold) for one in found], take)

    @property
    def _index(self) -> Index:
        along = self._tile.shape.along
        assert along is not None
        return along

    @property
    def _range(self) -> Range:
        return self._tile.ranges[self._index]

    def _vectors(self, places: Places, values: list[Value]) -> list[Value]:
        """As many at once as there are chains, single ones, and the lanes left over."""
        tile, own, chains = self._tile, self._range, self._chains
        writer, lanes = tile.writer, tile.lanes
        count = writer.divide(own.extent, lanes)
        whole = writer.divide(count, chains)
        most = own.largest // (lanes * chains)
        values = in_pieces(tile, whole, most, 1, values, self._turn(places, chains))
        if any(rest >= lanes for rest in own.rests(lanes * chains)):
            begin = writer.multiply(whole, chains)
            values = writer.loop(begin, count, 1, values, self._turn(places, 1))
        if own.rests(lanes):
            values = self._last_lanes(places, values, count)
        return values

    def _turn(self, places: Places, vectors: int) -> Turn:
        """So many vectors, each for another chain."""

        def turn(at: Whole, carried: list[Value]) -> list[Value]:
            found, many = list(carried), self._block.size
            for number in range(vectors):
                part = slice(number * many, (number + 1) * many)
                place = linear(at) * vectors + number
                found[part] = self._vector(place, places, found[part])
            return found

        return turn

    def _last_lanes(self, places: Places, values: list[Value], whole: Whole) -> list[Value]:
        """Behind so many whole vectors; the first chain takes them."""
        writer, lanes, many = self._tile.writer, self._tile.lanes, self._block.size
        left = writer.remainder(self._range.extent, lanes)

        def some(carried: list[Value]) -> list[Value]:
            mask = self._tile.elements.arithmetic.vectors.first(left, lanes)
            first = self._vector(linear(whole), places, carried[:many], mask)
            return [*first, *carried[many:]]

        return writer.when(writer.below(0, left), values, some)

    def _vector(
        self, number: Linear, places: Places, values: list[Value], mask: Value | None = None
    ) -> list[Value]:
        self._tile.access.forget()
        place = self._range.base + number * self._tile.lanes
        return self._step.taken({**places, self._index: place}, values, mask)
