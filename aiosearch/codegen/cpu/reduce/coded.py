"""A reduction whose one factor is a coded panel.

Or its elements, if they stand there as they are.
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
"""Pairs of rows that are fetched in a turn."""


def coded_product(tile: StageTile) -> PairwiseProduct | None:
    """The product of a stage, if that has one that reads codes."""
    inner = tile.shape.inner
    dot = None if tile.lane_folded or inner is None else product_of_pairs(tile, inner)
    if dot is None:
        return None
    moving = tile.access.storages[dot.moving.buffer]
    return dot if isinstance(moving, CodedBuffer) and moving.names is None else None


class CodedReduction:
    """Two ways through a panel; which one it is, is known when the code runs."""

    def __init__(
        self,
        block: RegisterTile,
        dot: PairwiseProduct,
        fold: Callable[[RegisterTile], InnermostReduction],
    ) -> None:
        self._block, self._dot = block, dot
        self._tile, self._writer = block.tile, block.tile.writer
        moving = block.tile.access.storages[dot.moving.buffer]
        assert isinstance(moving, CodedBuffer), "it was asked before"
        self._width = block.vectors * block.tile.lanes
        assert self._width == moving.layout.width, "a block of registers is as wide as a panel"
        assert block.mask is None, "and panels fill up"
        self._head = self._begin(moving)
        self._plain = fold(self._reading(moving.plain, unroll=1))
        unroll = 1 if block.tile.product else block.tile.shape.unroll
        codes = self._reading(replace(moving, names=self._head.names), unroll)
        self._codes, self._fetching = fold(codes), codes.tile

    def begun(self, starts: AccumulatorInit | None = None) -> list[LlvmValue]:
        """What exceptions come to."""
        assert starts is None, "one thing is coded"
        if self._tile.shape.ahead:
            self._fetch_first()
        own = AccumulatorInit(self._writer, self._block.rows, self._width, self._tile.lanes)
        own.clear()
        self._writer.repeat(0, self._head.count, partial(self._exception, own))
        self._tile.access.forget()
        return self._plain.begun(own)

    def along(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        is_plain = self._head.is_plain
        is_coded = self._writer.pure(f"xor {is_plain}, true", "i1")
        values = self._writer.when(is_coded, values, partial(self._codes.along, places))
        return self._writer.when(is_plain, values, partial(self._plain.along, places))

    def ended(self, values: list[LlvmValue], take: ElementSink) -> None:
        """What takes values reads by the block's own access, which forgets with the fold's."""

        def taken(spot: LaneAddress, value: LlvmValue) -> None:
            self._tile.access.forget()
            take(spot, value)

        self._plain.ended(values, taken)

    def _begin(self, moving: CodedBuffer) -> PanelHead:
        """The head of the panel at hand."""
        access, tile = self._tile.access, self._tile
        places = {**self._block.places, self._dot.inner: tile.ranges[self._dot.inner].base}
        at = [access.locator.first(one, LaneAddress(places)) for one in self._dot.moving.at]
        panel, _, _ = moving.parted(at, self._writer)
        return PanelHead(moving, panel, access.memory, access.vectors)

    def _reading(self, storage: PackedBuffer, unroll: int) -> RegisterTile:
        """The block where the factor is said to lie so.

        What is rare, and what has many instructions in a turn, is not made longer.
        """
        tile = self._tile
        storages = {**tile.access.storages, self._dot.moving.buffer: storage}
        access = BufferAccess(storages, tile.access.memory, tile.access.vectors)
        elements = tile.elements.through(access)
        product = replace(tile.product, elements=elements) if tile.product else None
        shape = replace(tile.shape, unroll=unroll)
        return replace(
            self._block, tile=replace(tile, elements=elements, product=product, shape=shape)
        )

    def _fetch_first(self) -> None:
        """What the panel begins with, while there are exceptions to add; and the next head."""
        self._head.fetch_next()
        depth = self._tile.ranges[self._dot.inner].largest
        pairs = min(self._tile.shape.ahead, -(-depth // 2))
        self._writer.repeat(0, -(-pairs // _STEPS_PER_ITERATION), self._fetch)

    def _fetch(self, turn: LlvmInteger) -> None:
        tile, inner, along = self._fetching, self._dot.inner, self._tile.shape.along
        assert along is not None, "lanes lie along it"
        for number in range(_STEPS_PER_ITERATION):
            pair = linear(turn) * _STEPS_PER_ITERATION + number
            places = {**self._block.places, inner: tile.ranges[inner].base + pair * 2}
            for at in range(0, self._width, tile.lanes):
                spot = LaneAddress({**places, along: places[along] + at})
                tile.access.fetch(self._dot.moving, spot, tile.shape.nearest)

    def _exception(self, starts: AccumulatorInit, number: LlvmInteger) -> None:
        """Adds a product for each row, if its place is one of this tile's."""
        own, writer = self._tile.ranges[self._dot.inner], self._writer
        place, more = self._head.exception(number)
        pair = linear(writer.divide(place, 2 * self._width)) * 2
        row = (pair + linear(writer.remainder(place, 2))).whole(writer)
        column = writer.divide(writer.remainder(place, 2 * self._width), 2)
        since = writer.subtract(row, own.base.whole(writer))
        inside = writer.both(writer.below(-1, since), writer.below(since, own.extent))
        writer.only_when(inside, partial(self._add, starts, row, column, more))

    def _add(
        self, starts: AccumulatorInit, inner: LlvmInteger, column: LlvmInteger, more: LlvmValue
    ) -> None:
        tile, shared = self._tile, self._dot.shared
        tile.access.forget()
        for row in range(self._block.rows):
            places = {**self._block.places, self._dot.inner: linear(inner)}
            if tile.shape.row is not None:
                places[tile.shape.row] = places[tile.shape.row] + row
            factor = tile.elements.value(shared, LaneAddress(places))
            starts.add(row, column, [factor, more])
        tile.access.forget()
