"""Lane addresses: ranges of indices in a block, and buffer positions computed from them.

A position is an affine function of indices, a quotient or remainder of one, or a sum of these. At a
lane address it is a `Linear` for the first lane, and a vector where lanes differ.

Example: position `2*i + j` at i=5 with j vectorised from 16 on: the first lane is at 26, and lanes
are one apart. Position `j // 3` has no constant step, so every lane is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...ir import Affine, LoopIndex, Mixed, Position, Quotient, Remainder, indices
from ...ir.affine_maps import bounds
from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue, constant, i64
from ...llvm.linear import Linear, linear
from ...llvm.vectors import Vectors

IndexPlaces: TypeAlias = Mapping[LoopIndex, Linear]
"""The value of each index, as a linear function of LLVM values."""


@dataclass(frozen=True)
class LaneAddress:
    """The values of indices, and the index along which lanes differ."""

    places: IndexPlaces
    along: LoopIndex | None = None
    lanes: int = 1
    mask: LlvmValue | None = None
    """The lanes that count; `None` for all."""
    guarded: bool = False
    """Whether even an element that all lanes share exists only if some lane counts."""

    def moves(self, position: Position) -> bool:
        """Whether a `position` differs from lane to lane."""
        return self.along is not None and self.lanes > 1 and self.along in set(indices(position))


class PositionEmitter:
    """Prints the computation of positions."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._writer = vectors.writer

    def first(self, position: Position, spot: LaneAddress) -> Linear:
        """The `position` in the first lane."""
        match position:
            case Affine():
                total = Linear((), position.offset)
                for index, factor in position.terms:
                    total += spot.places[index] * factor
                return total
            case Mixed():
                total = self.first(position.rest, spot)
                for part, factor in position.terms:
                    total += self.first(part, spot) * factor
                return total
        return self._divided(position, spot)

    def all(self, position: Position, spot: LaneAddress) -> LlvmValue:
        """The `position` in every lane; a scalar where all lanes agree."""
        if not spot.moves(position):
            return i64(self._first(position, spot))
        # Most positions are affine: one addition of a constant vector.
        step = self.step(position, spot.along)
        if step is not None:
            return self._vectors.steps(self._first(position, spot), step, spot.lanes)
        if isinstance(position, Mixed):
            return self._sum(position, spot)
        assert not isinstance(position, Affine), "it has a step"
        return self._all_divided(position, spot)

    def step(self, position: Position, along: LoopIndex | None) -> int | None:
        """The distance between positions of neighbouring lanes; `None` if it is not constant."""
        if along is None or along not in set(indices(position)):
            return 0
        match position:
            case Affine():
                return dict(position.terms)[along]
            # Quotients in which the index does not occur are constant along the lanes.
            case Mixed() if all(along not in set(indices(part)) for part, _ in position.terms):
                return dict(position.rest.terms)[along]
        return None

    def _first(self, position: Position, spot: LaneAddress) -> LlvmInteger:
        """The `position` in the first lane, as one LLVM value."""
        return self.first(position, spot).evaluate(self._writer)

    def _divided(self, position: Quotient | Remainder, spot: LaneAddress) -> Linear:
        """A quotient or remainder in the first lane."""
        # `udiv` by a constant compiles to a multiplication and a shift, where signed floor division
        # needs a correction.
        up, by = _nonnegative_offset(position), position.by
        inner = (self.first(position.position, spot) + up).evaluate(self._writer)
        if isinstance(position, Remainder):
            return linear(self._writer.remainder(inner, by))
        return linear(self._writer.divide(inner, by)) + -(up // by)

    def _all_divided(self, position: Quotient | Remainder, spot: LaneAddress) -> LlvmValue:
        """A quotient or remainder in every lane."""
        two, up = self._vectors.binary, _nonnegative_offset(position)
        by = self._wide(position.by, spot)
        inner = two("add", self.all(position.position, spot), self._wide(up, spot))
        if isinstance(position, Remainder):
            return two("urem", inner, by)
        return two("add", two("udiv", inner, by), self._wide(-(up // position.by), spot))

    def _sum(self, position: Mixed, spot: LaneAddress) -> LlvmValue:
        """A sum of positions in every lane."""
        two, total = self._vectors.binary, self._wide(0, spot)
        for part, factor in [(position.rest, 1), *position.terms]:
            term = self._vectors.broadcast(self.all(part, spot), spot.lanes)
            total = two("add", total, two("mul", term, self._wide(factor, spot)))
        return total

    def _wide(self, number: int, spot: LaneAddress) -> LlvmValue:
        """A constant in every lane."""
        return constant(number, "i64", spot.lanes)


def _nonnegative_offset(position: Quotient | Remainder) -> int:
    """A multiple of the divisor that makes the dividend non-negative: LLVM's division truncates,
    and positions need the floor."""
    return max(0, -(bounds(position.position)[0] // position.by) * position.by)


@dataclass(frozen=True)
class TileRange:
    """The range of an index in a tile."""

    base: Linear
    """The first value."""
    extent: LlvmInteger
    """The length; a Python integer where all tiles have the same."""
    extents: tuple[int, ...]
    """All possible lengths, the usual one first."""

    @property
    def largest(self) -> int:
        """The length of most tiles."""
        return self.extents[0]

    def remainders(self, step: int) -> list[int]:
        """The possible lengths modulo `step`, without zero."""
        return sorted({extent % step for extent in self.extents} - {0})

    def steps(
        self,
        writer: FunctionBuilder,
        begin: LlvmInteger,
        end: LlvmInteger,
        width: int,
        body: Callable[[Linear], None],
    ) -> None:
        """Prints a loop along the range in steps of `width`, from step `begin` to before step
        `end`."""
        writer.repeat(begin, end, lambda number: body(self.base + linear(number) * width))


def whole_axis_range(size: int) -> TileRange:
    """The range of an index that is not cut."""
    return TileRange(Linear(), size, (size,))


def tile_range(size: int, tile: int, number: LlvmInteger, writer: FunctionBuilder) -> TileRange:
    """The range of tile `number` of an index of this size."""
    base = linear(number) * tile
    if size % tile == 0:
        return TileRange(base, tile, (tile,))
    left = writer.subtract(size, base.evaluate(writer))
    return TileRange(base, writer.minimum(tile, left), (tile, size % tile))
