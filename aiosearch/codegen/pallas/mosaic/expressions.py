"""Expressions over elements, printed as jax expressions over a warpgroup's tiles in registers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace

from ....tensor.types import DType
from ... import ir
from ...errors import CannotPrint
from ..layout import TileLayout
from ..nodes import TileNode
from ..printer.expressions import operation_call
from ..printer.text import (
    TextScope,
    TileText,
    branch_dtype,
    cast,
    literal,
    widened_operand,
    working_dtype,
)
from .layout import BlockLayout, MatrixAxis, WarpgroupLayout
from .staging import StagedTile, require_order

_VECTOR_LAYOUTS = {
    MatrixAxis.ROW: "plgpu.Layout.WGMMA.reduce(1)",
    MatrixAxis.COLUMN: "plgpu.Layout.WGMMA.reduce(0)",
}
"""How a tile of one axis is spread over threads."""


def aligned(value: TileText, axes: tuple[ir.LoopIndex, ...], layout: TileLayout) -> TileText:
    """`value` as a tile that has exactly these `axes`; a literal stays one."""
    if value.axes == axes or value.dtype is DType.WEAK:
        return value
    places = tuple(axes.index(axis) for axis in value.axes)
    text = f"lax.broadcast_in_dim({value.text}, {layout.shape(axes)}, {places})"
    return replace(value, text=text, axes=axes)


def kept(value: TileText, node: TileNode, layout: WarpgroupLayout) -> TileText:
    """`value` over the axes of `node`, in the type that its buffer holds."""
    axes = layout.axes(node.indices)
    if value.dtype is DType.WEAK or not axes:
        raise CannotPrint(
            f"kernel {layout.nodes.kernel.name}: {node.stage.target.name} is one number of a block,"
            " and warpgroups hold tiles of one or two axes"
        )
    return cast(aligned(value, axes, layout), node.stage.target.dtype)


class RegisterPrinter(ABC):
    """Prints into one scope; how tiles are loaded is for others to say."""

    def __init__(self, layout: BlockLayout, scope: TextScope) -> None:
        self.layout, self.scope = layout, scope

    @abstractmethod
    def load(self, load: ir.BufferLoad) -> TileText:
        """A tile in registers, of an array of the caller's."""

    def value(self, value: ir.Expression, node: TileNode) -> TileText:
        """The tile of an expression of `node`; raises CannotPrint for positions as values."""
        match value:
            case ir.Constant():
                return literal(value.value)
            case ir.BufferLoad() if value in node.reads:
                return self.tile_of(node.reads[value])
            case ir.BufferLoad():
                return self.load(value)
            case ir.Round():
                return cast(self.value(value.value, node), value.dtype)
            case ir.Apply(operation=ir.Operation.SELECT):
                where, inner, outer = (self.value(part, node) for part in value.arguments)
                return self._select(cast(where, DType.BOOL), inner, outer)
            case ir.Apply():
                return self._apply(value, node)
            case ir.PositionValue() | ir.BoundedValue():
                raise CannotPrint(
                    f"kernel {self.layout.nodes.kernel.name}: {node.stage.target.name} depends on"
                    " positions, of which a warpgroup's tiles have none"
                )

    def tile_of(self, node: TileNode) -> TileText:
        """The tile that the value of `node` was given a name as."""
        tile = self.scope.known(node)
        assert tile is not None, f"{node.stage} is not computed yet"
        return tile

    def working(self, value: TileText) -> TileText:
        """`value` in the type that it is computed in."""
        return widened_operand(value, working_dtype([value.dtype], DType.F32))

    def scaled(self, value: TileText, factor: TileText) -> TileText:
        """`value` times a factor of the whole tile."""
        return self._call(ir.Operation.MULTIPLY, (value, factor), ())

    def _apply(self, value: ir.Apply, node: TileNode) -> TileText:
        operands = tuple(self.value(argument, node) for argument in value.arguments)
        return self._call(value.operation, operands, value.arguments)

    def _call(
        self,
        operation: ir.Operation,
        operands: tuple[TileText, ...],
        arguments: tuple[ir.Expression, ...],
    ) -> TileText:
        if all(part.dtype is DType.WEAK for part in operands):
            raise CannotPrint(
                f"kernel {self.layout.nodes.kernel.name}: {operation} of constants alone"
            )
        axes = self.layout.axes(axis for part in operands for axis in part.axes)
        call = operation_call(operation, [part.dtype for part in operands], arguments)
        texts = [
            aligned(widened_operand(part, call.operand), axes, self.layout).text
            for part in operands
        ]
        return TileText(call.text(texts), call.dtype, axes)

    def _select(self, where: TileText, inner: TileText, outer: TileText) -> TileText:
        dtype = branch_dtype(inner, outer)
        axes = self.layout.axes((*where.axes, *inner.axes, *outer.axes))
        texts = [
            aligned(where, axes, self.layout).text,
            *(
                aligned(widened_operand(branch, dtype), axes, self.layout).text
                for branch in (inner, outer)
            ),
        ]
        return TileText(f"jnp.where({', '.join(texts)})", dtype, axes)


class WarpgroupPrinter(RegisterPrinter):
    """Loads tiles of matrices from shared memory; what does not depend on its scope's loop goes to
    the scope around."""

    def __init__(
        self,
        layout: WarpgroupLayout,
        scope: TextScope,
        staged: Mapping[ir.BufferLoad, StagedTile],
        slot: str,
    ) -> None:
        super().__init__(layout, scope)
        self._matrices, self._staged, self._slot = layout, staged, slot

    def load(self, load: ir.BufferLoad) -> TileText:
        """A tile in registers, from shared memory."""
        bound = self.scope.known(load)
        if bound is not None:
            return bound
        staged = self._staged[load]
        if not staged.streamed and self.scope.outer is not None:
            outer = WarpgroupPrinter(self._matrices, self.scope.outer, self._staged, self._slot)
            return outer.load(load)
        axes = self._matrices.axes(staged.axes)
        require_order(self._matrices, staged, axes)
        layout = (
            _VECTOR_LAYOUTS[self._matrices.role(axes[0])]
            if len(axes) == 1
            else "plgpu.Layout.WGMMA"
        )
        text = f"plgpu.layout_cast({staged.reference(self._slot, axes)}[...], {layout})"
        tile = TileText(text, load.buffer.dtype, axes)
        return self.scope.bind(load, f"{load.buffer.name}_tile", tile)
