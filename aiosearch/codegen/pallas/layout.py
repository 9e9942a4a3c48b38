"""Tilings of a GPU kernel: which indices are the grid, which one the loop, how large the tiles
are.

Which indices are the grid, which one the loop, and how large the tiles are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ...tensor.types import DType
from .. import ir
from .contractions import Contraction, contraction
from .dialect import LARGEST_TILE_ELEMENTS, LEAST_DOT_SIZE
from .errors import CannotPrint
from .nodes import TileNode, TileNodes, dependencies, loads


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


pass


class TileLayout:
    """A kernel's indices as axes of tiles, for one tiling."""

    def __init__(self, nodes: TileNodes, tiling: Tiling) -> None:
        self.nodes, self.tiling = nodes, tiling
        self._dots: set[ir.LoopIndex] = set()
        self._found: dict[TileNode, Contraction | None] = {}
        self._sizes: dict[frozenset[ir.LoopIndex], int] = {}
        self._order: dict[ir.LoopIndex, int] = {}
        for one in (*nodes.kernel.indices, *(one for node in nodes.all for one in node.folded)):
            self._order.setdefault(one, len(self._order))
        named = {one.name: one for one in nodes.kernel.indices}
        unknown = tiling.tiles.keys() - named.keys()
        if unknown:
            raise CannotPrint(
                f"kernel {nodes.kernel.name} has no index {', '.join(sorted(unknown))};"
                f" it has {', '.join(named)}"
            )
        chosen = [named[name] for name in tiling.tiles]
        folded = set(serial(nodes))
        self.grid = self._ordered([one for one in parallel(nodes) if one in chosen])
        loops = [one for one in chosen if one in folded]
        self._check(chosen, loops)
        self.loop = next((one for one in loops if self.steps(one) > 1), None)
        self._dots = self._contracted()
        for buffer in (*nodes.loaded, *(node.stage.target for node in nodes.outputs)):
            self._is_reached(buffer)
        for node in nodes.all:
            self._fits(node)

    def _ordered(self, axes: list[ir.LoopIndex]) -> tuple[ir.LoopIndex, ...]:
        """The axes of the grid: on a GPU the first runs fastest."""
        fastest = self.tiling.fastest
        if fastest is not None and fastest not in {one.name for one in axes}:
            raise CannotPrint(
                f"kernel {self.nodes.kernel.name}: {fastest} is no axis of the grid, and cannot be"
                " the fastest"
            )
        return tuple(sorted(axes, key=lambda one: one.name != fastest))

    def _is_reached(self, buffer: ir.Buffer) -> None:
        """Refuses what has more elements than places that are counted in 32 bits."""
        if math.prod(buffer.shape) >= 2**31:
            raise CannotPrint(
                f"kernel {self.nodes.kernel.name}: {buffer} has 2^31 elements or more, and Triton's"
                " places have 32 bits"
            )

    def _fits(self, node: TileNode) -> None:
        """Refuses tiles that are larger than any may be."""
        dot = self.dot(node)
        sides = [side.own | side.summed for side in (dot.left, dot.right)] if dot else []
        tiles = [*sides, node.indices if dot else {*node.indices, *node.folded}]
        most = max(math.prod(self.shape(tile)) for tile in tiles)
        if most > LARGEST_TILE_ELEMENTS:
            raise CannotPrint(
                f"kernel {self.nodes.kernel.name}: a tile of {most} elements for"
                f" {node.stage.target.name}; Triton takes {LARGEST_TILE_ELEMENTS}"
            )

    def dot(self, node: TileNode) -> Contraction | None:
        """A node that is a dot, rows first: large enough for a matrix unit, and of floats."""
        if node not in self._found:
            self._found[node] = self._dot(node)
        return self._found[node]

    def _dot(self, node: TileNode) -> Contraction | None:
        found = contraction(node, lambda value: self.axes(dependencies(value, node.reads)))
        if found is None:
            return None
        sides = (found.left.own, found.right.own, found.left.summed)
        wholes = {DType.I32, DType.BOOL}
        whole = node.stage.accumulated in wholes or any(
            one.buffer.dtype in wholes for one in loads(node.value)
        )
        large = all(math.prod(self.shape(side)) >= LEAST_DOT_SIZE for side in sides)
        if whole or not large:
            return None
        first = self.axes(found.left.own | found.right.own)[0]
        return found if first in found.left.own else found.turned

    def _check(self, chosen: list[ir.LoopIndex], loops: list[ir.LoopIndex]) -> None:
        kernel = self.nodes.kernel.name
        for one in chosen:
            tile = self.tiling.tiles[one.name]
            if tile < 1 or tile & (tile - 1):
                raise CannotPrint(f"kernel {kernel}: a tile of {tile} along {one} is no power of 2")
            if one not in self.grid and one not in loops:
                raise CannotPrint(
                    f"kernel {kernel}: {one} is neither an index of the outputs that nothing"
                    " folds, nor one that is folded, and cannot be cut"
                )
        if sum(self.steps(one) > 1 for one in loops) > 1:
            names = ", ".join(map(str, loops))
            raise CannotPrint(f"kernel {kernel}: one index can be the loop, not {names}")

    def _contracted(self) -> set[ir.LoopIndex]:
        """The indices that are padded so that a contraction is large enough for a dot."""
        found: set[ir.LoopIndex] = set()
        for node in self.nodes.all:
            own = contraction(node, lambda value, node=node: self._wide(node, value))  # type: ignore[misc]
            for side in (own.left.own, own.right.own, own.left.summed) if own else ():
                free = [one for one in side if one.name not in self.tiling.tiles]
                if free and math.prod(map(self.tile, side)) < LEAST_DOT_SIZE:
                    found.add(max(free, key=lambda one: (one.size, one.name)))
        return found

    def _wide(self, node: TileNode, value: ir.Expression) -> set[ir.LoopIndex]:
        """The indices of an expression that are no single place in a tile."""
        named = self.tiling.tiles
        found = set(dependencies(value, node.reads))
        return {one for one in found if one.size > 1 and named.get(one.name) != 1}

    def tile(self, one: ir.LoopIndex) -> int:
        """How many of an index's values lie in a tile."""
        chosen = self.tiling.tiles.get(one.name)
        if chosen is not None:
            return chosen
        whole = 1 << max(0, one.size - 1).bit_length()
        return max(whole, LEAST_DOT_SIZE) if one in self._dots else whole

    def steps(self, one: ir.LoopIndex) -> int:
        """How many tiles an index has."""
        return -(-one.size // self.tile(one))

    def padded(self, one: ir.LoopIndex) -> bool:
        """Whether tiles reach beyond the index."""
        return one.size % self.tile(one) != 0

    def overlaps(self, at: ir.Position) -> bool:
        """Whether a tile's elements beyond its indices have places of other ones."""
        if not isinstance(at, ir.Affine):
            return any(map(self.padded, ir.indices(at)))
        terms = sorted(at.terms, key=lambda term: term[1])
        return any(
            self.padded(one) and factor * self.reach(one) > above
            for (one, factor), (_, above) in pairwise(terms)
        )

    def axes(self, indices: Iterable[ir.LoopIndex]) -> tuple[ir.LoopIndex, ...]:
        """Those that are axes of a tile, in the order that all tiles keep."""
        return tuple(sorted({one for one in indices if self.tile(one) > 1}, key=self._order.get))  # type: ignore[arg-type]

    def shape(self, axes: Iterable[ir.LoopIndex]) -> tuple[int, ...]:
        return tuple(self.tile(one) for one in axes)

    def size(self, indices: frozenset[ir.LoopIndex]) -> int:
        """The elements of a tile over these."""
        if indices not in self._sizes:
            self._sizes[indices] = math.prod(map(self.tile, indices))
        return self._sizes[indices]

    def inside(self, indices: frozenset[ir.LoopIndex]) -> int:
        """Those of them that are not beyond an index's size in all tiles."""
        return math.prod(min(one.size, self.tile(one)) for one in indices)

    def reach(self, one: ir.LoopIndex) -> int:
        """How many values an index takes, those beyond its size included."""
        return self.steps(one) * self.tile(one)


def parallel(nodes: TileNodes) -> list[ir.LoopIndex]:
    """The indices that blocks may share out: the outputs' own, which nothing folds."""
    folded = {one for node in nodes.all for one in node.folded}
    free = (one for node in nodes.outputs for one in node.stage.free)
    return [one for one in dict.fromkeys(free) if one not in folded]


def serial(nodes: TileNodes) -> list[ir.LoopIndex]:
    """The indices that a block may run along, one tile after the other."""
    known = set(nodes.kernel.indices)
    return list(dict.fromkeys(one for node in nodes.all for one in node.folded if one in known))
