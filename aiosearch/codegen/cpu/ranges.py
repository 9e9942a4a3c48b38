"""From where to where an index runs in a block, and which lengths that can have."""

from __future__ import annotations

from dataclasses import dataclass

from .linear import Linear
from .writer import Whole


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


def known(size: int) -> Range:
    """A whole axis."""
    return Range(Linear(), size, (size,))
