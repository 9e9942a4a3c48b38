"""From where to where an index runs in a block, and which lengths that can have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .linear import Linear, linear
from .values import Whole
from .writer import Writer


@dataclass(frozen=True)
class Range:
    base: Linear
    extent: Whole
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
        self, writer: Writer, begin: Whole, end: Whole, width: int, body: Callable[[Linear], None]
    ) -> None:
        """A loop along it by steps of a width, from one number of them to before another."""
        writer.repeat(begin, end, lambda number: body(self.base + linear(number) * width))


def known(size: int) -> Range:
    """A whole axis."""
    return Range(Linear(), size, (size,))


def cut(size: int, tile: int, number: Whole, writer: Writer) -> Range:
    """One of the tiles of an axis, of which the last may be shorter."""
    base = linear(number) * tile
    if size % tile == 0:
        return Range(base, tile, (tile,))
    left = writer.subtract(size, base.whole(writer))
    return Range(base, writer.least(tile, left), (tile, size % tile))
