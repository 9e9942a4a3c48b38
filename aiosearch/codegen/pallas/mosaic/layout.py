"""Tiles of a kernel as warpgroups hold them: 64 rows or a multiple, 8 columns or a multiple.

Problem: a warpgroup multiplies `wgmma` tiles of 64 rows, and programs that serve a few requests
have 8 or 16. A tile may lie in registers either way round, so the long axis is made the rows: of
`out[i, j]` with i < 16 the tile is held as [j, i]. A tile of one axis is spread over threads as
the rows of a matrix or as its columns, so an axis that has such a tile must be the same of all
matrices around it.

Worked example, an RMS norm of 16 rows: `t0[i]` is a tile of one axis, and i has too few values for
rows; so i are the columns, of `out` held as [j, i] and of `X` held as [k, i]. The product becomes
Wᵀ times Xᵀ: 64 rows of j, 16 columns of i, summed over k.

Where no axis is long, a tile of 64 may reach beyond one: a softmax of 8 by 8 elements is held as
[i, j] with i < 64. The arrays are padded with zeros along such an axis before the kernel, and cut
behind it, so it may be no axis that anything reduces: its other values are no part of any result.

Invariant: every tile of two axes has rows that are a multiple of 64 and columns that are one of 8,
and no axis that has a tile of its own is rows here and columns there.

Cost: two to the power of how many axes have tiles of their own; of all kernels so far below five.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import product

from ....tensor.types import HALVES, DType
from ... import ir
from ...errors import CannotPrint
from ..contractions import Contraction, ContractionSide, contraction
from ..layout import TileLayout, Tiling, parallel
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
_FLOATS = {*HALVES, DType.F32}
"""What blocks without products compute with."""


class MatrixAxis(StrEnum):
    """What an axis is of the matrices that it belongs to."""

    ROW = "row"
    COLUMN = "column"


class BlockLayout(TileLayout):
    """A layout whose tiles are as long as they are asked for, in a block of four warps."""

    def __init__(self, nodes: TileNodes, tiling: Tiling) -> None:
        super().__init__(nodes, tiling)
        if tiling.warps != WARPS:
            raise CannotPrint(
                f"kernel {nodes.kernel.name}: a block of {tiling.warps} warps is no warpgroup,"
                f" which has {WARPS}"
            )
        for loop_index in frozenset[ir.LoopIndex]().union(
            *(node.all_indices for node in nodes.all)
        ):
            if self.padded(loop_index) and not extends(nodes, loop_index):
                raise CannotPrint(
                    f"kernel {nodes.kernel.name}: tiles of {self.tile(loop_index)} do not divide"
                    f" {loop_index}, which has {loop_index.size} values"
                )

    def tile(self, loop_index: ir.LoopIndex) -> int:
        """How many values of an index lie in a tile: as `Tiling.tiles` says, else all of them.

        No tile is padded to a power of two, as Triton's are: 8 columns are enough for a product.
        """
        return self.tiling.tiles.get(loop_index.name, loop_index.size)

    def _contracted(self) -> set[ir.LoopIndex]:
        return set()

    def padded_shape(self, buffer: ir.Buffer) -> tuple[int, ...]:
        """The shape of an array that the kernel takes or gives, with what tiles reach beyond it."""
        shape = list(buffer.shape)
        for node in self.nodes.all:
            positions = [load.at for load in node.taken if load.buffer == buffer]
            if node.stage.target == buffer:
                positions.append(node.at)
            for at in positions:
                for axis, position in enumerate(at):
                    loop_index = ir.single_index(position)
                    if loop_index is not None and self.padded(loop_index):
                        shape[axis] = max(shape[axis], self.reach(loop_index))
        return tuple(shape)


def extends(nodes: TileNodes, loop_index: ir.LoopIndex) -> bool:
    """Whether an index may take values beyond its size, where arrays are padded along it.

    Nothing reduces it, and it stands alone at every place at which something is loaded or stored.
    """
    if loop_index not in parallel(nodes):
        return False
    for node in nodes.all:
        positions = list(node.at)
        for part in ir.walk(node.value):
            match part:
                case ir.BufferLoad():
                    positions += part.at
                case ir.PositionValue() if loop_index in ir.indices(part.position):
                    return False
                case ir.BoundedValue() if any(
                    loop_index in ir.indices(at) for at, *_ in part.limits
                ):
                    return False
        for at in positions:
            if loop_index in ir.indices(at) and ir.single_index(at) != loop_index:
                return False
    return True


def require_floats(nodes: TileNodes) -> None:
    """Refuses numbers other than floats of 32 bits or less."""
    buffers = (*nodes.loaded, *(node.stage.target for node in nodes.all))
    for buffer in buffers:
        if buffer.dtype not in _FLOATS:
            raise CannotPrint(
                f"kernel {nodes.kernel.name}: {buffer} holds {buffer.dtype}, and blocks without"
                " products compute with floats of 32 bits or less"
            )


class WarpgroupLayout(BlockLayout):
    """The layout of a kernel's tiles for one warpgroup a block; raises CannotPrint where there is
    none, and says why.
    """

    def __init__(self, nodes: TileNodes, tiling: Tiling) -> None:
        self._roles: Mapping[ir.LoopIndex, MatrixAxis] | None = None
        super().__init__(nodes, tiling)
        if not any(map(self.dot, nodes.all)):
            self._without_products()
        self._roles = self._assigned()

    def _without_products(self) -> None:
        """Refuses products that no warpgroup multiplies, and numbers that are no floats."""
        name = self.nodes.kernel.name
        if any(map(self._sides, self.nodes.all)):
            raise CannotPrint(
                f"kernel {name}: no product in it has {ROWS} rows, {COLUMNS} columns and a depth of"
                f" {DEPTH} of a half type"
            )
        require_floats(self.nodes)

    def _sides(self, node: TileNode) -> Contraction | None:
        plain = super().axes
        return contraction(node, lambda value: plain(dependencies(value, node.reads)))

    def _dot(self, node: TileNode) -> Contraction | None:
        """`node` as a product with its rows on the left, where a warpgroup can multiply it."""
        sides = self._sides(node)
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
