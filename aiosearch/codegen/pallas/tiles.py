"""Expressions over elements, printed as expressions over tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...tensor.types import DType
from .. import ir
from ..expressions import of_whole_literals, settled
from . import dialect
from .blocks import Blocks
from .layout import Layout
from .nodes import Node
from .operations import result, zeros
from .positions import Positions
from .scope import Scope
from .values import Value, branches, cast, literal, spread, wide


class Tiles:
    """Prints into one scope; what does not depend on its loop goes to the scope around."""

    def __init__(
        self, layout: Layout, blocks: Blocks, scope: Scope, refs: Mapping[ir.Buffer, str]
    ) -> None:
        self.layout, self.blocks, self.scope, self.refs = layout, blocks, scope, refs
        self.positions = Positions(layout, scope)

    def value(self, value: ir.Expression, node: Node) -> Value:
        """The tile of an expression of a node."""
        match value:
            case ir.Constant():
                return literal(value.value)
            case ir.Count():
                return self.positions.value(value.position)
            case ir.Load() if value in node.reads:
                return self.known(node.reads[value])
            case ir.Load():
                return self.load(value)
            case ir.Round(ir.Apply() | ir.Within() as made, DType.I32) if of_whole_literals(made):
                return self.value(settled(made), node)
            case ir.Round():
                return cast(self.value(value.value, node), value.dtype)
            case ir.Within():
                return self._within(value, node)
            case ir.Apply(operation=ir.Operation.SELECT):
                where, *branches = (self.value(argument, node) for argument in value.arguments)
                return self.where(cast(where, DType.BOOL), *branches)
            case ir.Apply():
                return self._apply(value, node)

    def known(self, node: Node) -> Value:
        """The tile that a node's value was given a name as."""
        found = self.scope.known(node)
        assert found is not None, f"{node.stage} is not computed yet"
        return found

    def _apply(self, value: ir.Apply, node: Node) -> Value:
        given = [self.value(argument, node) for argument in value.arguments]
        axes = self.layout.axes(one for value in given for one in value.axes)
        own = result(value.operation, [one.dtype for one in given], value.arguments)
        if all(one.dtype is DType.WEAK for one in given):
            given[0] = cast(given[0], own.operand)
        texts = [spread(wide(one, own.operand), axes) for one in given]
        return Value(own.text(texts), own.dtype, axes, zeros(value.operation, given))

    def where(self, where: Value, inner: Value, other: Value) -> Value:
        """One value where it is true, elsewhere the other one."""
        dtype = branches(inner, other)
        if inner.dtype is other.dtype:
            inner = cast(inner, dtype)
        axes = self.layout.axes((*where.axes, *inner.axes, *other.axes))
        texts = [spread(where, axes), *(spread(wide(one, dtype), axes) for one in (inner, other))]
        return Value(f"jnp.where({', '.join(texts)})", dtype, axes)

    def _within(self, value: ir.Within, node: Node) -> Value:
        inner = self.value(value.value, node)
        tests = [test for limits in value.limits for test in self.positions.within(*limits)]
        if not tests:
            return inner
        axes = self.positions.axes(tests)
        where = Value(self.positions.mask(tests, axes), DType.BOOL, axes)
        if len(tests) > 1:
            where = replace(where, text=f"({where.text})")
        return self.where(where, inner, self.value(value.otherwise, node))

    def load(self, load: ir.Load, order: tuple[ir.Index, ...] | None = None) -> Value:
        """The tile of a buffer's elements, with its axes in an order; zeros outside."""
        indices = {one for at in load.at for one in ir.indices(at)}
        axes = self.layout.axes(indices) if order is None else order
        known = self.scope.known((load, axes))
        if known is not None:
            return known
        if self.scope.outer is not None and self.layout.loop not in indices:
            return Tiles(self.layout, self.blocks, self.scope.outer, self.refs).load(load, axes)
        mask = self.positions.mask(self.positions.beyond(load.at, load.buffer.shape), axes)
        text = dialect.load(self.refs[load.buffer], self._places(load, axes, mask), mask)
        sized = zip(load.at, load.buffer.shape, strict=True)
        zeros = frozenset(one for at, size in sized if (one := ir.alone(at)) and one.size == size)
        if load.buffer.dtype is DType.BOOL:
            text = f"({text} != 0)"  # without a GPU jax has them as whole numbers
        found = Value(text, load.buffer.dtype, axes, zeros)
        return self.scope.bind((load, axes), f"{load.buffer.name}_tile", found)

    def _places(self, load: ir.Load, axes: tuple[ir.Index, ...], mask: str) -> str:
        """Where a tile is in what a program is handed of a buffer."""
        left = self.blocks.left(load.buffer)
        places = tuple(ir.alone(load.at[one.axis]) for one in left)
        sizes = tuple(one.size for one in left)
        if not mask and axes and places == axes and sizes == self.layout.shape(axes):
            return "..."
        found = [
            self.positions.value(load.at[one.axis])
            if one.cut is None
            else self.positions.inside(one.cut)
            for one in left
        ]
        return ", ".join(spread(one, axes) for one in found) or "0"

    def store(self, node: Node) -> None:
        """Writes an output's tile, without what lies beyond its indices."""
        buffer, at = node.stage.target, node.stage.at
        axes, found = self.layout.axes(node.stage.free), self.known(node)
        text = spread(found, axes)
        if found.axes != axes:
            text = f"jnp.broadcast_to({text}, {self.layout.shape(axes)})"
        mask = self.positions.mask(self.positions.below(node.stage.free), axes)
        places = self._places(ir.Load(buffer, at), axes, mask)
        if any(map(self.layout.overlaps, at)):
            places = self._apart(node.stage, axes, mask)
        self.scope.lines.append(dialect.store(self.refs[buffer], places, text, mask))

    def _apart(self, stage: ir.Stage, axes: tuple[ir.Index, ...], mask: str) -> str:
        """Places of which none beyond the indices is one of another element.

        A mask is enough on a GPU; without one, what is masked is written back as it was.
        """
        first, *others = (spread(self.positions.value(one), axes) for one in stage.at)
        return ", ".join([f"jnp.where({mask}, {first}, {stage.target.shape[0]})", *others])
