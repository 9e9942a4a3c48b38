"""Along which axes a program's results are cut into rows."""

from __future__ import annotations

import math

from .demands import Pulled, pull
from .equations import Flat
from .loops import requirement
from .rules import WHOLE, Demand, Rows

MANY = 4
"""How many times as many rows make up for rows that are not contiguous in memory."""


def choose_rows(flat: Flat, least: int = 2) -> Pulled | None:
    """The way to run a program by rows in which most is computed so; None where nothing is.

    Each axis of the largest result is tried. Other results that have as many rows, along the same
    axis or else along their first such, come by rows too; the rest is computed whole.
    """
    shapes = [atom.shape for atom in flat.outputs]
    if not shapes:
        return None
    largest = max(shapes, key=math.prod)
    best: Pulled | None = None
    for axis, rows in enumerate(largest):
        if rows < least:
            continue
        demands = [_along(shape, axis, rows) for shape in shapes]
        pulled = pull(flat, list(zip(flat.outputs, demands, strict=True)), requirement)
        if pulled is None or not pulled.inside:
            continue
        if best is None or _is_better(pulled, rows, best):
            best = pulled
    return best


def _is_better(pulled: Pulled, rows: int, best: Pulled) -> bool:
    """Whether a later axis is worth its strides: more of the work, or many times as many rows."""
    gain = round(pulled.share, 2) - round(best.share, 2)
    return gain > 0 or (gain == 0 and rows >= MANY * rows_of(best))


def _along(shape: tuple[int, ...], axis: int, rows: int) -> Demand:
    if len(shape) > axis and shape[axis] == rows:
        return Rows(axis)
    return Rows(shape.index(rows)) if rows in shape else WHOLE


def rows_of(pulled: Pulled) -> int:
    """How many rows the results have that come by rows."""
    for atom, demand in pulled.targets:
        if demand is not WHOLE:
            return atom.shape[demand.axis]
    return 0
