"""Tiles of a kernel as warpgroups hold them: 64 rows or a multiple, 8 columns or a multiple.

Problem: a warpgroup multiplies `wgmma` tiles of 64 rows, and programs that serve a few requests
have 8 or 16. A tile may lie in registers either way round, so the long axis is made the rows: of
`out[i, j]` with i < 16 the tile is held as [j, i]. A tile of one axis is spread over threads as
the rows of a matrix or as its columns, so an axis that has such a tile must be the same of all
matrices around it.

Worked example, an RMS norm of 16 rows: `t0[i]` is a tile of one axis, and i has too few values for
rows; so i are the columns, of `out` held as [j, i] and of `X` held as [k, i]. The product becomes
Wᵀ times Xᵀ: 64 rows of j, 16 columns of i, summed over k.

Invariant: every tile of two axes has rows that are a multiple of 64 and columns that are one of 8,
and no axis that has a tile of its own is rows here and columns there.

Cost: two to the power of how many axes have tiles of their own; of all kernels so far below five.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import product

from ....tensor.types import HALVES
from ... import ir
from ..contractions import Contraction, ContractionSide, contraction
from ..errors import CannotPrint
from ..layout import TileLayout, Tiling
from ..nodes import TileNode, TileNodes, dependencies, loads

ROWS = 64
"""The rows of a warpgroup's tile, or a divisor of these."""
COLUMNS = 8
"""What divides the columns of a warpgroup's tile."""
DEPTH = 16
"""What divides the axis that a product of half types is summed over."""
WARPS = 4
"""The warps of a warpgroup."""
LARGEST_COPY = 256
"""The most elements along an axis that one asynchronous copy takes."""


class MatrixAxis(StrEnum):
    """What an axis is of the matrices that it belongs to."""

    ROW = "row"
    COLUMN = "column"


class WarpgroupLayout(TileLayout):
    """The layout of a kernel's tiles for one warpgroup a block; raises CannotPrint where there is
    none, and says why.
    """

    def __init__(self, nodes: TileNodes, tiling: Tiling) -> None:
        self._roles: Mapping[ir.LoopIndex, MatrixAxis] | None = None
        super().__init__(nodes, tiling)
        name = nodes.kernel.name
        if tiling.warps != WARPS:
            raise CannotPrint(
                f"kernel {name}: a block of {tiling.warps} warps is no warpgroup, which has {WARPS}"
            )
        self._are_whole()
        if not any(map(self.dot, nodes.all)):
            raise CannotPrint(
                f"kernel {name}: no product in it has {ROWS} rows, {COLUMNS} columns and a depth of"
                f" {DEPTH} of a half type, and Mosaic is asked for products alone"
            )
        self._roles = self._assigned()

    def _are_whole(self) -> None:
        """Refuses tiles that reach beyond their indices: what is there is not masked."""
        for node in self.nodes.all:
            for loop_index in node.all_indices:
                if self.padded(loop_index):
                    raise CannotPrint(
                        f"kernel {self.nodes.kernel.name}: tiles of {self.tile(loop_index)} do not"
                        f" divide {loop_index}, which has {loop_index.size} values"
                    )

    def tile(self, loop_index: ir.LoopIndex) -> int:
        """How many values of an index lie in a tile: as `Tiling.tiles` says, else all of them.

        No tile is padded to a power of two, as Triton's are: 8 columns are enough for a product.
        """
        return self.tiling.tiles.get(loop_index.name, loop_index.size)

    def _contracted(self) -> set[ir.LoopIndex]:
        return set()

    def _dot(self, node: TileNode) -> Contraction | None:
        """`node` as a product with its rows on the left, where a warpgroup can multiply it."""
        sides = contraction(
            node, lambda value: super(WarpgroupLayout, self).axes(dependencies(value, node.reads))
        )
        if sides is None or not all(
            len(part) == 1 for part in (sides.left.own, sides.right.own, sides.left.summed)
        ):
            return None
        if not all(self.is_half(node, side) for side in (sides.left, sides.right)):
            return None
        (depth,) = sides.left.summed
        return sides if self.tile(depth) % DEPTH == 0 else None

    def is_half(self, node: TileNode, side: ContractionSide) -> bool:
        """Whether an operand is of a half type, as products of warpgroups have them here."""
        (factor, *further) = side.factors
        if further:
            return False
        if isinstance(factor, ir.BufferLoad):
            read = node.reads.get(factor)
            return (read.stage.target if read else factor.buffer).dtype in HALVES
        return isinstance(factor, ir.Round) and factor.dtype in HALVES

    def axes(self, indices: Iterable[ir.LoopIndex]) -> tuple[ir.LoopIndex, ...]:
        """The axes of a tile; of two the rows are first."""
        axes = super().axes(indices)
        return self._oriented(axes, self._roles) if self._roles is not None else axes

    def role(self, axis: ir.LoopIndex) -> MatrixAxis:
        """Whether `axis`, of which there is a tile of one axis, are rows or columns."""
        assert self._roles is not None
        return self._roles[axis]

    def _oriented(
        self, axes: tuple[ir.LoopIndex, ...], roles: Mapping[ir.LoopIndex, MatrixAxis]
    ) -> tuple[ir.LoopIndex, ...]:
        """`axes` with the rows first; raises CannotPrint where neither may be the rows."""
        kernel = self.nodes.kernel.name
        if len(axes) < 2:
            return axes
        if len(axes) > 2:
            names = ", ".join(map(str, axes))
            raise CannotPrint(f"kernel {kernel}: a tile has the axes {names}, and matrices have 2")
        for rows, columns in (axes, axes[::-1]):
            fits = self.tile(rows) % ROWS == 0 and self.tile(columns) % COLUMNS == 0
            turned = roles.get(rows) is MatrixAxis.COLUMN or roles.get(columns) is MatrixAxis.ROW
            if fits and not turned:
                return rows, columns
        names = " by ".join(f"{axis} of {self.tile(axis)}" for axis in axes)
        raise CannotPrint(
            f"kernel {kernel}: a tile, {names}, has no side of {ROWS} rows, or one of its axes"
            " would be rows here and columns there"
        )

    def _assigned(self) -> Mapping[ir.LoopIndex, MatrixAxis]:
        """What the axes of one-axis tiles are, so that all matrices can be held."""
        tiles = list(dict.fromkeys(self._tiles()))
        alone = [tile[0] for tile in tiles if len(tile) == 1]
        refusal: CannotPrint | None = None
        for chosen in product(MatrixAxis, repeat=len(alone)):
            roles = dict(zip(alone, chosen, strict=True))
            try:
                for tile in tiles:
                    self._oriented(tile, roles)
            except CannotPrint as error:
                refusal = refusal or error
            else:
                return roles
        assert refusal is not None
        raise refusal

    def _tiles(self) -> Iterator[tuple[ir.LoopIndex, ...]]:
        """The axes of all tiles that are held in registers, in no orientation yet."""
        plain = super().axes
        for node in self.nodes.all:
            yield plain(node.indices)
            dot = self.dot(node)
            if dot is None:
                yield plain(node.all_indices)
                yield from map(plain, node.taken.values())
                continue
            for side in (dot.left, dot.right):
                if side.computed(node):
                    yield plain(side.own | side.summed)
                    factor = side.factors[0]
                    # What is computed in place reads tiles of its own.
                    yield from (
                        plain(node.taken[load]) for load in loads(factor) if load in node.taken
                    )
