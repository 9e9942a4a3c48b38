"""Reductions by AMX, and how the tiles of the vectorised factor are made.

A fold down the rows by a matrix unit, and what is left of whole steps by products of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue
from ...llvm.linear import Linear, linear
from ...llvm.memory import STORED, Storage
from ...native.machine import CpuMachine
from ..emit.access import BufferAccess, CodedBuffer, as_bytes
from ..emit.addressing import IndexPlaces, LaneAddress, TileRange
from ..emit.tile import ElementSink, RegisterTile, StageTile
from ..packing import PackedBuffer
from .accumulator_init import AccumulatorInit
from .amx_unit import (
    AMX_DEPTH,
    AMX_LANES,
    AMX_ROW_BYTES,
    AMX_ROWS,
    AMX_TILES,
    AmxTileAssignment,
    AmxUnit,
    amx_tiles_needed,
)
from .dot import DotInstruction, dot_product_of
from .loops import unrolled_loop
from .vector import ReductionStep, RowReduction

_TILE_BYTES = AMX_DEPTH // 2 * AMX_ROW_BYTES
_VECTORS_AT_ONCE = 4
"""Pairs of rows that are made ready in a turn: more is longer code, and no faster."""


class MovingOperandTiles(Protocol):
    """One for each vector of a block, anew at each step."""

    def begin(self, places: IndexPlaces) -> None:
        """Before the first step."""

    def prepare(self, places: IndexPlaces) -> None:
        """What a step needs, and what later ones do."""

    def at(self, places: IndexPlaces, vector: int) -> tuple[LlvmValue, int]:
        """Where a tile begins that is ready, and how many bytes its rows are apart."""


def moving_operand_tiles(block: RegisterTile, dot: DotInstruction) -> MovingOperandTiles:
    """As they are in panels, or made of what is coded, or of rows that lie one behind the other."""
    storage = block.tile.access.storages[dot.moving.buffer]
    if isinstance(storage, CodedBuffer):
        return _DecodedTiles(block, dot, storage)
    return (
        _PackedTiles(block, dot, storage)
        if isinstance(storage, PackedBuffer)
        else _InterleavedTiles(block, dot)
    )


@dataclass(frozen=True)
class _OperandTiles:
    """What all of them know."""

    block: RegisterTile
    dot: DotInstruction

    @property
    def access(self) -> BufferAccess:
        return self.block.tile.access

    @property
    def writer(self) -> FunctionBuilder:
        return self.block.tile.writer

    def spot(self, places: IndexPlaces, vector: int) -> LaneAddress:
        """Of the lanes of a vector."""
        along = self.block.tile.shape.along
        assert along is not None, "lanes lie along it"
        own = {**places, along: places[along] + vector * AMX_LANES}
        return LaneAddress(own, along, AMX_LANES, self.block.mask)

    def below(self, places: IndexPlaces, rows: Linear | int) -> IndexPlaces:
        return {**places, self.dot.inner: places[self.dot.inner] + rows}


@dataclass(frozen=True)
class _PackedTiles(_OperandTiles):
    """Nothing is to be done but to fetch later ones."""

    storage: PackedBuffer

    def begin(self, places: IndexPlaces) -> None:
        pass

    def prepare(self, places: IndexPlaces) -> None:
        for pair in range(AMX_DEPTH // 2):
            ReductionStep(self.block).fetch(self.below(places, 2 * pair))

    def at(self, places: IndexPlaces, vector: int) -> tuple[LlvmValue, int]:
        flat, pair = self.storage.flat, 2 * self.storage.layout.width
        offset, _ = self.access.in_panels(self.storage, self.dot.moving, self.spot(places, vector))
        return self.access.memory.address(flat, offset), pair * STORED[flat.dtype][1]


@dataclass(frozen=True)
class _StagedTiles(_OperandTiles):
    """In a room for two steps, each of which uses one half."""

    def which(self, places: IndexPlaces) -> LlvmInteger:
        """The number of a step, even or odd."""
        inner, writer = self.dot.inner, self.writer
        number, _ = (places[inner] - self.block.tile.ranges[inner].base).over(AMX_DEPTH, writer)
        return number.over(2, writer)[1].whole(writer)

    def at(self, places: IndexPlaces, vector: int) -> tuple[LlvmValue, int]:
        return self.room(self.which(places), vector), AMX_ROW_BYTES

    def put(self, which: LlvmInteger, vector: int, pair: Linear, value: LlvmValue) -> None:
        """One row of a tile: two of the factor, interleaved."""
        where = self.room(which, vector, pair)
        self.writer.say(f"store {value}, ptr {where.text}, align {AMX_ROW_BYTES}")

    def room(self, which: LlvmInteger, vector: int, pair: Linear | None = None) -> LlvmValue:
        vectors = self.block.vectors
        room = self.writer.room("moving", 2 * vectors * _TILE_BYTES)
        begin = linear(which) * (vectors * _TILE_BYTES) + vector * _TILE_BYTES
        begin += (pair or Linear()) * AMX_ROW_BYTES
        return self.access.memory.address(as_bytes(room), begin)


@dataclass(frozen=True)
class _DecodedTiles(_StagedTiles):
    """One step before tiles are loaded: they are in memory by then.

    Behind the last step that is read which follows a panel's codes, and never loaded. A panel has
    room for its elements as they are, which is enough for one step more.
    """

    storage: CodedBuffer

    def begin(self, places: IndexPlaces) -> None:
        own = self.block.tile.ranges[self.dot.inner]
        first = partial(self._decode, {**places, self.dot.inner: own.base}, 0)
        self.writer.only_when(self.writer.below(AMX_DEPTH - 1, own.extent), first)
        self.access.forget()

    def prepare(self, places: IndexPlaces) -> None:
        other = self.writer.subtract(1, self.which(places))
        self._decode(self.below(places, AMX_DEPTH), other)

    def _decode(self, places: IndexPlaces, which: LlvmInteger) -> None:
        rows = self.storage.sizes[self.storage.layout.row]
        assert rows >= AMX_DEPTH, "else there is no step"
        for vector in range(0, self.block.vectors, 2):
            two = partial(self._two, places, which, vector)
            self.writer.repeat(0, AMX_DEPTH // 2 // _VECTORS_AT_ONCE, two)
        self.access.forget()

    def _two(self, places: IndexPlaces, which: LlvmInteger, vector: int, turn: LlvmInteger) -> None:
        """Some rows of the tiles of two vectors."""
        self.access.forget()
        for number in range(_VECTORS_AT_ONCE):
            pair = linear(turn) * _VECTORS_AT_ONCE + number
            row = self.below(places, pair * 2)
            if vector == 0:
                ReductionStep(self.block).fetch(row)
            for one in (vector, vector + 1):
                value = self.access.pairs(self.storage, self.dot.moving, self.spot(row, one))
                self.put(which, one, pair, value)


@dataclass(frozen=True)
class _InterleavedTiles(_StagedTiles):
    """Of rows of memory, right before tiles are loaded: what is stored stays in the first cache."""

    def begin(self, places: IndexPlaces) -> None:
        pass

    def prepare(self, places: IndexPlaces) -> None:
        which, fetch = self.which(places), ReductionStep(self.block).fetch
        for pair in range(AMX_DEPTH // 2):
            self.access.forget()
            rows = [self.below(places, 2 * pair + odd) for odd in range(2)]
            fetch(rows[0], pairs=True)
            for vector in range(0, self.block.vectors, 2):
                for at, value in enumerate(self._woven(rows, vector), vector):
                    self.put(which, at, linear(pair), value)
        self.access.forget()

    def _woven(self, rows: Sequence[IndexPlaces], vector: int) -> Sequence[LlvmValue]:
        """Two rows of two vectors, which are a line of memory each, or of the last one."""
        vectors, spots = self.access.vectors, [self.spot(one, vector) for one in rows]
        if vector + 1 == self.block.vectors:
            return (vectors.interleaved(*(self._read(one) for one in spots)),)
        whole = (replace(one, lanes=2 * AMX_LANES) for one in spots)
        return vectors.by_turns(*(self._read(one) for one in whole))

    def _read(self, spot: LaneAddress) -> LlvmValue:
        offset = self.access.offset(self._storage, self.dot.moving.at, spot)
        return self.access.once(self._storage, offset, spot.lanes, spot.mask)

    @cached_property
    def _storage(self) -> Storage:
        found = self.access.storages[self.dot.moving.buffer]
        assert isinstance(found, Storage), "it is as it lies"
        return found


pass


def matrix_product(tile: StageTile, machine: CpuMachine) -> DotInstruction | None:
    """What a matrix unit is to do for a stage; nothing where it is none of its products."""
    shape = tile.shape
    if (
        not machine.bf16_matrix
        or tile.lanes != AMX_LANES
        or tile.lane_folded
        or shape.inner is None
    ):
        return None
    own = tile.ranges[shape.inner]
    dot = dot_product_of(tile.stage, shape.inner, shape.along, tile.elements)
    if dot is None or own.largest < AMX_DEPTH or not own.base.divisible(2):
        return None
    if isinstance(tile.access.storages[dot.shared.buffer], PackedBuffer):
        return None
    _, apart = _broadcast_rows(dot, tile)
    fits = amx_tiles_needed(shape.rows, shape.vectors) <= AMX_TILES
    return dot if fits and apart is not None else None


def _broadcast_rows(dot: DotInstruction, tile: StageTile) -> tuple[Storage, int | None]:
    """The shared factor, and how many elements behind one row the next one is, if that is even."""
    storage = tile.access.storages[dot.shared.buffer]
    assert isinstance(storage, Storage), "pairs are taken from rows"
    return storage, tile.access.stride(storage, dot.shared.at, tile.shape.row)


class MatrixReduction:
    """Sums that are in tiles."""

    def __init__(self, block: RegisterTile, dot: DotInstruction, unit: AmxUnit) -> None:
        self._block, self._dot, self._unit = block, dot, unit
        self._tile = block.tile
        self._setting = AmxTileAssignment(block.rows, block.tile.shape.vectors)
        self._moving = moving_operand_tiles(block, dot)
        self._rest = self._left()

    def begun(self, starts: AccumulatorInit | None = None) -> list[LlvmValue]:
        self._unit.begin(self._setting, starts)
        return self._rest.begun() if self._rest else []

    def along(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        self._moving.begin(places)
        unrolled_loop(self._tile, self._dot.inner, AMX_DEPTH, places, [], self._taken)
        return self._rest.along(places, values) if self._rest else values

    def ended(self, values: list[LlvmValue], take: ElementSink) -> None:
        """By a loop over the rows: there are more sums than registers."""
        unit, setting, vectors = self._unit, self._setting, range(self._block.vectors)
        for part in range(len(setting.heights)):
            for vector in vectors:
                unit.store(setting.sums(part, vector))
        unit.end(setting)
        if values:
            others = iter(values)
            found = (
                self._tile.joined(
                    [unit.row(setting.sums(row // AMX_ROWS, at), row % AMX_ROWS)], [other]
                )[0]
                for row in range(self._block.rows)
                for at, other in zip(vectors, others, strict=False)
            )
            self._block.hand_on(found, take)
            return
        for part, height in enumerate(setting.heights):
            self._tile.writer.repeat(0, height, partial(self._row, part, take))
        self._tile.access.forget()

    def _row(self, part: int, take: ElementSink, number: LlvmInteger) -> None:
        """Of one part; what is read in a turn of the loop is not there in another one."""
        self._tile.access.forget()
        places, row = self._block.places, self._tile.shape.row
        if row is not None:
            places = {**places, row: places[row] + linear(number) + part * AMX_ROWS}
        for vector, spot in enumerate(self._block.row(places)):
            take(spot, self._unit.row(self._setting.sums(part, vector), number))

    def _left(self) -> RowReduction | None:
        """What does the last products of an index that is no multiple of what the unit takes."""
        tile, inner = self._tile, self._dot.inner
        own, writer = tile.ranges[inner], tile.writer
        if not own.rests(AMX_DEPTH):
            return None
        done = linear(writer.divide(own.extent, AMX_DEPTH)) * AMX_DEPTH
        extents = sorted({extent % AMX_DEPTH for extent in own.extents}, reverse=True)
        rest = TileRange(own.base + done, writer.remainder(own.extent, AMX_DEPTH), tuple(extents))
        return RowReduction(
            replace(self._block, tile=replace(tile, ranges={**tile.ranges, inner: rest}))
        )

    def _taken(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
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

    def _shared(self, places: IndexPlaces, part: int) -> tuple[LlvmValue, int]:
        """Where a part of rows begins, and how many bytes they are apart."""
        access, shared, row = self._tile.access, self._dot.shared, self._tile.shape.row
        storage, apart = _broadcast_rows(self._dot, self._tile)
        assert apart is not None, "it was asked before"
        if row is not None:
            places = {**places, row: places[row] + part * AMX_ROWS}
        offset = access.offset(storage, shared.at, LaneAddress(places))
        return access.memory.address(storage, offset), apart * STORED[storage.dtype][1]
