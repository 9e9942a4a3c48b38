"""Tilings of a GPU kernel: which indices are the grid, which one the loop, how large the tiles are.

`Tiling({"i": 32, "j": 64, "k": 64}, warps=4, stages=3)` of a product of 64 x 4096 by 4096 x 4096
gives 2 x 64 = 128 blocks, each of which loops over k in 64 steps and loads the operands of two
further steps ahead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from ...tensor.types import DType
from .. import ir
from ..errors import CannotPrint
from .contractions import Contraction, contraction
from .dialect import LARGEST_TILE_ELEMENTS, LEAST_DOT_SIZE
from .nodes import TileNode, TileNodes, dependencies, loads


@dataclass(frozen=True)
class Tiling:
    """How a kernel is cut for the device's blocks.

    An index of the outputs that has a tile here becomes an axis of the grid; a reduced one becomes
    the loop that each block runs. All others lie whole in the block's tiles.
    """

    tiles: Mapping[str, int] = field(default_factory=dict)
    """Tile sizes by the index's name; powers of two."""
    warps: int = 4
    stages: int = 2
    """One more than how many of the loop's iterations are loaded ahead."""
    fastest: str | None = None
    """The axis of the grid along which blocks follow each other first; None for the outputs'
    first."""

    def __str__(self) -> str:
        tiles = ", ".join(f"{name}: {tile}" for name, tile in self.tiles.items())
        first = f", {self.fastest} first" if self.fastest is not None else ""
        return f"{tiles or 'whole'}; {self.warps} warps, {self.stages} stages{first}"


class TileLayout:
    """A kernel's indices as axes of tiles, for one tiling; raises CannotPrint where that is
    impossible.
    """

    def __init__(self, nodes: TileNodes, tiling: Tiling) -> None:
        self.nodes, self.tiling = nodes, tiling
        self._dots: set[ir.LoopIndex] = set()
        self._found: dict[TileNode, Contraction | None] = {}
        self._sizes: dict[frozenset[ir.LoopIndex], int] = {}
        self._order: dict[ir.LoopIndex, int] = {}
        for loop_index in (
            *nodes.kernel.indices,
            *(loop_index for node in nodes.all for loop_index in node.folded),
        ):
            self._order.setdefault(loop_index, len(self._order))
        named = {loop_index.name: loop_index for loop_index in nodes.kernel.indices}
        unknown = tiling.tiles.keys() - named.keys()
        if unknown:
            raise CannotPrint(
                f"kernel {nodes.kernel.name} has no index {', '.join(sorted(unknown))};"
                f" it has {', '.join(named)}"
            )
        chosen = [named[name] for name in tiling.tiles]
        # An index that is reduced can be the loop, and never the grid: blocks do not add up with
        # each other.
        folded = set(serial(nodes))
        self.grid = self._ordered(
            [loop_index for loop_index in parallel(nodes) if loop_index in chosen]
        )
        loops = [loop_index for loop_index in chosen if loop_index in folded]
        self._check(chosen, loops)
        self.loop = next((loop_index for loop_index in loops if self.steps(loop_index) > 1), None)
        # Padding for dots changes tile sizes, so it is found after the grid and before anything is
        # measured.
        self._dots = self._contracted()
        for buffer in (*nodes.loaded, *(node.stage.target for node in nodes.outputs)):
            self._is_reached(buffer)
        for node in nodes.all:
            self._fits(node)

    def _ordered(self, axes: list[ir.LoopIndex]) -> tuple[ir.LoopIndex, ...]:
        """The axes of the grid, `Tiling.fastest` first: on a GPU the first axis runs fastest."""
        fastest = self.tiling.fastest
        if fastest is not None and fastest not in {axis.name for axis in axes}:
            raise CannotPrint(
                f"kernel {self.nodes.kernel.name}: {fastest} is no axis of the grid, and cannot be"
                " the fastest"
            )
        return tuple(sorted(axes, key=lambda axis: axis.name != fastest))

    def _is_reached(self, buffer: ir.Buffer) -> None:
        """Refuses `buffer` where it has more elements than positions in 32 bits can count."""
        if math.prod(buffer.shape) >= 2**31:
            raise CannotPrint(
                f"kernel {self.nodes.kernel.name}: {buffer} has 2^31 elements or more, and Triton's"
                " places have 32 bits"
            )

    def _fits(self, node: TileNode) -> None:
        """Refuses `node` where a tile of it is larger than `LARGEST_TILE_ELEMENTS`."""
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
        """`node` as a dot, rows first: large enough for a matrix unit, and of floats; else None."""
        if node not in self._found:
            self._found[node] = self._dot(node)
        return self._found[node]

    def _dot(self, node: TileNode) -> Contraction | None:
        product = contraction(node, lambda value: self.axes(dependencies(value, node.reads)))
        if product is None:
            return None
        sides = (product.left.own, product.right.own, product.left.summed)
        wholes = {DType.I32, DType.BOOL}
        whole = node.stage.accumulated in wholes or any(
            load.buffer.dtype in wholes for load in loads(node.value)
        )
        large = all(math.prod(self.shape(side)) >= LEAST_DOT_SIZE for side in sides)
        if whole or not large:
            return None
        # The rows of a dot are the axes that come first in all tiles, so that its result needs no
        # transposition.
        first = self.axes(product.left.own | product.right.own)[0]
        return product if first in product.left.own else product.turned

    def _check(self, chosen: list[ir.LoopIndex], loops: list[ir.LoopIndex]) -> None:
        """Refuses tiles that are no powers of two, of indices that cannot be cut, or a second
        loop.
        """
        kernel = self.nodes.kernel.name
        for loop_index in chosen:
            tile = self.tiling.tiles[loop_index.name]
            if tile < 1 or tile & (tile - 1):
                raise CannotPrint(
                    f"kernel {kernel}: a tile of {tile} along {loop_index} is no power of 2"
                )
            if loop_index not in self.grid and loop_index not in loops:
                raise CannotPrint(
                    f"kernel {kernel}: {loop_index} is neither an index of the outputs that nothing"
                    " folds, nor one that is folded, and cannot be cut"
                )
        if sum(self.steps(loop_index) > 1 for loop_index in loops) > 1:
            names = ", ".join(map(str, loops))
            raise CannotPrint(f"kernel {kernel}: one index can be the loop, not {names}")

    def _contracted(self) -> set[ir.LoopIndex]:
        """The indices that are padded so that a contraction is large enough for a dot."""
        padded: set[ir.LoopIndex] = set()
        for node in self.nodes.all:
            product = contraction(node, partial(self._wide, node))
            for side in (
                (product.left.own, product.right.own, product.left.summed) if product else ()
            ):
                free = [
                    loop_index for loop_index in side if loop_index.name not in self.tiling.tiles
                ]
                if free and math.prod(map(self.tile, side)) < LEAST_DOT_SIZE:
                    # The longest index loses least by being padded to 16.
                    padded.add(max(free, key=lambda loop_index: (loop_index.size, loop_index.name)))
        return padded

    def _wide(self, node: TileNode, value: ir.Expression) -> set[ir.LoopIndex]:
        """The indices of `value` that are no single place in a tile."""
        named = self.tiling.tiles
        used = set(dependencies(value, node.reads))
        return {
            loop_index
            for loop_index in used
            if loop_index.size > 1 and named.get(loop_index.name) != 1
        }

    def tile(self, loop_index: ir.LoopIndex) -> int:
        """How many values of an index lie in a tile: as `Tiling.tiles` says, else all, rounded up
        to a power of two.
        """
        chosen = self.tiling.tiles.get(loop_index.name)
        if chosen is not None:
            return chosen
        whole = 1 << max(0, loop_index.size - 1).bit_length()
        return max(whole, LEAST_DOT_SIZE) if loop_index in self._dots else whole

    def steps(self, loop_index: ir.LoopIndex) -> int:
        """How many tiles an index has."""
        return -(-loop_index.size // self.tile(loop_index))

    def padded(self, loop_index: ir.LoopIndex) -> bool:
        """Whether tiles reach beyond the index."""
        return loop_index.size % self.tile(loop_index) != 0

    def overlaps(self, at: ir.Position) -> bool:
        """Whether a tile's elements beyond its indices have, at the position `at`, those of other
        elements.
        """
        if not isinstance(at, ir.Affine):
            return any(map(self.padded, ir.indices(at)))
        # In 6i + j with j below 6 and tiles of 8, j = 6 has the position of the next i. Only a
        # padded index whose reach exceeds the next larger factor does that.
        terms = sorted(at.terms, key=lambda term: term[1])
        return any(
            self.padded(loop_index) and factor * self.reach(loop_index) > above
            for (loop_index, factor), (_, above) in pairwise(terms)
        )

    def axes(self, indices: Iterable[ir.LoopIndex]) -> tuple[ir.LoopIndex, ...]:
        """Those of `indices` that are axes of a tile, in the order that all tiles keep."""
        long = {loop_index for loop_index in indices if self.tile(loop_index) > 1}
        return tuple(sorted(long, key=self._order.__getitem__))

    def shape(self, axes: Iterable[ir.LoopIndex]) -> tuple[int, ...]:
        return tuple(self.tile(axis) for axis in axes)

    def size(self, indices: frozenset[ir.LoopIndex]) -> int:
        """The elements of a tile over `indices`, padding included."""
        if indices not in self._sizes:
            self._sizes[indices] = math.prod(map(self.tile, indices))
        return self._sizes[indices]

    def inside(self, indices: frozenset[ir.LoopIndex]) -> int:
        """The elements of a tile over `indices` that are not beyond an index's size in all
        tiles.
        """
        return math.prod(min(loop_index.size, self.tile(loop_index)) for loop_index in indices)

    def reach(self, loop_index: ir.LoopIndex) -> int:
        """How many values an index takes, those beyond its size included."""
        return self.steps(loop_index) * self.tile(loop_index)


def parallel(nodes: TileNodes) -> list[ir.LoopIndex]:
    """The indices of `nodes` that blocks may share out: the outputs' own, which nothing reduces."""
    folded = {loop_index for node in nodes.all for loop_index in node.folded}
    free = (loop_index for node in nodes.outputs for loop_index in node.stage.free)
    return [loop_index for loop_index in dict.fromkeys(free) if loop_index not in folded]


def serial(nodes: TileNodes) -> list[ir.LoopIndex]:
    """The indices of `nodes` that a block may run along, one tile after the other."""
    kernel_indices = set(nodes.kernel.indices)
    return list(
        dict.fromkeys(
            loop_index
            for node in nodes.all
            for loop_index in node.folded
            if loop_index in kernel_indices
        )
    )
