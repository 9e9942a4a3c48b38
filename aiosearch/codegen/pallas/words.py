"""A tiling in words, for those who look at a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .layout import Layout


def told(layout: Layout) -> str:
    """The kernel's name, and a line each: the grid, the way through a block, what it is given."""
    kernel, warps = layout.nodes.kernel.name, layout.tiling.warps
    return "\n  ".join([kernel, _grid(layout), *_way(layout), f"{warps} warps"])


def _grid(layout: Layout) -> str:
    cut = [one for one in layout.grid if layout.steps(one) > 1]
    if not cut:
        return "one block"
    count = math.prod(map(layout.steps, cut))
    tiles = " and ".join(f"{layout.tile(one)} of {one}'s {one.size}" for one in cut)
    order = f", along {layout.tiling.fastest} first" if layout.tiling.fastest else ""
    return f"{count} blocks, each {tiles}{order}"


def _way(layout: Layout) -> Iterator[str]:
    if layout.loop is not None:
        ahead = layout.tiling.stages - 1
        loaded = f"{ahead} {'step' if ahead == 1 else 'steps'} loaded ahead"
        yield f"goes along {layout.loop} by {layout.tile(layout.loop)}, {loaded}"
