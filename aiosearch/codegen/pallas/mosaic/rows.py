"""Kernels without products: blocks hold rows of arrays in registers, and reduce along them.

Problem: normalisations reduce a row of some thousand numbers and then write that row. Tiles of a
matrix would be read once to reduce and again to write; a row fits the registers of a warpgroup.

Worked example, `out[i, j] = x[i, j] / sum over j of x[i, j]` of f32[8, 4096]: eight blocks, each
with a row of 4096 numbers, of which a thread holds 32, four by four. The row is loaded from the
device's memory, added up across the threads to one number, and divided by it.

Invariant: every tile has one axis, the last of the arrays that it is in, or none; all tiles are
spread over threads in one way, so that only reductions exchange anything.
"""

from __future__ import annotations

from ....tensor.types import BYTES, DType
from ... import ir
from ...errors import CannotPrint
from ..description import documentation
from ..layout import Tiling, serial
from ..loops import Loops
from ..nodes import TileNode, TileNodes
from ..printer.text import NameAllocator, TextScope, TileText, cast
from .body import WarpgroupFunction, axis_name, warpgroup_body
from .expressions import RegisterPrinter, aligned
from .layout import BlockLayout, WarpgroupLayout, require_floats
from .staging import grid_name

_THREADS = 128
_LONGEST = 4096
"""The most elements of a row: 32 in a thread, of each tile that is alive."""
_VECTOR_BYTES = 16
"""What a thread loads at once."""
_INDENT = "    "


class RowLayout(BlockLayout):
    """The layout of a kernel whose blocks hold rows; raises CannotPrint where there is none."""

    def __init__(self, nodes: TileNodes, tiling: Tiling) -> None:
        super().__init__(nodes, tiling)
        require_floats(nodes)
        name = nodes.kernel.name
        for node in nodes.all:
            axes = self.axes(node.all_indices)
            size = self.size(node.all_indices)
            parts = any(self.tile(axis) != axis.size for axis in axes)
            if len(axes) > 1 or parts or size > _LONGEST or (axes and size % _THREADS):
                raise CannotPrint(
                    f"kernel {name}: a tile of {size} elements for {node.stage.target.name} is no"
                    f" whole row that {_THREADS} threads hold, of {_LONGEST} elements at most"
                )

    def vector(self, axis: ir.LoopIndex) -> int:
        """The elements that follow each other in a thread."""
        arrays = (*self.nodes.loaded, *(node.stage.target for node in self.nodes.outputs))
        count = _VECTOR_BYTES // max(BYTES[buffer.dtype] for buffer in arrays)
        while self.tile(axis) % (_THREADS * count):
            count //= 2
        return count


class _RowPrinter(RegisterPrinter):
    """Prints tiles that are loaded from the device's memory itself."""

    def __init__(self, layout: RowLayout, scope: TextScope, refs: dict[ir.Buffer, str]) -> None:
        super().__init__(layout, scope)
        self._rows, self._refs = layout, refs

    def load(self, load: ir.BufferLoad) -> TileText:
        """A row in registers."""
        bound = self.scope.known(load)
        if bound is not None:
            return bound
        axis = row_axis(self._rows, load)
        spread = f"plgpu.Layout.WG_STRIDED(({axis.size},), vec_size={self._rows.vector(axis)})"
        text = f"plgpu.layout_cast({self._refs[load.buffer]}[{place(self._rows, load)}], {spread})"
        return self.scope.bind(
            load, f"{load.buffer.name}_row", TileText(text, load.buffer.dtype, (axis,))
        )


def row_axis(layout: RowLayout, load: ir.BufferLoad) -> ir.LoopIndex:
    """The axis of what is loaded or stored; raises CannotPrint where that is not the last one."""
    last = ir.single_index(load.at[-1]) if load.at else None
    wide = any(layout.tile(index) > 1 for at in load.at[:-1] for index in ir.indices(at))
    if last is None or wide or last.size != load.buffer.shape[-1] or layout.tile(last) == 1:
        raise CannotPrint(
            f"kernel {layout.nodes.kernel.name}: {load} is no row, which is all of the last axis of"
            " an array"
        )
    return last


def place(layout: RowLayout, load: ir.BufferLoad) -> str:
    """Where a row is in its array."""
    places = []
    for at in load.at[:-1]:
        loop_index = ir.single_index(at)
        if loop_index is not None:
            places.append("0" if loop_index not in layout.grid else grid_name(layout, loop_index))
        elif any(True for _ in ir.indices(at)):
            raise CannotPrint(
                f"kernel {layout.nodes.kernel.name}: {load} is at {at} along an axis, and blocks"
                " take rows of one index"
            )
        else:
            places.append(str(at))
    return ", ".join(places) or "..."


def row_body(layout: RowLayout, name: str, names: NameAllocator) -> WarpgroupFunction:
    """The function `name` with which a warpgroup computes its rows."""
    nodes = layout.nodes
    inputs, outputs = nodes.loaded, [node.stage.target for node in nodes.outputs]
    refs = {buffer: names.fresh(buffer.name) for buffer in (*inputs, *outputs)}
    scope = TextScope(names)
    for number, axis in enumerate(layout.grid):
        scope.lines.append(f'{grid_name(layout, axis)} = lax.axis_index("{axis_name(number)}")')
    printer, loops = _RowPrinter(layout, scope, refs), Loops(nodes, None)
    for node in nodes.all:
        value = cast(_value(printer, layout, loops, node), node.stage.target.dtype)
        scope.bind(node, node.stage.target.name, value)
    for node in nodes.outputs:
        target = ir.BufferLoad(node.stage.target, node.stage.at)
        row = aligned(printer.tile_of(node), (row_axis(layout, target),), layout)
        scope.lines.append(f"{refs[target.buffer]}[{place(layout, target)}] = {row.text}")
    head = f"def {name}({', '.join(refs.values())}):"
    lines = (head, *(_INDENT + line if line else "" for line in documentation(layout)))
    return WarpgroupFunction(
        (*lines, *(_INDENT + line for line in scope.lines)), tuple(inputs), tuple(outputs), ()
    )


def _value(printer: _RowPrinter, layout: RowLayout, loops: Loops, node: TileNode) -> TileText:
    """A node's row, or the number that its row is reduced to."""
    value = printer.value(node.value, node)
    if value.dtype is DType.WEAK:
        raise CannotPrint(
            f"kernel {layout.nodes.kernel.name}: {node.stage.target.name} is a constant, and rows"
            " are loaded"
        )
    if not node.folded:
        return aligned(value, layout.axes(node.indices), layout)
    row = aligned(printer.working(value), layout.axes(node.all_indices), layout)
    if not row.axes:
        return row
    if not set(row.axes) <= set(node.folded):
        raise CannotPrint(
            f"kernel {layout.nodes.kernel.name}: {node.stage.target.name} reduces another axis than"
            " that of its row"
        )
    largest = node.reduction is ir.ReductionKind.MAX and loops.heeds(node)
    text = f"{'_largest' if largest else f'jnp.{node.reduction}'}({row.text}, axis=0)"
    return TileText(text, row.dtype)


def block_function(
    nodes: TileNodes, tiling: Tiling, name: str, names: NameAllocator
) -> tuple[BlockLayout, WarpgroupFunction]:
    """The layout of a tiling, and the function that computes a block of it: of rows where no tile
    has two axes and none is looped along, of matrices elsewhere.
    """
    if _holds_rows(nodes, tiling):
        layout = RowLayout(nodes, tiling)
        return layout, row_body(layout, name, names)
    matrices = WarpgroupLayout(nodes, tiling)
    return matrices, warpgroup_body(matrices, name, names)


def _holds_rows(nodes: TileNodes, tiling: Tiling) -> bool:
    """Whether no tile has two axes, or a short one that threads would share, and none is a part of
    a loop."""
    if {loop_index.name for loop_index in serial(nodes)} & tiling.tiles.keys():
        return False
    tiles = [
        [
            size
            for loop_index in node.all_indices
            if (size := tiling.tiles.get(loop_index.name, loop_index.size)) > 1
        ]
        for node in nodes.all
    ]
    return max(map(len, tiles)) == 1 and all(size >= _THREADS for row in tiles for size in row)
