"""Where code works at a moment: at one element, or at neighbours along an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..ir import Index, Position, indices
from .linear import Linear
from .values import Value

Places: TypeAlias = Mapping[Index, Linear]


@dataclass(frozen=True)
class Spot:
    """Where the indices are, and along which one of them lanes lie."""

    places: Places
    along: Index | None = None
    lanes: int = 1
    mask: Value | None = None
    """The lanes that count; all, where there is none."""
    guarded: bool = False
    """Whether even one element that all lanes share may not be there, unless a lane counts."""

    def moves(self, position: Position) -> bool:
        """Whether a position differs from lane to lane."""
        return self.along is not None and self.lanes > 1 and self.along in set(indices(position))
