"""A fold down the rows by a matrix unit, and what is left of whole steps by products of pairs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..native.machine import Machine
from .dots import Dot, paired
from .linear import linear
from .matrixunit import DEPTH, LANES, ROWS, TILES, MatrixUnit, Setting, tiles_for
from .memory import STORED, Storage
from .movingtiles import moving_tiles
from .packed import Packed
from .ranges import Range
from .registers import Block, Take
from .rowfolds import RowFold
from .spots import Places, Spot
from .starts import Starts
from .tiles import Tile
from .unrolling import unrolled
from .values import Value, Whole


def matrix_product(tile: Tile, machine: Machine) -> Dot | None:
    """What a matrix unit is to do for a stage; nothing where it is none of its products."""
    shape = tile.shape
    if not machine.bf16_matrix or tile.lanes != LANES or tile.lane_folded or shape.inner is None:
        return None
    own = tile.ranges[shape.inner]
    dot = paired(tile.stage, shape.inner, shape.along, tile.elements)
    if dot is None or own.largest < DEPTH or not own.base.divisible(2):
        return None
    if isinstance(tile.access.storages[dot.shared.buffer], Packed):
        return None
    _, apart = _rows(dot, tile)
    fits = tiles_for(shape.rows, shape.vectors) <= TILES
    return dot if fits and apart is not None else None


def _rows(dot: Dot, tile: Tile) -> tuple[Storage, int | None]:
    """The shared factor, and how many elements behind one row the next one is, if that is even."""
    storage = tile.access.storages[dot.shared.buffer]
    assert isinstance(storage, Storage), "pairs are taken from rows"
    return storage, tile.access.stride(storage, dot.shared.at, tile.shape.row)


class MatrixFold:
    """Sums that are in tiles."""

    def __init__(self, block: Block, dot: Dot, unit: MatrixUnit) -> None:
        self._block, self._dot, self._unit = block, dot, unit
        self._tile = block.tile
        self._setting = Setting(block.rows, block.tile.shape.vectors)
        self._moving = moving_tiles(block, dot)
        self._rest = self._left()

    def begun(self, starts: Starts | None = None) -> list[Value]:
        self._unit.begin(self._setting, starts)
        return self._rest.begun() if self._rest else []

    def along(self, places: Places, values: list[Value]) -> list[Value]:
        self._moving.begin(places)
        unrolled(self._tile, self._dot.inner, DEPTH, places, [], self._taken)
        return self._rest.along(places, values) if self._rest else values

    def ended(self, values: list[Value], take: Take) -> None:
        """By a loop over the rows: there are more sums than registers."""
        unit, setting, vectors = self._unit, self._setting, range(self._block.vectors)
        for part in range(len(setting.heights)):
            for vector in vectors:
                unit.store(setting.sums(part, vector))
        unit.end(setting)
        if values:
            others = iter(values)
            found = (
                self._tile.joined([unit.row(setting.sums(row // ROWS, at), row % ROWS)], [other])[0]
                for row in range(self._block.rows)
                for at, other in zip(vectors, others, strict=False)
            )
            self._block.hand_on(found, take)
            return
        for part, height in enumerate(setting.heights):
            self._tile.writer.repeat(0, height, partial(self._row, part, take))
        self._tile.access.forget()

    def _row(self, part: int, take: Take, number: Whole) -> None:
        """Of one part; what is read in a turn of the loop is not there in another one."""
        self._tile.access.forget()
        places, row = self._block.places, self._tile.shape.row
        if row is not None:
            places = {**places, row: places[row] + linear(number) + part * ROWS}
        for vector, spot in enumerate(self._block.row(places)):
            take(spot, self._unit.row(self._setting.sums(part, vector), number))

    def _left(self) -> RowFold | None:
        """What does the last products of an index that is no multiple of what the unit takes."""
        tile, inner = self._tile, self._dot.inner
        own, writer = tile.ranges[inner], tile.writer
        if not own.rests(DEPTH):
            return None
        done = linear(writer.divide(own.extent, DEPTH)) * DEPTH
        extents = sorted({extent % DEPTH for extent in own.extents}, reverse=True)
        rest = Range(own.base + done, writer.remainder(own.extent, DEPTH), tuple(extents))
        return RowFold(
            replace(self._block, tile=replace(tile, ranges={**tile.ranges, inner: rest}))
        )

    def _taken(self, places: Places, values: list[Value]) -> list[Value]:
        """One step: each part of rows with each vector."""
        unit, setting = self._unit, self._setting
        self._moving.prepare(places)
        for part in range(len(setting.heights)):
            unit.load(setting.shared(part), *self._shared(places, part))
        for vector in range(self._block.vectors):
            unit.load(setting.moving(vector), *self._moving.at(places, vector))
            for part in range(len(setting.heights)):
                sums = setting.sums(part, vector)
                unit.multiply(sums, setting.shared(part), setting.moving(vector))
        return values

    def _shared(self, places: Places, part: int) -> tuple[Value, int]:
        """Where a part of rows begins, and how many bytes they are apart."""
        access, shared, row = self._tile.access, self._dot.shared, self._tile.shape.row
        storage, apart = _rows(self._dot, self._tile)
        assert apart is not None, "it was asked before"
        if row is not None:
            places = {**places, row: places[row] + part * ROWS}
        offset = access.offset(storage, shared.at, Spot(places))
        return access.memory.address(storage, offset), apart * STORED[storage.dtype][1]
