"""A block of registers: rows and vectors of a tile's elements that are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from .spots import Places, Spot
from .starts import Starts
from .tiles import Tile
from .values import Value

Take: TypeAlias = Callable[[Spot, Value], object]
"""Does something with what a register holds, and where that belongs."""


class Innermost(Protocol):
    """A fold along the index that runs innermost."""

    def begun(self, starts: Starts | None = None) -> list[Value]:
        """The parts of sums with which it goes on, before anything is folded into them.

        Where there are some, sums of floats start with these.
        """

    def along(self, places: Places, values: list[Value]) -> list[Value]:
        """The parts, with all elements of the index."""

    def ended(self, values: list[Value], take: Take) -> None:
        """Hands on the parts of each element, joined."""


@dataclass(frozen=True)
class Block:
    """Some rows and some vectors, beginning at some places."""

    tile: Tile
    places: Places
    rows: int
    vectors: int
    mask: Value | None
    """The lanes that count; all, where there is none."""

    @property
    def size(self) -> int:
        return self.rows * self.vectors

    def spots(self, places: Places) -> list[Spot]:
        """Where each register's lanes are when the block is at other places, row by row."""
        return [spot for row in range(self.rows) for spot in self.row(places, row)]

    def row(self, places: Places, row: int = 0) -> list[Spot]:
        """The same of one row."""
        return [self._spot(places, row, vector) for vector in range(self.vectors)]

    def targets(self) -> list[Spot]:
        """Where each register's result belongs."""
        spots = self.spots(self.places)
        if not self.tile.lane_folded:
            return spots
        return [replace(spot, along=None, lanes=1, mask=None) for spot in spots]

    def hand_on(self, values: Iterable[Value], take: Take) -> None:
        """One for each register."""
        for spot, value in zip(self.targets(), values, strict=True):
            take(spot, value)

    def _spot(self, places: Places, row: int, vector: int) -> Spot:
        shape, lanes, own = self.tile.shape, self.tile.lanes, dict(places)
        if shape.row is not None:
            own[shape.row] = places[shape.row] + row
        if shape.column is not None:
            own[shape.column] = places[shape.column] + vector
        elif shape.along is not None and not self.tile.lane_folded:
            own[shape.along] = places[shape.along] + vector * lanes
        return Spot(own, shape.along, lanes if shape.along else 1, self.mask)
