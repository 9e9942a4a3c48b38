"""A fold down the rows by a matrix unit, and what is left of whole steps by products of pairs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..native.machine import Machine
from .coded import Coded, as_bytes
from .dots import Dot, paired
from .linear import Linear, linear
from .matrixunit import BYTES, DEPTH, LANES, ROWS, TILES, MatrixUnit, Setting, tiles_for
from .memory import STORED, Storage
from .packed import Packed
from .ranges import Range
from .registers import Block, Take
from .rowfolds import RowFold
from .spots import Places, Spot
from .starts import Starts
from .steps import Step
from .tiles import Tile
from .unrolling import unrolled
from .values import Value, Whole

_TILE = DEPTH // 2 * BYTES
_AT_ONCE = 4
"""Pairs of rows that are decoded in a turn: more is longer code, and no faster."""


def matrix_product(tile: Tile, machine: Machine) -> Dot | None:
    """What a matrix unit is to do for a stage; nothing where it is none of its products."""
    shape = tile.shape
    if not machine.bf16_matrix or tile.lanes != LANES or tile.lane_folded or shape.inner is None:
        return None
    own = tile.ranges[shape.inner]
    dot = paired(tile.stage, shape.inner, shape.along, tile.access)
    if dot is None or own.largest < DEPTH or not own.base.divisible(2):
        return None
    shared, moving = (tile.access.storages[one.buffer] for one in (dot.shared, dot.moving))
    if isinstance(shared, Packed) or not isinstance(moving, Packed):
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
        self._fetch = Step(block).fetch
        self._rest = self._left()

    def begun(self, starts: Starts | None = None) -> list[Value]:
        self._unit.begin(self._setting, starts)
        return self._rest.begun() if self._rest else []

    def along(self, places: Places, values: list[Value]) -> list[Value]:
        own, inner = self._tile.ranges[self._dot.inner], self._dot.inner
        if isinstance(self._storage, Coded):
            first = partial(self._decode, {**places, inner: own.base}, 0)
            self._tile.writer.only_when(self._tile.writer.below(DEPTH - 1, own.extent), first)
            self._tile.access.forget()
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
        unit, setting, which = self._unit, self._setting, self._which(places)
        if isinstance(self._storage, Coded):
            inner = self._dot.inner
            later = {**places, inner: places[inner] + DEPTH}
            self._decode(later, self._tile.writer.subtract(1, which))
        else:
            self._fetch_pairs(places)
        for part in range(len(setting.heights)):
            unit.load(setting.shared(part), *self._shared(places, part))
        for vector in range(self._block.vectors):
            unit.load(setting.moving(vector), *self._moving(places, vector, which))
            for part in range(len(setting.heights)):
                sums = setting.sums(part, vector)
                unit.multiply(sums, setting.shared(part), setting.moving(vector))
        return values

    def _fetch_pairs(self, places: Places) -> None:
        inner = self._dot.inner
        for pair in range(DEPTH // 2):
            self._fetch({**places, inner: places[inner] + 2 * pair})

    def _shared(self, places: Places, part: int) -> tuple[Value, int]:
        """Where a part of rows begins, and how many bytes they are apart."""
        access, shared, row = self._tile.access, self._dot.shared, self._tile.shape.row
        storage, apart = _rows(self._dot, self._tile)
        assert apart is not None, "it was asked before"
        if row is not None:
            places = {**places, row: places[row] + part * ROWS}
        offset = access.offset(storage, shared.at, Spot(places))
        return access.memory.address(storage, offset), apart * STORED[storage.dtype][1]

    def _moving(self, places: Places, vector: int, which: Whole) -> tuple[Value, int]:
        access, moving, along = self._tile.access, self._dot.moving, self._tile.shape.along
        storage = self._storage
        if isinstance(storage, Coded):
            return self._room(which, vector), BYTES
        assert along is not None, "lanes lie along it"
        spot = Spot({**places, along: places[along] + vector * LANES}, along, LANES)
        offset, _ = access.in_panels(storage, moving, spot)
        pair = 2 * storage.layout.width
        return access.memory.address(storage.flat, offset), pair * STORED[storage.flat.dtype][1]

    @property
    def _storage(self) -> Packed:
        found = self._tile.access.storages[self._dot.moving.buffer]
        assert isinstance(found, Packed), "it is read in panels"
        return found

    def _which(self, places: Places) -> Whole:
        """The number of a step, even or odd."""
        inner = self._dot.inner
        number, _ = (places[inner] - self._tile.ranges[inner].base).over(DEPTH, self._tile.writer)
        return number.over(2, self._tile.writer)[1].whole(self._tile.writer)

    def _decode(self, places: Places, which: Whole) -> None:
        """All tiles of a step, one step before they are loaded: they are in memory by then.

        Behind the last step that is read which follows a panel's codes, and never loaded. A panel
        has room for its elements as they are, which is enough for one step more.
        """
        storage = self._storage
        rows = storage.sizes[storage.layout.row]
        assert rows >= DEPTH, "else there is no step"
        for vector in range(0, self._block.vectors, 2):
            two = partial(self._decode_two, places, which, vector)
            self._tile.writer.repeat(0, DEPTH // 2 // _AT_ONCE, two)
        self._tile.access.forget()

    def _decode_two(self, places: Places, which: Whole, vector: int, turn: Whole) -> None:
        """Some rows of the tiles of two vectors."""
        dot, along, access = self._dot, self._tile.shape.along, self._tile.access
        assert along is not None, "lanes lie along it"
        access.forget()
        for number in range(_AT_ONCE):
            pair = linear(turn) * _AT_ONCE + number
            row = {**places, dot.inner: places[dot.inner] + pair * 2}
            if vector == 0:
                self._fetch(row)
            for one in (vector, vector + 1):
                spot = Spot({**row, along: row[along] + one * LANES}, along, LANES)
                value = access.pairs(self._storage, dot.moving, spot)
                where = self._room(which, one, pair)
                self._tile.writer.say(f"store {value}, ptr {where.text}, align {BYTES}")

    def _room(self, which: Whole, vector: int, pair: Linear | None = None) -> Value:
        """Of tiles that were decoded, for two steps."""
        writer, vectors = self._tile.writer, self._block.vectors
        room = writer.room("decoded", 2 * vectors * _TILE)
        begin = linear(which) * (vectors * _TILE) + vector * _TILE
        begin += (pair or Linear()) * BYTES
        return self._tile.access.memory.address(as_bytes(room), begin)
