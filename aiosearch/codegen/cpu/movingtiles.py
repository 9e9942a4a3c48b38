"""The factor of a matrix unit's products that moves with the lanes: how its tiles come about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

from .access import Access
from .coded import Coded, as_bytes
from .dots import Dot
from .linear import Linear, linear
from .matrixunit import BYTES, DEPTH, LANES
from .memory import STORED, Storage
from .packed import Packed
from .registers import Block
from .spots import Places, Spot
from .steps import Step
from .values import Value, Whole
from .writer import Writer

_TILE = DEPTH // 2 * BYTES
_AT_ONCE = 4
"""Pairs of rows that are made ready in a turn: more is longer code, and no faster."""


class MovingTiles(Protocol):
    """One for each vector of a block, anew at each step."""

    def begin(self, places: Places) -> None:
        """Before the first step."""

    def prepare(self, places: Places) -> None:
        """What a step needs, and what later ones do."""

    def at(self, places: Places, vector: int) -> tuple[Value, int]:
        """Where a tile begins that is ready, and how many bytes its rows are apart."""


def moving_tiles(block: Block, dot: Dot) -> MovingTiles:
    """As they are in panels, or made of what is coded, or of rows that lie one behind the other."""
    storage = block.tile.access.storages[dot.moving.buffer]
    if isinstance(storage, Coded):
        return _Decoded(block, dot, storage)
    return _InPanels(block, dot, storage) if isinstance(storage, Packed) else _Woven(block, dot)


@dataclass(frozen=True)
class _Tiles:
    """What all of them know."""

    block: Block
    dot: Dot

    @property
    def access(self) -> Access:
        return self.block.tile.access

    @property
    def writer(self) -> Writer:
        return self.block.tile.writer

    def spot(self, places: Places, vector: int) -> Spot:
        """Of the lanes of a vector."""
        along = self.block.tile.shape.along
        assert along is not None, "lanes lie along it"
        own = {**places, along: places[along] + vector * LANES}
        return Spot(own, along, LANES, self.block.mask)

    def below(self, places: Places, rows: Linear | int) -> Places:
        return {**places, self.dot.inner: places[self.dot.inner] + rows}


@dataclass(frozen=True)
class _InPanels(_Tiles):
    """Nothing is to be done but to fetch later ones."""

    storage: Packed

    def begin(self, places: Places) -> None:
        pass

    def prepare(self, places: Places) -> None:
        for pair in range(DEPTH // 2):
            Step(self.block).fetch(self.below(places, 2 * pair))

    def at(self, places: Places, vector: int) -> tuple[Value, int]:
        flat, pair = self.storage.flat, 2 * self.storage.layout.width
        offset, _ = self.access.in_panels(self.storage, self.dot.moving, self.spot(places, vector))
        return self.access.memory.address(flat, offset), pair * STORED[flat.dtype][1]


@dataclass(frozen=True)
class _Made(_Tiles):
    """In a room for two steps, each of which uses one half."""

    def which(self, places: Places) -> Whole:
        """The number of a step, even or odd."""
        inner, writer = self.dot.inner, self.writer
        number, _ = (places[inner] - self.block.tile.ranges[inner].base).over(DEPTH, writer)
        return number.over(2, writer)[1].whole(writer)

    def at(self, places: Places, vector: int) -> tuple[Value, int]:
        return self.room(self.which(places), vector), BYTES

    def put(self, which: Whole, vector: int, pair: Linear, value: Value) -> None:
        """One row of a tile: two of the factor, interleaved."""
        where = self.room(which, vector, pair)
        self.writer.say(f"store {value}, ptr {where.text}, align {BYTES}")

    def room(self, which: Whole, vector: int, pair: Linear | None = None) -> Value:
        vectors = self.block.vectors
        room = self.writer.room("moving", 2 * vectors * _TILE)
        begin = linear(which) * (vectors * _TILE) + vector * _TILE
        begin += (pair or Linear()) * BYTES
        return self.access.memory.address(as_bytes(room), begin)


@dataclass(frozen=True)
class _Decoded(_Made):
    """One step before tiles are loaded: they are in memory by then.

    Behind the last step that is read which follows a panel's codes, and never loaded. A panel has
    room for its elements as they are, which is enough for one step more.
    """

    storage: Coded

    def begin(self, places: Places) -> None:
        own = self.block.tile.ranges[self.dot.inner]
        first = partial(self._decode, {**places, self.dot.inner: own.base}, 0)
        self.writer.only_when(self.writer.below(DEPTH - 1, own.extent), first)
        self.access.forget()

    def prepare(self, places: Places) -> None:
        other = self.writer.subtract(1, self.which(places))
        self._decode(self.below(places, DEPTH), other)

    def _decode(self, places: Places, which: Whole) -> None:
        rows = self.storage.sizes[self.storage.layout.row]
        assert rows >= DEPTH, "else there is no step"
        for vector in range(0, self.block.vectors, 2):
            two = partial(self._two, places, which, vector)
            self.writer.repeat(0, DEPTH // 2 // _AT_ONCE, two)
        self.access.forget()

    def _two(self, places: Places, which: Whole, vector: int, turn: Whole) -> None:
        """Some rows of the tiles of two vectors."""
        self.access.forget()
        for number in range(_AT_ONCE):
            pair = linear(turn) * _AT_ONCE + number
            row = self.below(places, pair * 2)
            if vector == 0:
                Step(self.block).fetch(row)
            for one in (vector, vector + 1):
                value = self.access.pairs(self.storage, self.dot.moving, self.spot(row, one))
                self.put(which, one, pair, value)


@dataclass(frozen=True)
class _Woven(_Made):
    """Of rows of memory, right before tiles are loaded: what is stored stays in the first cache."""

    def begin(self, places: Places) -> None:
        pass

    def prepare(self, places: Places) -> None:
        which, fetch = self.which(places), Step(self.block).fetch
        for pair in range(DEPTH // 2):
            self.access.forget()
            rows = [self.below(places, 2 * pair + odd) for odd in range(2)]
            fetch(rows[0], pairs=True)
            for vector in range(0, self.block.vectors, 2):
                for at, value in enumerate(self._woven(rows, vector), vector):
                    self.put(which, at, linear(pair), value)
        self.access.forget()

    def _woven(self, rows: Sequence[Places], vector: int) -> Sequence[Value]:
        """Two rows of two vectors, which are a line of memory each, or of the last one."""
        vectors, spots = self.access.vectors, [self.spot(one, vector) for one in rows]
        if vector + 1 == self.block.vectors:
            return (vectors.interleaved(*(self._read(one) for one in spots)),)
        whole = (replace(one, lanes=2 * LANES) for one in spots)
        return vectors.by_turns(*(self._read(one) for one in whole))

    def _read(self, spot: Spot) -> Value:
        offset = self.access.offset(self._storage, self.dot.moving.at, spot)
        return self.access.once(self._storage, offset, spot.lanes, spot.mask)

    @cached_property
    def _storage(self) -> Storage:
        found = self.access.storages[self.dot.moving.buffer]
        assert isinstance(found, Storage), "it is as it lies"
        return found
