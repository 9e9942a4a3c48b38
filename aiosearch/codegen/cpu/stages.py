"""Prints a stage over a tile: loops around blocks of registers, and what is left of whole ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..ir import Fold, Index
from .coming import Coming
from .elements import shared
from .folds import FoldPrinter
from .linear import Linear, linear
from .registers import Block
from .spots import Places, Spot
from .tiles import Tile
from .values import Value, Whole

_FEW = 2
"""So many blocks of rows are written one after the other, without a loop: a processor that guesses
where loops end is wrong less often."""


class StagePrinter:
    """One stage, over one tile; and what is fetched meanwhile."""

    def __init__(self, tile: Tile, coming: Coming | None = None) -> None:
        self._tile = tile
        self._coming = coming
        self._writer = tile.writer

    def print(self) -> None:
        shape = self._tile.shape
        blocked = {shape.along, shape.row, shape.column}
        self._free([one for one in self._tile.stage.free if one not in blocked], {})

    def _free(self, left: Sequence[Index], places: Places) -> None:
        """Loops along what no register block runs along."""
        if not left:
            self._columns(places)
            return
        one, *rest = left
        own = self._tile.ranges[one]
        own.steps(self._writer, 0, own.extent, 1, lambda at: self._free(rest, {**places, one: at}))

    def _columns(self, places: Places) -> None:
        shape = self._tile.shape
        if shape.along is None or self._tile.lane_folded:
            self._blocks(shape.column, shape.vectors, places, self._rows)
        else:
            self._vectors(shape.along, places)

    def _vectors(self, along: Index, places: Places) -> None:
        stage = self._tile.stage
        held = shared(stage, along) if stage.fold is Fold.NONE else []
        with self._tile.access.holding(held, Spot(places)):
            self._along(along, places)

    def _along(self, along: Index, places: Places) -> None:
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

    def _last_lanes(self, places: Places, left: Whole) -> None:
        def masked() -> None:
            mask = self._tile.elements.arithmetic.vectors.first(left, self._tile.lanes)
            self._rows(places, 1, mask)

        self._writer.only_when(self._writer.below(0, left), masked)

    def _rows(self, places: Places, vectors: int, mask: Value | None = None) -> None:
        shape = self._tile.shape
        body = partial(self._block, vectors=vectors, mask=mask)
        self._blocks(shape.row, shape.rows, places, body)

    def _blocks(
        self, index: Index | None, most: int, places: Places, body: Callable[[Places, int], None]
    ) -> None:
        """As many at once as wanted, and the rest at once."""
        if index is None:
            body(places, 1)
            return
        writer, own = self._writer, self._tile.ranges[index]
        whole = writer.divide(own.extent, most)
        if isinstance(whole, int) and whole <= _FEW and self._in_vectors:
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

    def _block(self, places: Places, rows: int, vectors: int, mask: Value | None) -> None:
        """All elements that are in registers at once."""
        tile, block = self._tile, Block(self._tile, places, rows, vectors, mask)
        stage, elements = tile.stage, tile.elements
        tile.access.forget()
        if stage.fold is Fold.NONE:
            for spot in block.spots(places):
                elements.fill(stage, spot)
        else:
            if self._coming is not None:
                self._coming.fetch(block)
            FoldPrinter(block).each(
                lambda spot, value: elements.store(
                    stage.target, stage.at, tile.changed(value, spot), spot
                )
            )
        tile.access.forget()
