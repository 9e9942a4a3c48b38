"""The numbers that a kernel is printed with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tiling:
    """How a kernel is cut for the device's blocks.

    An index of the outputs that has a tile here becomes an axis of the grid; a folded one becomes
    the loop that each block runs. All others lie whole in the block's tiles.
    """

    tiles: Mapping[str, int] = field(default_factory=dict)
    """By the index's name: a power of two."""
    warps: int = 4
    stages: int = 2
    """One more than how many of the loop's iterations are loaded ahead."""
    fastest: str | None = None
    """The axis of the grid along which blocks follow each other first; else the outputs' first."""

    def __str__(self) -> str:
        tiles = ", ".join(f"{name}: {tile}" for name, tile in self.tiles.items())
        first = f", {self.fastest} first" if self.fastest is not None else ""
        return f"{tiles or 'whole'}; {self.warps} warps, {self.stages} stages{first}"
