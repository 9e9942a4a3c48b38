"""A reduction whose varying operand is a coded panel, or one that is stored uncoded after all.

Which of both a panel is, is known at run time, so there are two loops behind one test. Both share
their accumulators, which start with the products of the panel's exceptions: `coded_format` stores a
stand-in for each exception, and its difference to the element is multiplied here.

Example: a weight of 1e20 among weights around 0.02 is stored as 2^-126, and the list has the
difference, which rounds to 1e20. For the factor 3 of the other operand, the sum starts with 3e20,
and the loop adds 3 * 2^-126.

Invariants: exceptions are added once per serial tile that has them, and both loops leave their
results in the same registers. Cost: a load, a multiply-add and a store per row and exception,
before the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ...llvm.builder import LlvmInteger, LlvmValue
from ...llvm.linear import linear
from ..emit.access import BufferAccess, CodedBuffer, PanelHead
from ..emit.addressing import IndexPlaces, LaneAddress
from ..emit.tile import ElementSink, InnermostReduction, RegisterTile, StageTile
from ..packing import PackedBuffer
from .accumulator_init import AccumulatorInit
from .dot import PairwiseProduct
from .vector import product_of_pairs

_STEPS_PER_ITERATION = 4
"""Pairs of rows that are prefetched per iteration."""


def coded_product(tile: StageTile) -> PairwiseProduct | None:
    """The product of a stage whose varying operand is coded; `None` for any other stage, and within
    a panel."""
    inner = tile.shape.inner
    dot = None if tile.lane_reduction or inner is None else product_of_pairs(tile, inner)
    if dot is None:
        return None
    moving = tile.access.storages[dot.moving.buffer]
    return dot if isinstance(moving, CodedBuffer) and moving.named_bytes is None else None


class CodedReduction:
    """Prints both loops over a panel; `reduction` makes the innermost of either."""

    def __init__(
        self,
        block: RegisterTile,
        dot: PairwiseProduct,
        reduction: Callable[[RegisterTile], InnermostReduction],
    ) -> None:
        self._register_tile, self._dot = block, dot
        self._tile, self._writer = block.tile, block.tile.writer
        moving = block.tile.access.storages[dot.moving.buffer]
        assert isinstance(moving, CodedBuffer), "it was asked before"
        self._width = block.vectors * block.tile.lanes
        # The head of a wider panel would list exceptions of other register tiles, and narrower
        # panels would need several heads per register tile.
        assert self._width == moving.layout.width, "a block of registers is as wide as a panel"
        assert block.mask is None, "and panels fill up"
        self._head = self._panel_head(moving)
        # Uncoded panels are rare, so their loop is not unrolled: code size matters more.
        self._plain = reduction(self._reading(moving.uncoded, unroll=1))
        # Steps of AMX are long enough as they are.
        unroll = 1 if block.tile.product else block.tile.shape.unroll
        codes = self._reading(replace(moving, named_bytes=self._head.named_bytes), unroll)
        self._codes, self._fetching = reduction(codes), codes.tile

    def initial_values(self, starts: AccumulatorInit | None = None) -> list[LlvmValue]:
        """The products of exceptions, added up in memory, as accumulators."""
        assert starts is None, "one thing is coded"
        if self._tile.shape.prefetch_distance:
            self._fetch_first()
        initial = AccumulatorInit(
            self._writer, self._register_tile.rows, self._width, self._tile.lanes
        )
        initial.clear()
        self._writer.repeat(0, self._head.count, partial(self._exception, initial))
        self._tile.access.forget()
        return self._plain.initial_values(initial)

    def accumulate(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        """Prints the test and both loops."""
        is_plain = self._head.is_uncoded
        # Two tests rather than an if and else: `FunctionBuilder.when` passes values through where
        # its condition is false.
        is_coded = self._writer.pure(f"xor {is_plain}, true", "i1")
        values = self._writer.when(is_coded, values, partial(self._codes.accumulate, places))
        return self._writer.when(is_plain, values, partial(self._plain.accumulate, places))

    def finish(self, values: list[LlvmValue], take: ElementSink) -> None:
        """Hands on results, which both loops leave in the same registers."""

        def take_fresh(spot: LaneAddress, value: LlvmValue) -> None:
            self._tile.access.forget()
            take(spot, value)

        self._plain.finish(values, take_fresh)

    def _panel_head(self, moving: CodedBuffer) -> PanelHead:
        """The head of the panel at the register tile's position."""
        access, tile = self._tile.access, self._tile
        places = {**self._register_tile.places, self._dot.inner: tile.ranges[self._dot.inner].base}
        at = [
            access.locator.first(position, LaneAddress(places)) for position in self._dot.moving.at
        ]
        panel, _, _ = moving.parted(at, self._writer)
        return PanelHead(moving, panel, access.memory, access.vectors)

    def _reading(self, storage: PackedBuffer, unroll: int) -> RegisterTile:
        """The register tile with the varying operand in another storage."""
        tile = self._tile
        storages = {**tile.access.storages, self._dot.moving.buffer: storage}
        access = BufferAccess(storages, tile.access.memory, tile.access.vectors)
        elements = tile.elements.through(access)
        product = replace(tile.product, elements=elements) if tile.product else None
        shape = replace(tile.shape, unroll=unroll)
        return replace(
            self._register_tile, tile=replace(tile, elements=elements, product=product, shape=shape)
        )

    def _fetch_first(self) -> None:
        """Prefetches the begin of the panel while exceptions are added, and the head of the next
        panel."""
        self._head.fetch_next()
        depth = self._tile.ranges[self._dot.inner].largest
        pairs = min(self._tile.shape.prefetch_distance, -(-depth // 2))
        self._writer.repeat(0, -(-pairs // _STEPS_PER_ITERATION), self._fetch)

    def _fetch(self, turn: LlvmInteger) -> None:
        """Prefetches some pairs of rows."""
        tile, inner, along = self._fetching, self._dot.inner, self._tile.shape.along
        assert along is not None, "lanes lie along it"
        for number in range(_STEPS_PER_ITERATION):
            pair = linear(turn) * _STEPS_PER_ITERATION + number
            places = {**self._register_tile.places, inner: tile.ranges[inner].base + pair * 2}
            for at in range(0, self._width, tile.lanes):
                spot = LaneAddress({**places, along: places[along] + at})
                tile.access.fetch(self._dot.moving, spot, tile.shape.prefetch_to_l1)

    def _exception(self, starts: AccumulatorInit, number: LlvmInteger) -> None:
        """Adds the product of an exception to each row, if it is in this serial tile."""
        inner_range, writer = self._tile.ranges[self._dot.inner], self._writer
        place, difference = self._head.exception(number)
        # A panel is stored pair by pair of rows, so the position is split into pair, column and row
        # within the pair.
        pair = linear(writer.divide(place, 2 * self._width)) * 2
        row = (pair + linear(writer.remainder(place, 2))).evaluate(writer)
        column = writer.divide(writer.remainder(place, 2 * self._width), 2)
        since = writer.subtract(row, inner_range.base.evaluate(writer))
        # A panel is as long as the whole reduction, and a serial tile only a part of it.
        inside = writer.both(writer.below(-1, since), writer.below(since, inner_range.extent))
        writer.only_when(inside, partial(self._add, starts, row, column, difference))

    def _add(
        self,
        starts: AccumulatorInit,
        inner: LlvmInteger,
        column: LlvmInteger,
        difference: LlvmValue,
    ) -> None:
        """Adds `difference` times the broadcast operand to each row's initial sum."""
        tile, shared = self._tile, self._dot.shared
        tile.access.forget()
        for row in range(self._register_tile.rows):
            places = {**self._register_tile.places, self._dot.inner: linear(inner)}
            if tile.shape.row is not None:
                places[tile.shape.row] = places[tile.shape.row] + row
            factor = tile.elements.value(shared, LaneAddress(places))
            starts.add(row, column, [factor, difference])
        tile.access.forget()
