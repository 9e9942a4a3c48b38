"""Where positions are at a spot: in the first lane as a sum, in all of them as a vector."""

from __future__ import annotations

from ..ir import Affine, Index, Mixed, Position, Quotient, Remainder, indices
from ..positions import bounds
from .linear import Linear, linear
from .spots import Spot
from .values import Value, Whole, i64
from .vectors import Vectors


class Locator:
    """Computes positions where a writer stands."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._writer = vectors.writer

    def first(self, position: Position, spot: Spot) -> Linear:
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

    def all(self, position: Position, spot: Spot) -> Value:
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

    def step(self, position: Position, along: Index | None) -> int | None:
        """How far a position moves from lane to lane; nothing where that is not always the same."""
        if along is None or along not in set(indices(position)):
            return 0
        match position:
            case Affine():
                return dict(position.terms)[along]
            case Mixed() if all(along not in set(indices(part)) for part, _ in position.terms):
                return dict(position.rest.terms)[along]
        return None

    def _first(self, position: Position, spot: Spot) -> Whole:
        return self.first(position, spot).whole(self._writer)

    def _divided(self, position: Quotient | Remainder, spot: Spot) -> Linear:
        up, by = _up(position), position.by
        inner = (self.first(position.position, spot) + up).whole(self._writer)
        if isinstance(position, Remainder):
            return linear(self._writer.remainder(inner, by))
        return linear(self._writer.divide(inner, by)) + -(up // by)

    def _all_divided(self, position: Quotient | Remainder, spot: Spot) -> Value:
        two, up = self._vectors.two, _up(position)
        by = self._wide(position.by, spot)
        inner = two("add", self.all(position.position, spot), self._wide(up, spot))
        if isinstance(position, Remainder):
            return two("urem", inner, by)
        return two("add", two("udiv", inner, by), self._wide(-(up // position.by), spot))

    def _sum(self, position: Mixed, spot: Spot) -> Value:
        two, found = self._vectors.two, self._wide(0, spot)
        for part, factor in [(position.rest, 1), *position.terms]:
            own = self._vectors.spread(self.all(part, spot), spot.lanes)
            found = two("add", found, two("mul", own, self._wide(factor, spot)))
        return found

    def _wide(self, number: int, spot: Spot) -> Value:
        return self._vectors.constant(number, "i64", spot.lanes)


def _up(position: Quotient | Remainder) -> int:
    """What to add before a division, so that it is none of a number below zero."""
    return max(0, -(bounds(position.position)[0] // position.by) * position.by)
