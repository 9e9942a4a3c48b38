"""Reductions by AMX, and how tiles of the varying operand get into its registers.

The problem: AMX adds a product of tiles, 16 rows by 32 of one operand times 32 by 16 columns of the
other, to 16 x 16 sums. Rows of the first operand are loaded as they are. The second needs rows
interleaved in pairs, 16 pairs of 64 bytes: they are in packed panels already (`_PackedTiles`), or
are decoded from coded panels (`_DecodedTiles`), or are interleaved from unpacked rows
(`_InterleavedTiles`), both through a small buffer that stays in L1.

Example: bf16 `X[32, 4096] @ W[4096, 4096]`, 32 rows by 2 vectors. Of the 8 tile registers, 4 hold
sums (2 parts of 16 rows by 2 vectors), 2 a part of X each, and 2 a vector of W each. A step of 32
products loads 4 tiles and issues 4 `tdpbf16ps`; 128 steps make a sum of 4,096 products. With 4,100
products, the last 4 are added by dot instructions.

Invariants: sums stay in tile registers over the whole loop; the buffer has two halves, and a step
writes one while the tiles of the other are loaded; the same tile configuration is used by all full
register tiles, as loading one is slow.

Cost: 16 cycles per `tdpbf16ps` and 8 per tile load, on an Emerald Rapids (`cost.reduction_cost`).
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
"""Bytes of one tile of the varying operand: 16 pairs of rows."""
_PAIRS_PER_ITERATION = 4
"""Pairs of rows that are decoded per iteration; more makes code longer but not faster, on an
Emerald Rapids."""


class MovingOperandTiles(Protocol):
    """Supplies the tiles of the varying operand, one per vector of a register tile and step."""

    def begin(self, places: IndexPlaces) -> None:
        """Prints what is needed before the first step."""

    def prepare(self, places: IndexPlaces) -> None:
        """Prints what the step at `places` needs, and what later ones prefetch."""

    def at(self, places: IndexPlaces, vector: int) -> tuple[LlvmValue, int]:
        """Where the tile of a `vector` begins, and how many bytes its rows are apart."""


def moving_operand_tiles(block: RegisterTile, dot: DotInstruction) -> MovingOperandTiles:
    """The supplier for the storage of `dot.moving`."""
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
    """What all suppliers share."""

    block: RegisterTile
    dot: DotInstruction

    @property
    def access(self) -> BufferAccess:
        """Loads and stores of the stage."""
        return self.block.tile.access

    @property
    def writer(self) -> FunctionBuilder:
        """The builder of the function."""
        return self.block.tile.writer

    def spot(self, places: IndexPlaces, vector: int) -> LaneAddress:
        """The lane address of a `vector` of the register tile."""
        along = self.block.tile.shape.along
        assert along is not None, "lanes lie along it"
        moved = {**places, along: places[along] + vector * AMX_LANES}
        return LaneAddress(moved, along, AMX_LANES, self.block.mask)

    def below(self, places: IndexPlaces, rows: Linear | int) -> IndexPlaces:
        """The position so many rows further down."""
        return {**places, self.dot.inner: places[self.dot.inner] + rows}


@dataclass(frozen=True)
class _PackedTiles(_OperandTiles):
    """Tiles of packed pairs, which are loaded as they are."""

    storage: PackedBuffer

    def begin(self, places: IndexPlaces) -> None:
        pass

    def prepare(self, places: IndexPlaces) -> None:
        for pair in range(AMX_DEPTH // 2):
            ReductionStep(self.block).fetch(self.below(places, 2 * pair))

    def at(self, places: IndexPlaces, vector: int) -> tuple[LlvmValue, int]:
        flat, pair = self.storage.flat, 2 * self.storage.layout.width
        # A tile's rows are pairs of a panel's rows, so they are a whole panel's width apart.
        offset, _ = self.access.in_panels(self.storage, self.dot.moving, self.spot(places, vector))
        return self.access.memory.address(flat, offset), pair * STORED[flat.dtype][1]


@dataclass(frozen=True)
class _StagedTiles(_OperandTiles):
    """Tiles written to a buffer for two steps, one half each."""

    def which(self, places: IndexPlaces) -> LlvmInteger:
        """The half for the step at `places`: the step's number modulo two."""
        inner, writer = self.dot.inner, self.writer
        # The position is a multiple of the step's depth, so the division is exact.
        number, _ = (places[inner] - self.block.tile.ranges[inner].base).divmod(AMX_DEPTH, writer)
        return number.divmod(2, writer)[1].evaluate(writer)

    def at(self, places: IndexPlaces, vector: int) -> tuple[LlvmValue, int]:
        return self.slot_address(self.which(places), vector), AMX_ROW_BYTES

    def put(self, which: LlvmInteger, vector: int, pair: Linear, value: LlvmValue) -> None:
        """Stores one row of a tile: two rows of the operand, interleaved."""
        where = self.slot_address(which, vector, pair)
        self.writer.emit(f"store {value}, ptr {where.text}, align {AMX_ROW_BYTES}")

    def slot_address(
        self, which: LlvmInteger, vector: int, pair: Linear | None = None
    ) -> LlvmValue:
        """The address of a tile, or of one of its rows, in the buffer."""
        vectors = self.block.vectors
        room = self.writer.stack_memory("moving", 2 * vectors * _TILE_BYTES)
        begin = linear(which) * (vectors * _TILE_BYTES) + vector * _TILE_BYTES
        begin += (pair or Linear()) * AMX_ROW_BYTES
        return self.access.memory.address(as_bytes(room), begin)


@dataclass(frozen=True)
class _DecodedTiles(_StagedTiles):
    """Tiles decoded from coded panels, one step ahead, so that stores have reached L1 when tiles
    are loaded.

    The step behind the last one is decoded as well and never loaded. It reads what follows the
    panel's codes: a panel has room for its elements uncoded, which is more than one step.
    """

    storage: CodedBuffer

    def begin(self, places: IndexPlaces) -> None:
        inner_range = self.block.tile.ranges[self.dot.inner]
        # A reduction shorter than a step has none to decode.
        first = partial(self._decode, {**places, self.dot.inner: inner_range.base}, 0)
        self.writer.only_when(self.writer.below(AMX_DEPTH - 1, inner_range.extent), first)
        self.access.forget()

    def prepare(self, places: IndexPlaces) -> None:
        next_half = self.writer.subtract(1, self.which(places))
        self._decode(self.below(places, AMX_DEPTH), next_half)

    def _decode(self, places: IndexPlaces, which: LlvmInteger) -> None:
        """Prints the decoding of one step into a half of the buffer."""
        # `matrix_product` refuses reductions shorter than a step.
        rows = self.storage.sizes[self.storage.layout.row]
        assert rows >= AMX_DEPTH, "else there is no step"
        for vector in range(0, self.block.vectors, 2):
            two = partial(self._decode_pair, places, which, vector)
            self.writer.repeat(0, AMX_DEPTH // 2 // _PAIRS_PER_ITERATION, two)
        self.access.forget()

    def _decode_pair(
        self, places: IndexPlaces, which: LlvmInteger, vector: int, turn: LlvmInteger
    ) -> None:
        """Decodes some rows of the tiles of two vectors, which `decode_vectors` decodes
        together."""
        self.access.forget()
        for number in range(_PAIRS_PER_ITERATION):
            pair = linear(turn) * _PAIRS_PER_ITERATION + number
            row = self.below(places, pair * 2)
            if vector == 0:
                ReductionStep(self.block).fetch(row)
            for column in (vector, vector + 1):
                value = self.access.pairs(self.storage, self.dot.moving, self.spot(row, column))
                self.put(which, column, pair, value)


@dataclass(frozen=True)
class _InterleavedTiles(_StagedTiles):
    """Tiles interleaved from unpacked rows, right before they are loaded."""

    def begin(self, places: IndexPlaces) -> None:
        pass

    def prepare(self, places: IndexPlaces) -> None:
        # Interleaved rows are used by the next instruction, so no second half would be needed; the
        # halves keep its stores apart from loads that still run.
        which, fetch = self.which(places), ReductionStep(self.block).fetch
        for pair in range(AMX_DEPTH // 2):
            self.access.forget()
            rows = [self.below(places, 2 * pair + odd) for odd in range(2)]
            fetch(rows[0], pairs=True)
            for vector in range(0, self.block.vectors, 2):
                for at, value in enumerate(self._interleaved_rows(rows, vector), vector):
                    self.put(which, at, linear(pair), value)
        self.access.forget()

    def _interleaved_rows(self, rows: Sequence[IndexPlaces], vector: int) -> Sequence[LlvmValue]:
        """Two rows of two neighbouring vectors, interleaved: a cache line of each row, or half of
        one for the last vector."""
        vectors, spots = self.access.vectors, [self.spot(row, vector) for row in rows]
        # The last vector of an odd number has no neighbour to share its cache line with.
        if vector + 1 == self.block.vectors:
            return (vectors.interleaved(*(self._read(spot) for spot in spots)),)
        whole = (replace(spot, lanes=2 * AMX_LANES) for spot in spots)
        return vectors.interleaved_pair(*(self._read(spot) for spot in whole))

    def _read(self, spot: LaneAddress) -> LlvmValue:
        """A vector of one row."""
        offset = self.access.offset(self._storage, self.dot.moving.at, spot)
        return self.access.once(self._storage, offset, spot.lanes, spot.mask)

    @cached_property
    def _storage(self) -> Storage:
        """The row-major storage of the operand."""
        storage = self.access.storages[self.dot.moving.buffer]
        assert isinstance(storage, Storage), "it is as it lies"
        return storage


def matrix_product(tile: StageTile, machine: CpuMachine) -> DotInstruction | None:
    """The product that AMX computes of a stage; `None` if the stage is none, or its operands are
    not where AMX needs them."""
    shape = tile.shape
    if (
        not machine.bf16_matrix
        or tile.lanes != AMX_LANES
        or tile.lane_reduction
        or shape.inner is None
    ):
        return None
    inner_range = tile.ranges[shape.inner]
    dot = dot_product_of(tile.stage, shape.inner, shape.along, tile.elements)
    if dot is None or inner_range.largest < AMX_DEPTH or not inner_range.base.divisible(2):
        return None
    if isinstance(tile.access.storages[dot.shared.buffer], PackedBuffer):
        return None
    _, apart = _broadcast_rows(dot, tile)
    # An operand in packed panels has its rows interleaved, so AMX could not load them as rows.
    fits = amx_tiles_needed(shape.rows, shape.vectors) <= AMX_TILES
    return dot if fits and apart is not None else None


def _broadcast_rows(dot: DotInstruction, tile: StageTile) -> tuple[Storage, int | None]:
    """The storage of the operand whose rows are loaded as they are, and the stride of its rows,
    `None` if that is not constant."""
    storage = tile.access.storages[dot.shared.buffer]
    assert isinstance(storage, Storage), "pairs are taken from rows"
    return storage, tile.access.stride(storage, dot.shared.at, tile.shape.row)


class MatrixReduction:
    """A reduction whose sums are in tile registers."""

    def __init__(self, block: RegisterTile, dot: DotInstruction, unit: AmxUnit) -> None:
        self._register_tile, self._dot, self._unit = block, dot, unit
        self._tile = block.tile
        self._setting = AmxTileAssignment(block.rows, block.tile.shape.vectors)
        self._moving = moving_operand_tiles(block, dot)
        self._rest = self._remainder_reduction()

    def initial_values(self, starts: AccumulatorInit | None = None) -> list[LlvmValue]:
        """Prints the configuration and initial sums; the values are those of the remainder's
        accumulators."""
        self._unit.begin(self._setting, starts)
        return self._rest.initial_values() if self._rest else []

    def accumulate(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        """Prints the loop over steps of `AMX_DEPTH`, and the remainder by dot instructions."""
        self._moving.begin(places)
        unrolled_loop(self._tile, self._dot.inner, AMX_DEPTH, places, [], self._step)
        return self._rest.accumulate(places, values) if self._rest else values

    def finish(self, values: list[LlvmValue], take: ElementSink) -> None:
        """Stores the tiles and hands on their rows, in a loop: there are more sums than vector
        registers."""
        unit, setting, vectors = self._unit, self._setting, range(self._register_tile.vectors)
        for part in range(len(setting.heights)):
            for vector in vectors:
                unit.store(setting.sums(part, vector))
        unit.end(setting)
        # The remainder's accumulators are vectors, unrolled anyway, so its rows are added one by
        # one.
        if values:
            remainders = iter(values)
            totals = (
                self._tile.combined(
                    [unit.row(setting.sums(row // AMX_ROWS, at), row % AMX_ROWS)], [remainder]
                )[0]
                for row in range(self._register_tile.rows)
                for at, remainder in zip(vectors, remainders, strict=False)
            )
            self._register_tile.hand_on(totals, take)
            return
        for part, height in enumerate(setting.heights):
            self._tile.writer.repeat(0, height, partial(self._row, part, take))
        self._tile.access.forget()

    def _row(self, part: int, take: ElementSink, number: LlvmInteger) -> None:
        """Hands on one row of a `part`."""
        self._tile.access.forget()
        places, row = self._register_tile.places, self._tile.shape.row
        if row is not None:
            places = {**places, row: places[row] + linear(number) + part * AMX_ROWS}
        for vector, spot in enumerate(self._register_tile.row(places)):
            take(spot, self._unit.row(self._setting.sums(part, vector), number))

    def _remainder_reduction(self) -> RowReduction | None:
        """The reduction of what is left of whole steps; `None` if nothing ever is."""
        tile, inner = self._tile, self._dot.inner
        inner_range, writer = tile.ranges[inner], tile.writer
        if not inner_range.remainders(AMX_DEPTH):
            return None
        # Steps of AMX cover whole multiples of 32; what remains runs from there to the end.
        done = linear(writer.divide(inner_range.extent, AMX_DEPTH)) * AMX_DEPTH
        extents = sorted({extent % AMX_DEPTH for extent in inner_range.extents}, reverse=True)
        remainder = TileRange(
            inner_range.base + done, writer.remainder(inner_range.extent, AMX_DEPTH), tuple(extents)
        )
        return RowReduction(
            replace(
                self._register_tile, tile=replace(tile, ranges={**tile.ranges, inner: remainder})
            )
        )

    def _step(self, places: IndexPlaces, values: list[LlvmValue]) -> list[LlvmValue]:
        """Prints one step: the tiles of both operands are loaded and multiplied."""
        unit, setting = self._unit, self._setting
        self._moving.prepare(places)
        for part in range(len(setting.heights)):
            unit.load(setting.shared(part), *self._shared(places, part))
        for vector in range(self._register_tile.vectors):
            # Vector by vector, so that two tiles of the varying operand suffice: one is loaded
            # while the other is multiplied.
            unit.load(setting.moving(vector), *self._moving.at(places, vector))
            for part in range(len(setting.heights)):
                sums = setting.sums(part, vector)
                unit.multiply(sums, setting.shared(part), setting.moving(vector))
        return values

    def _shared(self, places: IndexPlaces, part: int) -> tuple[LlvmValue, int]:
        """Where a `part` of the rows begins, and how many bytes they are apart."""
        access, shared, row = self._tile.access, self._dot.shared, self._tile.shape.row
        storage, apart = _broadcast_rows(self._dot, self._tile)
        assert apart is not None, "it was asked before"
        if row is not None:
            places = {**places, row: places[row] + part * AMX_ROWS}
        offset = access.offset(storage, shared.at, LaneAddress(places))
        return access.memory.address(storage, offset), apart * STORED[storage.dtype][1]
