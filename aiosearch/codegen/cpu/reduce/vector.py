"""Reductions in vector registers: down the rows, with a sum in each lane, or along the lanes.

A fold down the rows: what the lanes read moves on, and each lane has a sum of its own.

A fold along the lanes: several vectors a turn, each with a sum of its own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...ir import Apply, BufferLoad, LoopIndex, Operation, used_indices
from ...llvm.builder import LlvmInteger, LlvmValue
from ...llvm.linear import Linear, linear
from ...llvm.memory import Storage, vectors_per_cache_line
from ..emit.addressing import IndexPlaces, LaneAddress, TileRange
from ..emit.expression import ExpressionEmitter, lane_invariant_loads
from ..emit.tile import ElementSink, RegisterTile, StageTile
from .accumulator_init import AccumulatorInit
from .dot import PairwiseProduct, dot_product_of, widened_product_of
from .loops import LoopBody, sum_in_pieces, unrolled_loop


class ReductionStep:
    """The innermost of a fold."""

    def __init__(self, block: RegisterTile) -> None:
        self._block = block
        self._tile = block.tile
        self._arithmetic = block.tile.elements.arithmetic

    def taken(
        self, places: IndexPlaces, values: list[LlvmValue], mask: LlvmValue | None = None
    ) -> list[LlvmValue]:
        """With what is at some places; of lanes that are folded, those of a mask alone."""
        self.fetch(places)
        found = []
        for spot, old in zip(self._block.spots(places), values, strict=True):
            own = spot if mask is None else replace(spot, mask=mask)
            elements = self._elements(own)
            found.append(self._multiplied(elements, old, own) or self._folded(elements, old, own))
        return found

    def _elements(self, spot: LaneAddress) -> ExpressionEmitter:
        """What computes the fold's value there, where that begins with another stage's."""
        elements, beginning = self._tile.elements, self._tile.beginning
        return elements if beginning is None else beginning.made(elements, spot)

    def fetch(self, places: IndexPlaces, pairs: bool = False) -> None:
        """Has vectors of a later turn brought near, line by line; of two rows if they lie apart."""
        tile, shape = self._tile, self._tile.shape
        if not shape.ahead or shape.inner is None or tile.lane_folded or shape.along is None:
            return
        later = self._further(places, shape.along, shape.inner)
        below = {**later, shape.inner: later[shape.inner] + 1}
        for load in tile.stage.loads:
            if {shape.along, shape.inner} <= set(used_indices(load)):
                lies = isinstance(tile.access.storages[load.buffer], Storage)
                step = vectors_per_cache_line(tile.lanes, load.buffer.dtype) if lies else 1
                for row in (later, below) if pairs and lies else (later,):
                    self._fetch(load, row, step)

    def _further(self, places: IndexPlaces, along: LoopIndex, inner: LoopIndex) -> IndexPlaces:
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

    def _fetch(self, load: BufferLoad, places: IndexPlaces, step: int) -> None:
        tile, shape = self._tile, self._tile.shape
        assert shape.along is not None, "lanes lie along it"
        for vector in range(0, self._block.vectors, step):
            spot = LaneAddress({**places, shape.along: places[shape.along] + vector * tile.lanes})
            tile.access.fetch(load, spot, shape.nearest)

    def _multiplied(
        self, elements: ExpressionEmitter, old: LlvmValue, spot: LaneAddress
    ) -> LlvmValue | None:
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

    def _folded(self, elements: ExpressionEmitter, old: LlvmValue, spot: LaneAddress) -> LlvmValue:
        tile, arithmetic = self._tile, self._arithmetic
        new = arithmetic.convert(elements.value(tile.stage.value, spot), old.scalar)
        new = arithmetic.vectors.spread(new, old.lanes)
        if spot.mask is not None and tile.lane_folded:
            new = arithmetic.vectors.choose(spot.mask, new, tile.neutral())
        return arithmetic.apply(tile.stage.fold.operation, [old, new])


pass


def product_of_pairs(tile: StageTile, inner: LoopIndex) -> PairwiseProduct | None:
    """What adds up pairs, by the instruction or without it, where they begin at even places."""
    if not tile.ranges[inner].base.divisible(2):
        return None
    given = tile.stage, inner, tile.shape.along, tile.elements
    return (dot_product_of(*given) if tile.dots else None) or widened_product_of(*given)


class RowReduction:
    """One step after the other, or two at once."""

    def __init__(self, block: RegisterTile) -> None:
        self._block = block
        self._tile = block.tile
        self._step = ReductionStep(block)

    def begun(self, starts: AccumulatorInit | None = None) -> list[LlvmValue]:
        return starts.values if starts else [self._tile.neutral()] * self._block.size

    def along(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        inner = self._tile.shape.inner
        if inner is None:
            return self._step.taken(places, values)
        dot = product_of_pairs(self._tile, inner)
        if dot is not None:
            return self._pairs(dot, inner, places, values)
        return unrolled_loop(self._tile, inner, 1, places, values, self._step.taken)

    def ended(self, values: list[LlvmValue], take: ElementSink) -> None:
        """Each is whole already."""
        self._block.hand_on(values, take)

    def _pairs(
        self, dot: PairwiseProduct, inner: LoopIndex, places: IndexPlaces, values: list[LlvmValue]
    ) -> list[LlvmValue]:
        """Two at a time; what is left of an odd number is paired with zeros."""

        def step(at: IndexPlaces, carried: list[LlvmValue]) -> list[LlvmValue]:
            self._step.fetch(at, pairs=True)
            return dot.step(self._block.spots(at), carried, whole=True)

        values = unrolled_loop(self._tile, inner, 2, places, values, step)
        own, writer = self._tile.ranges[inner], self._tile.writer
        if own.rests(2):
            done = linear(writer.divide(own.extent, 2)) * 2
            spots = self._block.spots({**places, inner: own.base + done})
            odd = writer.below(0, writer.remainder(own.extent, 2))
            values = writer.when(odd, values, partial(dot.step, spots, whole=False))
        return values


pass


class LaneReduction:
    """Chains of sums side by side, as one alone is slow to add up."""

    def __init__(self, block: RegisterTile) -> None:
        self._block = block
        self._tile = block.tile
        self._step = ReductionStep(block)
        self._chains = block.tile.shape.unroll

    def begun(self, starts: AccumulatorInit | None = None) -> list[LlvmValue]:
        assert starts is None, "only products of pairs have some"
        return [self._tile.neutral()] * (self._block.size * self._chains)

    def along(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        """What lanes share of what it begins with is read before."""
        beginning = self._tile.beginning
        held = lane_invariant_loads(beginning.stage, self._index) if beginning else []
        with self._tile.access.holding(held, LaneAddress(places)):
            return self._vectors(places, values)

    def ended(self, values: list[LlvmValue], take: ElementSink) -> None:
        """Chains and lanes come to one element for each register."""
        tile, many = self._tile, self._block.size
        found = values[:many]
        for begin in range(many, len(values), many):
            found = tile.joined(found, values[begin : begin + many])
        across = tile.elements.arithmetic.vectors.across
        self._block.hand_on([across(one, tile.stage.fold) for one in found], take)

    @property
    def _index(self) -> LoopIndex:
        along = self._tile.shape.along
        assert along is not None
        return along

    @property
    def _range(self) -> TileRange:
        return self._tile.ranges[self._index]

    def _vectors(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        """As many at once as there are chains, single ones, and the lanes left over."""
        tile, own, chains = self._tile, self._range, self._chains
        writer, lanes = tile.writer, tile.lanes
        count = writer.divide(own.extent, lanes)
        whole = writer.divide(count, chains)
        most = own.largest // (lanes * chains)
        values = sum_in_pieces(tile, whole, most, 1, values, self._turn(places, chains))
        if any(rest >= lanes for rest in own.rests(lanes * chains)):
            begin = writer.multiply(whole, chains)
            values = writer.loop(begin, count, 1, values, self._turn(places, 1))
        if own.rests(lanes):
            values = self._last_lanes(places, values, count)
        return values

    def _turn(self, places: IndexPlaces, vectors: int) -> LoopBody:
        """So many vectors, each for another chain."""

        def turn(at: LlvmInteger, carried: list[LlvmValue]) -> list[LlvmValue]:
            found, many = list(carried), self._block.size
            for number in range(vectors):
                part = slice(number * many, (number + 1) * many)
                place = linear(at) * vectors + number
                found[part] = self._vector(place, places, found[part])
            return found

        return turn

    def _last_lanes(
        self, places: IndexPlaces, values: list[LlvmValue], whole: LlvmInteger
    ) -> list[LlvmValue]:
        """Behind so many whole vectors; the first chain takes them."""
        writer, lanes, many = self._tile.writer, self._tile.lanes, self._block.size
        left = writer.remainder(self._range.extent, lanes)

        def some(carried: list[LlvmValue]) -> list[LlvmValue]:
            mask = self._tile.elements.arithmetic.vectors.first(left, lanes)
            first = self._vector(linear(whole), places, carried[:many], mask)
            return [*first, *carried[many:]]

        return writer.when(writer.below(0, left), values, some)

    def _vector(
        self,
        number: Linear,
        places: IndexPlaces,
        values: list[LlvmValue],
        mask: LlvmValue | None = None,
    ) -> list[LlvmValue]:
        self._tile.access.forget()
        place = self._range.base + number * self._tile.lanes
        return self._step.taken({**places, self._index: place}, values, mask)
