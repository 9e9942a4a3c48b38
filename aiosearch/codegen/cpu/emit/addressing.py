"""Lane addresses: ranges of indices in a block, and positions computed from them.

Where positions are at a spot: in the first lane as a sum, in all of them as a vector.

From where to where an index runs in a block, and which lengths that can have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...ir import Affine, LoopIndex, Mixed, Position, Quotient, Remainder, indices
from ...ir.affine_maps import bounds
from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue, i64
from ...llvm.linear import Linear, linear
from ...llvm.vectors import Vectors

IndexPlaces: TypeAlias = Mapping[LoopIndex, Linear]


@dataclass(frozen=True)
class LaneAddress:
    """Where the indices are, and along which one of them lanes lie."""

    places: IndexPlaces
    along: LoopIndex | None = None
    lanes: int = 1
    mask: LlvmValue | None = None
    """The lanes that count; all, where there is none."""
    guarded: bool = False
    """Whether even one element that all lanes share may not be there, unless a lane counts."""

    def moves(self, position: Position) -> bool:
        """Whether a position differs from lane to lane."""
        return self.along is not None and self.lanes > 1 and self.along in set(indices(position))


pass


class PositionEmitter:
    """Computes positions where a writer stands."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._writer = vectors.writer

    def first(self, position: Position, spot: LaneAddress) -> Linear:
        """In the first lane."""
        match position:
            case Affine():
                found = Linear((), position.offset)
                for one, factor in position.terms:
                    found += spot.places[one] * factor
                return found
            case Mixed():
                found = self.first(position.rest, spot)
                for part, factor in position.terms:
                    found += self.first(part, spot) * factor
                return found
        return self._divided(position, spot)

    def all(self, position: Position, spot: LaneAddress) -> LlvmValue:
        """In every lane; of one lane where it is the same in all."""
        if not spot.moves(position):
            return i64(self._first(position, spot))
        step = self.step(position, spot.along)
        if step is not None:
            return self._vectors.steps(self._first(position, spot), step, spot.lanes)
        if isinstance(position, Mixed):
            return self._sum(position, spot)
        assert not isinstance(position, Affine), "it has a step"
        return self._all_divided(position, spot)

    def step(self, position: Position, along: LoopIndex | None) -> int | None:
        """How far a position moves from lane to lane; nothing where that is not always the same."""
        if along is None or along not in set(indices(position)):
            return 0
        match position:
            case Affine():
                return dict(position.terms)[along]
            case Mixed() if all(along not in set(indices(part)) for part, _ in position.terms):
                return dict(position.rest.terms)[along]
        return None

    def _first(self, position: Position, spot: LaneAddress) -> LlvmInteger:
        return self.first(position, spot).whole(self._writer)

    def _divided(self, position: Quotient | Remainder, spot: LaneAddress) -> Linear:
        up, by = _nonnegative_offset(position), position.by
        inner = (self.first(position.position, spot) + up).whole(self._writer)
        if isinstance(position, Remainder):
            return linear(self._writer.remainder(inner, by))
        return linear(self._writer.divide(inner, by)) + -(up // by)

    def _all_divided(self, position: Quotient | Remainder, spot: LaneAddress) -> LlvmValue:
        two, up = self._vectors.two, _nonnegative_offset(position)
        by = self._wide(position.by, spot)
        inner = two("add", self.all(position.position, spot), self._wide(up, spot))
        if isinstance(position, Remainder):
            return two("urem", inner, by)
        return two("add", two("udiv", inner, by), self._wide(-(up // position.by), spot))

    def _sum(self, position: Mixed, spot: LaneAddress) -> LlvmValue:
        two, found = self._vectors.two, self._wide(0, spot)
        for part, factor in [(position.rest, 1), *position.terms]:
            own = self._vectors.spread(self.all(part, spot), spot.lanes)
            found = two("add", found, two("mul", own, self._wide(factor, spot)))
        return found

    def _wide(self, number: int, spot: LaneAddress) -> LlvmValue:
        return self._vectors.constant(number, "i64", spot.lanes)


def _nonnegative_offset(position: Quotient | Remainder) -> int:
    """What to add before a division, so that it is none of a number below zero."""
    return max(0, -(bounds(position.position)[0] // position.by) * position.by)


@dataclass(frozen=True)
class TileRange:
    base: Linear
    extent: LlvmInteger
    """A number where all tiles are of one size."""
    extents: tuple[int, ...]
    """All that it can be, the usual one first."""

    @property
    def largest(self) -> int:
        return self.extents[0]

    def rests(self, step: int) -> list[int]:
        """What can be left behind whole steps; zero is not named."""
        return sorted({extent % step for extent in self.extents} - {0})

    def steps(
        self,
        writer: FunctionBuilder,
        begin: LlvmInteger,
        end: LlvmInteger,
        width: int,
        body: Callable[[Linear], None],
    ) -> None:
        """A loop along it by steps of a width, from one number of them to before another."""
        writer.repeat(begin, end, lambda number: body(self.base + linear(number) * width))


def whole_axis_range(size: int) -> TileRange:
    """A whole axis."""
    return TileRange(Linear(), size, (size,))


def tile_range(size: int, tile: int, number: LlvmInteger, writer: FunctionBuilder) -> TileRange:
    """One of the tiles of an axis, of which the last may be shorter."""
    base = linear(number) * tile
    if size % tile == 0:
        return TileRange(base, tile, (tile,))
    left = writer.subtract(size, base.whole(writer))
    return TileRange(base, writer.least(tile, left), (tile, size % tile))
