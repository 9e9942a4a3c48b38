"""One more element folded into each register of a block."""

from __future__ import annotations

from dataclasses import replace

from ..ir import Apply, Index, Load, Operation, used
from .elements import Elements
from .linear import linear
from .memory import Storage, in_a_line
from .registers import Block
from .spots import Places, Spot
from .values import Value


class Step:
    """The innermost of a fold."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._tile = block.tile
        self._arithmetic = block.tile.elements.arithmetic

    def taken(self, places: Places, values: list[Value], mask: Value | None = None) -> list[Value]:
        """With what is at some places; of lanes that are folded, those of a mask alone."""
        self.fetch(places)
        found = []
        for spot, old in zip(self._block.spots(places), values, strict=True):
            own = spot if mask is None else replace(spot, mask=mask)
            elements = self._elements(own)
            found.append(self._multiplied(elements, old, own) or self._folded(elements, old, own))
        return found

    def _elements(self, spot: Spot) -> Elements:
        """What computes the fold's value there, where that begins with another stage's."""
        elements, beginning = self._tile.elements, self._tile.beginning
        return elements if beginning is None else beginning.made(elements, spot)

    def fetch(self, places: Places, pairs: bool = False) -> None:
        """Has vectors of a later turn brought near, line by line; of two rows if they lie apart."""
        tile, shape = self._tile, self._tile.shape
        if not shape.ahead or shape.inner is None or tile.lane_folded or shape.along is None:
            return
        later = self._further(places, shape.along, shape.inner)
        below = {**later, shape.inner: later[shape.inner] + 1}
        for load in tile.stage.loads:
            if {shape.along, shape.inner} <= set(used(load)):
                lies = isinstance(tile.access.storages[load.buffer], Storage)
                step = in_a_line(tile.lanes, load.buffer.dtype) if lies else 1
                for row in (later, below) if pairs and lies else (later,):
                    self._fetch(load, row, step)

    def _further(self, places: Places, along: Index, inner: Index) -> Places:
        """Where a later turn is: down the rows, or along them and then down, behind their end."""
        tile, shape = self._tile, self._tile.shape
        if not shape.across:
            return {**places, inner: places[inner] + shape.ahead * 2}
        writer, own, down = tile.writer, tile.ranges[along], tile.ranges[inner].largest
        on = min(shape.ahead * shape.vectors * tile.lanes, own.largest)
        there = (places[along] - own.base).whole(writer)
        goes_on = writer.below(writer.add(there, on), own.extent)
        turned = writer.subtract(on, own.extent)
        return {
            **places,
            along: places[along] + linear(writer.either(goes_on, on, turned)),
            inner: places[inner] + linear(writer.either(goes_on, 0, down)),
        }

    def _fetch(self, load: Load, places: Places, step: int) -> None:
        tile, shape = self._tile, self._tile.shape
        assert shape.along is not None, "lanes lie along it"
        for vector in range(0, self._block.vectors, step):
            spot = Spot({**places, shape.along: places[shape.along] + vector * tile.lanes})
            tile.access.fetch(load, spot, shape.nearest)

    def _multiplied(self, elements: Elements, old: Value, spot: Spot) -> Value | None:
        """A product added to a sum of floats in one instruction, where it is one.

        Also in lanes of which some do not count, so that equal columns have equal sums wherever
        they are; but not where such lanes would be folded with the rest.
        """
        apart = spot.mask is not None and self._tile.lane_folded
        if apart or not self._tile.sums_floats:
            return None
        match self._tile.stage.value:
            case Apply(operation=Operation.MULTIPLY, arguments=arguments):
                factors = [elements.value(one, spot) for one in arguments]
                if old.scalar == "float" and any(one.scalar == "double" for one in factors):
                    return None
                return self._arithmetic.multiplied(old, factors)
        return None

    def _folded(self, elements: Elements, old: Value, spot: Spot) -> Value:
        tile, arithmetic = self._tile, self._arithmetic
        new = arithmetic.convert(elements.value(tile.stage.value, spot), old.scalar)
        new = arithmetic.vectors.spread(new, old.lanes)
        if spot.mask is not None and tile.lane_folded:
            new = arithmetic.vectors.choose(spot.mask, new, tile.neutral())
        return arithmetic.apply(tile.stage.fold.operation, [old, new])
