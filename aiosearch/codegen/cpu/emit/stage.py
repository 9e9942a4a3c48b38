"""Printers of a stage over one tile: loops around register tiles, and the reductions in them.

The problem: a tile has any size, and a register tile has a fixed number of rows and vectors.
`StagePrinter` covers the tile with full register tiles, then with narrower ones, a masked vector,
and fewer rows, and prints a loop only where there is more than one. `ReductionPrinter` prints what
happens in a register tile: initial accumulators, loops over the reduced indices, and the store of
each result.

Example: `out[i, j] = sum over k of X[i, k] * W[k, j]` in f32, sizes 2, 16, 6, with 2 rows by 1
vector of 16 lanes. The tile is one register tile, so there is no loop over i or j. The loop over k
carries two accumulators:

    loop13:
      %v15 = phi i64 [ 0, %loop4 ], [ %v31, %loop13 ]
      %v16 = phi <16 x float> [ zeros, %loop4 ], [ %v25, %loop13 ]     accumulator of row 0
      %v17 = phi <16 x float> [ zeros, %loop4 ], [ %v30, %loop13 ]     accumulator of row 1
      %v22 = load <16 x float>, ptr %v21, align 4                      W[k, :], for both rows
      %v25 = call <16 x float> @llvm.fma.v16f32(%v24, %v22, %v16)      %v24 is X[0, k] in each lane
      %v30 = call <16 x float> @llvm.fma.v16f32(%v29, %v22, %v17)      %v29 is X[1, k] in each lane

With 37 columns there would be two full vectors and one with 5 of 16 lanes masked in.

Invariants: each element of the tile is computed once; loads are cached within a register tile only
(`BufferAccess.forget`), as a loop iteration must not see values of another one; equal columns get
equal sums, wherever in the tile they are. Cost: code grows with rows times vectors of the register
tile and with the number of remainders, not with the tile.

`docs/why/kernels.md` shows the machine code of such a loop.
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
    """Prints the reduction of one register tile."""

    def __init__(self, block: RegisterTile) -> None:
        self._register_tile = block
        self._tile = block.tile
        self._inner = _innermost(block)
        # Coded panels and AMX cut their sums themselves.
        plainly = isinstance(self._inner, RowReduction | LaneReduction)
        self._plain = plainly and self._tile.sums_floats

    def emit(self, take: ElementSink) -> None:
        """Prints the loops, and hands each result to `take`.

        What was stored before, by earlier serial tiles, is added last, so a long sum is a sum of
        shorter ones and its rounding error smaller.
        """
        tile = self._tile
        outer = [index for index in tile.stage.folded if index is not tile.shape.inner]
        accumulators = self._outer(outer, self._register_tile.places, self._inner.initial_values())
        self._inner.finish(accumulators, self._accumulated(take) if tile.accumulates else take)

    def _accumulated(self, take: ElementSink) -> ElementSink:
        """A sink that first adds what is stored already."""
        return lambda spot, value: take(spot, self._tile.combined([self._old(spot)], [value])[0])

    def _outer(
        self, left: Sequence[LoopIndex], places: IndexPlaces, values: list[LlvmValue]
    ) -> list[LlvmValue]:
        """Prints loops over the reduced indices `left`, outermost first, around the innermost
        reduction.

        Sums of floats are cut into pieces of bounded length wherever that is: a piece ends at the
        outermost loop whose body has at least `piece_length` terms.
        """
        if not left:
            return self._inner.accumulate(places, values)
        outermost, *inner = left
        tile, index_range, terms = self._tile, self._tile.ranges[outermost], self._terms(inner)

        def turn(at: LlvmInteger, totals: list[LlvmValue]) -> list[LlvmValue]:
            there = {**places, outermost: index_range.base + linear(at)}
            # Short inner loops continue the accumulators of this one; long ones start from zero,
            # and their results are added here.
            if terms < piece_length(tile):
                return self._outer(inner, there, totals)
            part = self._outer(inner, there, neutral_accumulators(totals))
            return tile.combined(totals, part)

        if not self._plain:
            return tile.writer.loop(0, index_range.extent, 1, values, turn)
        turn_terms = terms if terms < piece_length(tile) else 1
        return sum_in_pieces(
            tile, index_range.extent, index_range.largest, turn_terms, values, turn
        )

    def _terms(self, left: Sequence[LoopIndex]) -> int:
        """Terms that one iteration adds, over the indices `left` and the innermost one; 0 where
        sums are not cut."""
        inner = self._tile.shape.inner
        along = [*left, inner] if inner else left
        return math.prod(self._tile.ranges[index].largest for index in along) if self._plain else 0

    def _old(self, spot: LaneAddress) -> LlvmValue:
        """The stored value of a result."""
        stage, elements = self._tile.stage, self._tile.elements
        self._tile.access.forget()
        return elements.value(BufferLoad(stage.target, stage.at), spot)


def _innermost(block: RegisterTile) -> InnermostReduction:
    """The printer of the innermost loop, by what the operands and the machine allow."""
    tile = block.tile
    if tile.lane_reduction:
        return LaneReduction(block)
    coded = coded_product(tile)
    if coded is not None:
        return CodedReduction(block, coded, _innermost)
    if tile.product is not None:
        return MatrixReduction(block, tile.product, tile.unit)
    return RowReduction(block)


_MOST_UNROLLED_ROW_TILES = 2
"""Register tiles of rows that are printed one after the other, without a loop: a branch predictor
often mispredicts the end of a loop this short."""


class StagePrinter:
    """Prints one stage over one tile, and the prefetches that run alongside."""

    def __init__(self, tile: StageTile, next_tile: NextTilePrefetch | None = None) -> None:
        self._tile = tile
        self._next_tile = next_tile
        self._writer = tile.writer

    def print(self) -> None:
        """Prints loops over all free indices."""
        shape = self._tile.shape
        blocked = {shape.along, shape.row, shape.column}
        self._free([index for index in self._tile.stage.free if index not in blocked], {})

    def _free(self, left: Sequence[LoopIndex], places: IndexPlaces) -> None:
        """Prints loops over the free indices that no register tile covers."""
        if not left:
            self._columns(places)
            return
        outermost, *inner = left
        index_range = self._tile.ranges[outermost]
        index_range.steps(
            self._writer,
            0,
            index_range.extent,
            1,
            lambda at: self._free(inner, {**places, outermost: at}),
        )

    def _columns(self, places: IndexPlaces) -> None:
        """Covers the vectorised index, or the second free index where the reduced index is
        vectorised."""
        shape = self._tile.shape
        if shape.along is None or self._tile.lane_reduction:
            self._register_tiles(shape.column, shape.vectors, places, self._rows)
        else:
            self._vectors(shape.along, places)

    def _vectors(self, along: LoopIndex, places: IndexPlaces) -> None:
        """Loads what all lanes share before the loop over vectors, for elementwise stages."""
        stage = self._tile.stage
        held = lane_invariant_loads(stage, along) if stage.reduction is ReductionKind.NONE else []
        with self._tile.access.hoisting(held, LaneAddress(places)):
            self._along(along, places)

    def _along(self, along: LoopIndex, places: IndexPlaces) -> None:
        """Covers the vectorised index: full register tiles, single vectors, and a masked one."""
        writer, index_range = self._writer, self._tile.ranges[along]
        lanes, vectors = self._tile.lanes, self._tile.shape.vectors

        def rows(many: int) -> Callable[[Linear], None]:
            return lambda at: self._rows({**places, along: at}, many)

        blocks = writer.divide(index_range.extent, lanes * vectors)
        index_range.steps(writer, 0, blocks, lanes * vectors, rows(vectors))
        # All tiles have a size that full register tiles cover, which is known when the code is
        # printed.
        if not index_range.remainders(lanes * vectors):
            return
        count, done = writer.divide(index_range.extent, lanes), writer.multiply(blocks, vectors)
        if any(remainder >= lanes for remainder in index_range.remainders(lanes * vectors)):
            index_range.steps(writer, done, count, lanes, rows(1))
        if index_range.remainders(lanes):
            last = {**places, along: index_range.base + linear(count) * lanes}
            self._last_lanes(last, writer.remainder(index_range.extent, lanes))

    def _last_lanes(self, places: IndexPlaces, left: LlvmInteger) -> None:
        """Prints the masked vector, if any lanes are left."""

        def masked() -> None:
            # Masked lanes neither load nor store, so nothing beyond the array is touched.
            mask = self._tile.elements.arithmetic.vectors.first(left, self._tile.lanes)
            self._rows(places, 1, mask)

        self._writer.only_when(self._writer.below(0, left), masked)

    def _rows(self, places: IndexPlaces, vectors: int, mask: LlvmValue | None = None) -> None:
        """Covers the row index with register tiles of so many vectors."""
        shape = self._tile.shape
        body = partial(self._register_tile, vectors=vectors, mask=mask)
        self._register_tiles(shape.row, shape.rows, places, body)

    def _register_tiles(
        self,
        index: LoopIndex | None,
        most: int,
        places: IndexPlaces,
        body: Callable[[IndexPlaces, int], None],
    ) -> None:
        """Covers an index with register tiles of `most`, and what is left with a smaller one of
        exactly that size."""
        if index is None:
            body(places, 1)
            return
        writer, index_range = self._writer, self._tile.ranges[index]
        whole = writer.divide(index_range.extent, most)
        if isinstance(whole, int) and whole <= _MOST_UNROLLED_ROW_TILES and self._in_vectors:
            for number in range(whole):
                body({**places, index: index_range.base + number * most}, most)
        else:
            index_range.steps(writer, 0, whole, most, lambda at: body({**places, index: at}, most))
        last = {**places, index: index_range.base + linear(whole) * most}
        for remainder in index_range.remainders(most):
            # The last tile of an index may be shorter than the others, so each possible remainder
            # has its own code behind a test.
            left = writer.remainder(index_range.extent, most)
            writer.only_when(writer.equal(left, remainder), partial(body, last, remainder))

    @property
    def _in_vectors(self) -> bool:
        """Whether each lane of an accumulator is a result of its own."""
        return not self._tile.lane_reduction and self._tile.product is None

    def _register_tile(
        self, places: IndexPlaces, rows: int, vectors: int, mask: LlvmValue | None
    ) -> None:
        """Prints the elements or sums of one register tile."""
        tile, block = self._tile, RegisterTile(self._tile, places, rows, vectors, mask)
        stage, elements = tile.stage, tile.elements
        tile.access.forget()
        if stage.reduction is ReductionKind.NONE:
            for spot in block.spots(places):
                elements.fill(stage, spot)
        else:
            if self._next_tile is not None:
                self._next_tile.fetch(block)
            ReductionPrinter(block).emit(
                lambda spot, value: elements.store(
                    stage.target, stage.at, tile.with_epilogue(value, spot), spot
                )
            )
        tile.access.forget()
