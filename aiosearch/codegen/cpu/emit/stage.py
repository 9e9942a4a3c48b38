"""Printers of a stage over a tile: loops around register tiles, and the reductions in them.

Prints a stage over a tile: loops around blocks of registers, and what is left of whole ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from ...ir import BufferLoad, LoopIndex, ReductionKind
from ...llvm.builder import LlvmInteger, LlvmValue
from ...llvm.linear import Linear, linear
from ..reduce.amx import MatrixReduction
from ..reduce.coded import CodedReduction, coded_product
from ..reduce.loops import neutral_accumulators, piece_length, sum_in_pieces
from ..reduce.vector import LaneReduction, RowReduction
from .addressing import IndexPlaces, LaneAddress
from .expression import lane_invariant_loads
from .prefetch import NextTilePrefetch
from .tile import ElementSink, InnermostReduction, RegisterTile, StageTile


class ReductionPrinter:
    """Loops around the innermost one."""

    def __init__(self, block: RegisterTile) -> None:
        self._block = block
        self._tile = block.tile
        self._inner = _innermost(block)
        plainly = isinstance(self._inner, RowReduction | LaneReduction)
        self._plain = plainly and self._tile.sums_floats

    def each(self, take: ElementSink) -> None:
        """Hands on one after the other.

        What was there before is added last: a long sum is one of shorter ones, which is more exact.
        """
        tile = self._tile
        outer = [one for one in tile.stage.folded if one is not tile.shape.inner]
        found = self._outer(outer, self._block.places, self._inner.begun())
        self._inner.ended(found, self._added(take) if tile.adds else take)

    def _added(self, take: ElementSink) -> ElementSink:
        """With what is there already."""
        return lambda spot, value: take(spot, self._tile.joined([self._old(spot)], [value])[0])

    def _outer(
        self, left: Sequence[LoopIndex], places: IndexPlaces, values: list[LlvmValue]
    ) -> list[LlvmValue]:
        if not left:
            return self._inner.along(places, values)
        one, *rest = left
        tile, own, terms = self._tile, self._tile.ranges[one], self._terms(rest)

        def turn(at: LlvmInteger, totals: list[LlvmValue]) -> list[LlvmValue]:
            there = {**places, one: own.base + linear(at)}
            if terms < piece_length(tile):
                return self._outer(rest, there, totals)
            part = self._outer(rest, there, neutral_accumulators(tile, totals))
            return tile.joined(totals, part)

        if not self._plain:
            return tile.writer.loop(0, own.extent, 1, values, turn)
        each = terms if terms < piece_length(tile) else 1
        return sum_in_pieces(tile, own.extent, own.largest, each, values, turn)

    def _terms(self, left: Sequence[LoopIndex]) -> int:
        """How many there are along these and the innermost one; none where no sums are cut."""
        inner = self._tile.shape.inner
        along = [*left, inner] if inner else left
        return math.prod(self._tile.ranges[one].largest for one in along) if self._plain else 0

    def _old(self, spot: LaneAddress) -> LlvmValue:
        """What is there already."""
        stage, elements = self._tile.stage, self._tile.elements
        self._tile.access.forget()
        return elements.value(BufferLoad(stage.target, stage.at), spot)


def _innermost(block: RegisterTile) -> InnermostReduction:
    tile = block.tile
    if tile.lane_folded:
        return LaneReduction(block)
    coded = coded_product(tile)
    if coded is not None:
        return CodedReduction(block, coded, _innermost)
    if tile.product is not None:
        return MatrixReduction(block, tile.product, tile.unit)
    return RowReduction(block)


pass


_MOST_UNLOOPED_BLOCKS = 2
"""So many blocks of rows are written one after the other, without a loop: a processor that guesses
where loops end is wrong less often."""


class StagePrinter:
    """One stage, over one tile; and what is fetched meanwhile."""

    def __init__(self, tile: StageTile, coming: NextTilePrefetch | None = None) -> None:
        self._tile = tile
        self._coming = coming
        self._writer = tile.writer

    def print(self) -> None:
        shape = self._tile.shape
        blocked = {shape.along, shape.row, shape.column}
        self._free([one for one in self._tile.stage.free if one not in blocked], {})

    def _free(self, left: Sequence[LoopIndex], places: IndexPlaces) -> None:
        """Loops along what no register block runs along."""
        if not left:
            self._columns(places)
            return
        one, *rest = left
        own = self._tile.ranges[one]
        own.steps(self._writer, 0, own.extent, 1, lambda at: self._free(rest, {**places, one: at}))

    def _columns(self, places: IndexPlaces) -> None:
        shape = self._tile.shape
        if shape.along is None or self._tile.lane_folded:
            self._blocks(shape.column, shape.vectors, places, self._rows)
        else:
            self._vectors(shape.along, places)

    def _vectors(self, along: LoopIndex, places: IndexPlaces) -> None:
        stage = self._tile.stage
        held = lane_invariant_loads(stage, along) if stage.fold is ReductionKind.NONE else []
        with self._tile.access.holding(held, LaneAddress(places)):
            self._along(along, places)

    def _along(self, along: LoopIndex, places: IndexPlaces) -> None:
        """Whole blocks of vectors, single vectors, and the lanes that are left."""
        writer, own = self._writer, self._tile.ranges[along]
        lanes, vectors = self._tile.lanes, self._tile.shape.vectors

        def rows(many: int) -> Callable[[Linear], None]:
            return lambda at: self._rows({**places, along: at}, many)

        blocks = writer.divide(own.extent, lanes * vectors)
        own.steps(writer, 0, blocks, lanes * vectors, rows(vectors))
        if not own.rests(lanes * vectors):
            return
        count, done = writer.divide(own.extent, lanes), writer.multiply(blocks, vectors)
        if any(rest >= lanes for rest in own.rests(lanes * vectors)):
            own.steps(writer, done, count, lanes, rows(1))
        if own.rests(lanes):
            last = {**places, along: own.base + linear(count) * lanes}
            self._last_lanes(last, writer.remainder(own.extent, lanes))

    def _last_lanes(self, places: IndexPlaces, left: LlvmInteger) -> None:
        def masked() -> None:
            mask = self._tile.elements.arithmetic.vectors.first(left, self._tile.lanes)
            self._rows(places, 1, mask)

        self._writer.only_when(self._writer.below(0, left), masked)

    def _rows(self, places: IndexPlaces, vectors: int, mask: LlvmValue | None = None) -> None:
        shape = self._tile.shape
        body = partial(self._block, vectors=vectors, mask=mask)
        self._blocks(shape.row, shape.rows, places, body)

    def _blocks(
        self,
        index: LoopIndex | None,
        most: int,
        places: IndexPlaces,
        body: Callable[[IndexPlaces, int], None],
    ) -> None:
        """As many at once as wanted, and the rest at once."""
        if index is None:
            body(places, 1)
            return
        writer, own = self._writer, self._tile.ranges[index]
        whole = writer.divide(own.extent, most)
        if isinstance(whole, int) and whole <= _MOST_UNLOOPED_BLOCKS and self._in_vectors:
            for number in range(whole):
                body({**places, index: own.base + number * most}, most)
        else:
            own.steps(writer, 0, whole, most, lambda at: body({**places, index: at}, most))
        last = {**places, index: own.base + linear(whole) * most}
        for rest in own.rests(most):
            left = writer.remainder(own.extent, most)
            writer.only_when(writer.equal(left, rest), partial(body, last, rest))

    @property
    def _in_vectors(self) -> bool:
        """Whether each lane of a register has an element or a sum of its own."""
        return not self._tile.lane_folded and self._tile.product is None

    def _block(self, places: IndexPlaces, rows: int, vectors: int, mask: LlvmValue | None) -> None:
        """All elements that are in registers at once."""
        tile, block = self._tile, RegisterTile(self._tile, places, rows, vectors, mask)
        stage, elements = tile.stage, tile.elements
        tile.access.forget()
        if stage.fold is ReductionKind.NONE:
            for spot in block.spots(places):
                elements.fill(stage, spot)
        else:
            if self._coming is not None:
                self._coming.fetch(block)
            ReductionPrinter(block).each(
                lambda spot, value: elements.store(
                    stage.target, stage.at, tile.changed(value, spot), spot
                )
            )
        tile.access.forget()
