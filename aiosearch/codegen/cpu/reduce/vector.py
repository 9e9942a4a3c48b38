"""Reductions in vector registers: down the rows, with a sum in each lane, or along the lanes.

`RowReduction` vectorises a free index. Each step loads one vector of the varying operand per column
of the register tile, broadcasts one element per row, and updates every accumulator; each lane is a
result of its own. `LaneReduction` vectorises the reduced index: each accumulator holds one partial
result per lane, and the lanes are combined at the end. It needs no gathers where both operands are
contiguous along the reduced index, but combining takes longer than the loop where that is short.

Example: `out[i, j] = sum over k of X[i, k] * W[k, j]`, 2 rows by 2 vectors of 16 lanes, is a
`RowReduction`. Step k loads W[k, 0:16] and W[k, 16:32], broadcasts X[0, k] and X[1, k], and issues
4 multiply-adds into 4 accumulators, which are 64 results. `out[i] = sum over k of X[i, k]` with
k=100 is a `LaneReduction`: 6 full vectors, a masked one of 4 lanes, and a tree of additions over 16
lanes.

Invariants: FMA latency is hidden by accumulators that do not depend on each other, which are the
register tile's or, in a `LaneReduction`, `RegisterShape.unroll` chains of each sum. Sums of floats
are cut into pieces (`loops.sum_in_pieces`). Equal columns of an operand give equal results whether
they are in a full vector or a masked one, as both use multiply-add.

Cost: a step of r rows by v vectors issues r * v multiply-adds and r + v loads.
`docs/why/kernels.md` explains where either is chosen.
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
    """Prints one step of the innermost loop."""

    def __init__(self, block: RegisterTile) -> None:
        self._register_tile = block
        self._tile = block.tile
        self._arithmetic = block.tile.elements.arithmetic

    def accumulate(
        self, places: IndexPlaces, values: list[LlvmValue], mask: LlvmValue | None = None
    ) -> list[LlvmValue]:
        """The accumulators after the step at `places`; with a `mask`, only its lanes are added to
        lane sums."""
        self.fetch(places)
        accumulators = []
        for spot, old in zip(self._register_tile.spots(places), values, strict=True):
            lane_spot = spot if mask is None else replace(spot, mask=mask)
            elements = self._elements(lane_spot)
            accumulators.append(
                self._multiplied(elements, old, lane_spot) or self._folded(elements, old, lane_spot)
            )
        return accumulators

    def _elements(self, spot: LaneAddress) -> ExpressionEmitter:
        """The emitter of the reduced value, which takes elements of a fused `Prologue` from
        registers."""
        elements, beginning = self._tile.elements, self._tile.prologue
        return elements if beginning is None else beginning.computed(elements, spot)

    def fetch(self, places: IndexPlaces, pairs: bool = False) -> None:
        """Prefetches vectors of a later step, one per cache line; those of two rows if `pairs` and
        rows are apart in memory."""
        tile, shape = self._tile, self._tile.shape
        if (
            not shape.prefetch_distance
            or shape.inner is None
            or tile.lane_reduction
            or shape.along is None
        ):
            return
        later = self._prefetch_places(places, shape.along, shape.inner)
        below = {**later, shape.inner: later[shape.inner] + 1}
        for load in tile.stage.loads:
            if {shape.along, shape.inner} <= set(used_indices(load)):
                lies = isinstance(tile.access.storages[load.buffer], Storage)
                step = vectors_per_cache_line(tile.lanes, load.buffer.dtype) if lies else 1
                for row in (later, below) if pairs and lies else (later,):
                    self._fetch(load, row, step)

    def _prefetch_places(
        self, places: IndexPlaces, along: LoopIndex, inner: LoopIndex
    ) -> IndexPlaces:
        """Where the prefetched step is: further down the rows, or along them and, behind their end,
        in the next serial tile."""
        tile, shape = self._tile, self._tile.shape
        if not shape.prefetch_along_lanes:
            return {**places, inner: places[inner] + shape.prefetch_distance * 2}
        writer, lane_range, down = tile.writer, tile.ranges[along], tile.ranges[inner].largest
        on = min(shape.prefetch_distance * shape.vectors * tile.lanes, lane_range.largest)
        # The prefetch wraps around at the end of the tile's row, computed by two selects: a branch
        # would be taken once per row, and mispredicted each time.
        there = (places[along] - lane_range.base).evaluate(writer)
        # While the tile's row has that many elements left, the prefetch stays in it.
        goes_on = writer.below(writer.add(there, on), lane_range.extent)
        turned = writer.subtract(on, lane_range.extent)
        return {
            **places,
            along: places[along] + linear(writer.select(goes_on, on, turned)),
            inner: places[inner] + linear(writer.select(goes_on, 0, down)),
        }

    def _fetch(self, load: BufferLoad, places: IndexPlaces, step: int) -> None:
        """Prefetches the lines of one load."""
        tile, shape = self._tile, self._tile.shape
        assert shape.along is not None, "lanes lie along it"
        for vector in range(0, self._register_tile.vectors, step):
            spot = LaneAddress({**places, shape.along: places[shape.along] + vector * tile.lanes})
            tile.access.fetch(load, spot, shape.prefetch_to_l1)

    def _multiplied(
        self, elements: ExpressionEmitter, old: LlvmValue, spot: LaneAddress
    ) -> LlvmValue | None:
        """A product added to a float accumulator by one multiply-add; `None` where the value is no
        product.

        Masked lanes of a free index are computed so as well, so that equal columns have equal sums;
        masked lanes of the reduced index are not, as they must add nothing.
        """
        # A masked lane loads zero, and zero times an infinite factor that all lanes share is NaN,
        # which would reach the sum.
        apart = spot.mask is not None and self._tile.lane_reduction
        if apart or not self._tile.sums_floats:
            return None
        match self._tile.stage.value:
            case Apply(operation=Operation.MULTIPLY, arguments=arguments):
                factors = [elements.value(argument, spot) for argument in arguments]
                # An f64 factor has to be rounded as a product, not as a factor.
                if old.scalar == "float" and any(factor.scalar == "double" for factor in factors):
                    return None
                return self._arithmetic.multiplied(old, factors)
        return None

    def _folded(self, elements: ExpressionEmitter, old: LlvmValue, spot: LaneAddress) -> LlvmValue:
        """The value combined with the accumulator by the reduction's operation."""
        tile, arithmetic = self._tile, self._arithmetic
        new = arithmetic.convert(elements.value(tile.stage.value, spot), old.scalar)
        new = arithmetic.vectors.broadcast(new, old.lanes)
        if spot.mask is not None and tile.lane_reduction:
            # Masked lanes get the neutral element: 0 for a sum, the least number for a maximum.
            new = arithmetic.vectors.select(spot.mask, new, tile.neutral())
        return arithmetic.apply(tile.stage.reduction.operation, [old, new])


def product_of_pairs(tile: StageTile, inner: LoopIndex) -> PairwiseProduct | None:
    """The product of 16-bit pairs that a reduction consists of, by dot instruction or widened;
    `None` if it is none or its pairs begin at odd rows."""
    if not tile.ranges[inner].base.divisible(2):
        return None
    arguments = tile.stage, inner, tile.shape.along, tile.elements
    # The instruction comes first: it does the work of two multiply-adds and of widening.
    return (dot_product_of(*arguments) if tile.dots else None) or widened_product_of(*arguments)


class RowReduction:
    """A reduction with a sum in each lane, one row per step, or two where rows are in pairs."""

    def __init__(self, block: RegisterTile) -> None:
        self._register_tile = block
        self._tile = block.tile
        self._step = ReductionStep(block)

    def initial_values(self, starts: AccumulatorInit | None = None) -> list[LlvmValue]:
        """The values of `starts`, else zeros: one per register."""
        return starts.values if starts else [self._tile.neutral()] * self._register_tile.size

    def accumulate(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        """Prints the loop over the innermost index."""
        inner = self._tile.shape.inner
        if inner is None:
            return self._step.accumulate(places, values)
        # Two rows per step wherever rows are in pairs, by instruction or widened.
        dot = product_of_pairs(self._tile, inner)
        if dot is not None:
            return self._pairs(dot, inner, places, values)
        return unrolled_loop(self._tile, inner, 1, places, values, self._step.accumulate)

    def finish(self, values: list[LlvmValue], take: ElementSink) -> None:
        """Hands on the accumulators, each of which is a vector of results."""
        self._register_tile.hand_on(values, take)

    def _pairs(
        self, dot: PairwiseProduct, inner: LoopIndex, places: IndexPlaces, values: list[LlvmValue]
    ) -> list[LlvmValue]:
        """Prints the loop over pairs of rows, and the last row of an odd number paired with
        zeros."""

        def step(at: IndexPlaces, carried: list[LlvmValue]) -> list[LlvmValue]:
            self._step.fetch(at, pairs=True)
            return dot.step(self._register_tile.spots(at), carried, whole=True)

        values = unrolled_loop(self._tile, inner, 2, places, values, step)
        inner_range, writer = self._tile.ranges[inner], self._tile.writer
        if inner_range.remainders(2):
            done = linear(writer.divide(inner_range.extent, 2)) * 2
            spots = self._register_tile.spots({**places, inner: inner_range.base + done})
            odd = writer.below(0, writer.remainder(inner_range.extent, 2))
            values = writer.when(odd, values, partial(dot.step, spots, whole=False))
        return values


class LaneReduction:
    """A reduction with partial sums in the lanes, in several independent chains to hide FMA
    latency."""

    def __init__(self, block: RegisterTile) -> None:
        self._register_tile = block
        self._tile = block.tile
        self._step = ReductionStep(block)
        self._chains = block.tile.shape.unroll

    def initial_values(self, starts: AccumulatorInit | None = None) -> list[LlvmValue]:
        """Neutral elements, one per register and chain."""
        assert starts is None, "only products of pairs have some"
        return [self._tile.neutral()] * (self._register_tile.size * self._chains)

    def accumulate(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        """Prints the loop, with what all lanes share in a `Prologue` loaded before."""
        beginning = self._tile.prologue
        held = lane_invariant_loads(beginning.stage, self._index) if beginning else []
        with self._tile.access.hoisting(held, LaneAddress(places)):
            return self._vectors(places, values)

    def finish(self, values: list[LlvmValue], take: ElementSink) -> None:
        """Combines chains, then lanes, to one result per register."""
        tile, many = self._tile, self._register_tile.size
        totals = values[:many]
        for begin in range(many, len(values), many):
            totals = tile.combined(totals, values[begin : begin + many])
        across = tile.elements.arithmetic.vectors.reduced_lanes
        self._register_tile.hand_on([across(total, tile.stage.reduction) for total in totals], take)

    @property
    def _index(self) -> LoopIndex:
        """The vectorised, reduced index."""
        along = self._tile.shape.along
        assert along is not None
        return along

    @property
    def _range(self) -> TileRange:
        """The range of the reduced index."""
        return self._tile.ranges[self._index]

    def _vectors(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        """Prints iterations of one vector per chain, single vectors, and a masked one."""
        tile, lane_range, chains = self._tile, self._range, self._chains
        writer, lanes = tile.writer, tile.lanes
        count = writer.divide(lane_range.extent, lanes)
        whole = writer.divide(count, chains)
        most = lane_range.largest // (lanes * chains)
        # The chains are pieces already, of a sum each; long ones are cut as well.
        values = sum_in_pieces(tile, whole, most, 1, values, self._turn(places, chains))
        if any(remainder >= lanes for remainder in lane_range.remainders(lanes * chains)):
            begin = writer.multiply(whole, chains)
            values = writer.loop(begin, count, 1, values, self._turn(places, 1))
        if lane_range.remainders(lanes):
            values = self._last_lanes(places, values, count)
        return values

    def _turn(self, places: IndexPlaces, vectors: int) -> LoopBody:
        """The body of an iteration with so many vectors, each for its own chain."""

        def turn(at: LlvmInteger, carried: list[LlvmValue]) -> list[LlvmValue]:
            accumulators, many = list(carried), self._register_tile.size
            for number in range(vectors):
                part = slice(number * many, (number + 1) * many)
                place = linear(at) * vectors + number
                accumulators[part] = self._vector(place, places, accumulators[part])
            return accumulators

        return turn

    def _last_lanes(
        self, places: IndexPlaces, values: list[LlvmValue], whole: LlvmInteger
    ) -> list[LlvmValue]:
        """Adds the masked vector to the first chain, if lanes are left."""
        writer, lanes, many = self._tile.writer, self._tile.lanes, self._register_tile.size
        left = writer.remainder(self._range.extent, lanes)

        def last(carried: list[LlvmValue]) -> list[LlvmValue]:
            mask = self._tile.elements.arithmetic.vectors.first(left, lanes)
            first = self._vector(linear(whole), places, carried[:many], mask)
            return [*first, *carried[many:]]

        return writer.when(writer.below(0, left), values, last)

    def _vector(
        self,
        number: Linear,
        places: IndexPlaces,
        values: list[LlvmValue],
        mask: LlvmValue | None = None,
    ) -> list[LlvmValue]:
        """Adds vector `number` of the range to the accumulators `values`."""
        self._tile.access.forget()
        place = self._range.base + number * self._tile.lanes
        return self._step.accumulate({**places, self._index: place}, values, mask)
