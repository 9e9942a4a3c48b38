"""Block specifications: the tile of each array that a program of the grid is handed.

An axis is cut where every position at which the array is read or filled is an index of the grid by
itself, and whole tiles make up the axis. What is left over of tiles needs a mask, and so the
positions of the whole axis. `X[i, k]` with i cut into tiles of 32 becomes `pl.BlockSpec((32, 4096),
lambda i, j: (i, 0))`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ... import ir
from ..layout import TileLayout
from .text import NameAllocator, tupled


@dataclass(frozen=True)
class BlockAxis:
    """An axis of an array, as a program of the grid sees it."""

    axis: int
    size: int
    cut: ir.LoopIndex | None
    """The index of the grid along which the axis is cut, if it is."""
    seen: bool
    """Whether the program's reference has the axis: it need not, where it is one place."""


class ArrayBlocks:
    """The blocks of the arrays of one kernel."""

    def __init__(self, layout: TileLayout) -> None:
        self._layout = layout
        self._places: dict[ir.Buffer, list[tuple[ir.Position, ...]]] = {}
        for node in layout.nodes.all:
            for load in node.taken:
                self._places.setdefault(load.buffer, []).append(load.at)
        for node in layout.nodes.outputs:
            self._places.setdefault(node.stage.target, []).append(node.stage.at)
        self._axes = {buffer: self._of(buffer) for buffer in self._places}

    def left(self, buffer: ir.Buffer) -> list[BlockAxis]:
        """The axes that a program's reference to `buffer` has."""
        return [axis for axis in self._axes[buffer] if axis.seen]

    @property
    def cut(self) -> bool:
        """Whether any of the arrays is cut."""
        return any(axis.cut is not None for axes in self._axes.values() for axis in axes)

    def spec(self, buffer: ir.Buffer) -> str:
        """The block specification of `buffer`, as text."""
        axes, names = self._axes[buffer], self._names
        if all(axis.cut is None for axis in axes):
            return "pl.BlockSpec()"
        sizes = [str(axis.size) if axis.seen else "None" for axis in axes]
        at = [
            "0" if axis.cut is None else names[self._layout.grid.index(axis.cut)] for axis in axes
        ]
        return f"pl.BlockSpec({tupled(sizes)}, lambda {', '.join(names)}: {tupled(at)})"

    @cached_property
    def _names(self) -> list[str]:
        """The names of the grid's axes."""
        names = NameAllocator(frozenset())
        return [names.fresh(grid_index.name) for grid_index in self._layout.grid]

    def _of(self, buffer: ir.Buffer) -> list[BlockAxis]:
        places, last = self._places[buffer], len(buffer.shape) - 1
        # Where padding reaches into other elements, stores need positions in the whole array.
        whole = any(self._layout.overlaps(position) for at in places for position in at)
        block_axes = []
        for axis, size in enumerate(buffer.shape):
            cut = None if whole else self._index([at[axis] for at in places], size)
            tile = size if cut is None else self._layout.tile(cut)
            block_axes.append(BlockAxis(axis, tile, cut, cut is None or tile > 1 or axis == last))
        return block_axes

    def _index(self, places: Iterable[ir.Position], size: int) -> ir.LoopIndex | None:
        layout, (grid_index, *further) = self._layout, {ir.single_index(at) for at in places}
        if further or grid_index not in layout.grid or grid_index.size != size:
            return None
        return None if layout.padded(grid_index) or layout.steps(grid_index) == 1 else grid_index
