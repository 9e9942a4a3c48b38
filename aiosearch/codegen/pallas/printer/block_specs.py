"""Block specifications: the tile of each array that a program of the grid is handed.

An axis is cut where every place at which the array is read or filled is an index of the grid by
itself, and whole tiles make up the axis. What is left over of tiles needs a mask, and so the places
of the whole axis.
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
    """Of an array, as a program of the grid sees it."""

    axis: int
    size: int
    cut: ir.LoopIndex | None
    """The index of the grid along which it is cut, if it is."""
    seen: bool
    """Whether the program's reference has it: it need not, where it is one place."""


class ArrayBlocks:
    """Of one kernel's arrays."""

    def __init__(self, layout: TileLayout) -> None:
        self._layout = layout
        self._places: dict[ir.Buffer, list[tuple[ir.Position, ...]]] = {}
        for node in layout.nodes.all:
            for load in node.taken:
                self._places.setdefault(load.buffer, []).append(load.at)
        for node in layout.nodes.outputs:
            self._places.setdefault(node.stage.target, []).append(node.stage.at)
        self._axes = {one: self._of(one) for one in self._places}

    def left(self, buffer: ir.Buffer) -> list[BlockAxis]:
        """The axes that a program's reference has."""
        return [one for one in self._axes[buffer] if one.seen]

    @property
    def cut(self) -> bool:
        """Whether any of the arrays is."""
        return any(one.cut is not None for axes in self._axes.values() for one in axes)

    def spec(self, buffer: ir.Buffer) -> str:
        """As text."""
        axes, names = self._axes[buffer], self._names
        if all(one.cut is None for one in axes):
            return "pl.BlockSpec()"
        sizes = [str(one.size) if one.seen else "None" for one in axes]
        at = ["0" if one.cut is None else names[self._layout.grid.index(one.cut)] for one in axes]
        return f"pl.BlockSpec({tupled(sizes)}, lambda {', '.join(names)}: {tupled(at)})"

    @cached_property
    def _names(self) -> list[str]:
        """Of the grid's axes."""
        names = NameAllocator(frozenset())
        return [names.fresh(one.name) for one in self._layout.grid]

    def _of(self, buffer: ir.Buffer) -> list[BlockAxis]:
        places, last = self._places[buffer], len(buffer.shape) - 1
        whole = any(self._layout.overlaps(one) for at in places for one in at)
        found = []
        for axis, size in enumerate(buffer.shape):
            cut = None if whole else self._index([at[axis] for at in places], size)
            tile = size if cut is None else self._layout.tile(cut)
            found.append(BlockAxis(axis, tile, cut, cut is None or tile > 1 or axis == last))
        return found

    def _index(self, places: Iterable[ir.Position], size: int) -> ir.LoopIndex | None:
        layout, (one, *others) = self._layout, {ir.single_index(at) for at in places}
        if others or one not in layout.grid or one.size != size:
            return None
        return None if layout.padded(one) or layout.steps(one) == 1 else one
