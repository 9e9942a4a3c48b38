"""Expressions over elements, printed as jax expressions over tiles.

Expressions over elements, printed as expressions over tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ....tensor.types import DType
from ... import ir
from ...ir.simplification import (
    INTEGER_OPERATIONS,
    TRUTH_OPERATIONS,
    as_integer_literals,
    is_made_of_integer_literals,
)
from .. import dialect
from ..errors import CannotPrint
from ..layout import TileLayout
from ..nodes import TileNode
from .block_specs import ArrayBlocks
from .positions import PositionPrinter
from .text import (
    TextScope,
    TileText,
    branch_dtype,
    broadcast_text,
    cast,
    literal,
    widened_operand,
    working_dtype,
)

_INFIX = {
    ir.Operation.ADD: "+",
    ir.Operation.SUBTRACT: "-",
    ir.Operation.MULTIPLY: "*",
    ir.Operation.DIVIDE: "/",
    ir.Operation.LESS: "<",
    ir.Operation.LESS_EQUAL: "<=",
    ir.Operation.EQUAL: "==",
    ir.Operation.NOT_EQUAL: "!=",
}
_CALLS = {
    ir.Operation.MAXIMUM: "_maximum",
    ir.Operation.MINIMUM: "_minimum",
    ir.Operation.NEGATIVE: "-",
    ir.Operation.ABSOLUTE: "jnp.abs",
    ir.Operation.SQRT: "jnp.sqrt",
    ir.Operation.EXP: "jnp.exp",
    ir.Operation.LOG: "jnp.log",
    ir.Operation.EXPM1: "jnp.expm1",
    ir.Operation.LOG1P: "jnp.log1p",
    ir.Operation.TANH: "jnp.tanh",
    ir.Operation.ERF: "_erf",
    ir.Operation.ERFC: "_erfc",
    ir.Operation.SIN: "jnp.sin",
    ir.Operation.COS: "jnp.cos",
    ir.Operation.FLOOR: "jnp.floor",
    ir.Operation.ROUND: "_round",
    ir.Operation.POW: "jnp.power",
}
_INTEGER_CALLS = {ir.Operation.MAXIMUM: "jnp.maximum", ir.Operation.MINIMUM: "jnp.minimum"}

_KEEP_ZERO = {
    ir.Operation.ADD,
    ir.Operation.SUBTRACT,
    ir.Operation.MULTIPLY,
    ir.Operation.MAXIMUM,
    ir.Operation.MINIMUM,
    ir.Operation.NEGATIVE,
    ir.Operation.ABSOLUTE,
    ir.Operation.SQRT,
    ir.Operation.EXPM1,
    ir.Operation.LOG1P,
    ir.Operation.TANH,
}
"""What is zero where all operands are."""

_SINGLE = frozenset({ir.Operation.ERF, ir.Operation.ERFC})
"""What helpers compute, and no better than floats need it."""


@dataclass(frozen=True)
class OperationCall:
    """How a function is called, with which types."""

    operand: DType
    dtype: DType
    text: Callable[[Sequence[str]], str]


def operation_call(
    operation: ir.Operation, dtypes: Sequence[DType], arguments: Sequence[ir.Expression]
) -> OperationCall:
    """Whole numbers stay whole where the function and all literals are."""
    whole = operation in TRUTH_OPERATIONS | INTEGER_OPERATIONS and all(
        map(_is_integer_expression, arguments)
    )
    operand = working_dtype(dtypes, DType.I32 if whole else DType.F32)
    if operation in _SINGLE and operand is DType.F64:
        raise CannotPrint(
            f"Triton has no {operation}, and what stands in for it has single precision"
        )
    dtype = DType.BOOL if operation in TRUTH_OPERATIONS else operand
    calls = {**_CALLS, **_INTEGER_CALLS} if operand is DType.I32 else _CALLS
    return OperationCall(operand, dtype, lambda texts: _text(operation, texts, calls))


def zero_preserving_indices(
    operation: ir.Operation, given: Sequence[TileText]
) -> frozenset[ir.LoopIndex]:
    """The indices beyond whose sizes a function gives zero, because all that it takes is zero."""
    if operation not in _KEEP_ZERO:
        return frozenset()
    tiles = [one for one in given if one.dtype is not DType.WEAK]
    if (len(tiles) < len(given) and operation is not ir.Operation.MULTIPLY) or not tiles:
        return frozenset()
    return frozenset.intersection(*(one.zeros for one in tiles))


def _is_integer_expression(argument: ir.Expression) -> bool:
    """Whether it may be; of literals, those that are one of the whole numbers that there are."""
    return not isinstance(argument, ir.Constant) or is_made_of_integer_literals(argument)


def _text(operation: ir.Operation, texts: Sequence[str], calls: Mapping[ir.Operation, str]) -> str:
    if operation in _INFIX:
        return f"({texts[0]} {_INFIX[operation]} {texts[1]})"
    if operation is ir.Operation.NEGATIVE:
        return f"(-{texts[0]})"
    return f"{calls[operation]}({', '.join(texts)})"


pass


class TilePrinter:
    """Prints into one scope; what does not depend on its loop goes to the scope around."""

    def __init__(
        self,
        layout: TileLayout,
        blocks: ArrayBlocks,
        scope: TextScope,
        refs: Mapping[ir.Buffer, str],
    ) -> None:
        self.layout, self.blocks, self.scope, self.refs = layout, blocks, scope, refs
        self.positions = PositionPrinter(layout, scope)

    def value(self, value: ir.Expression, node: TileNode) -> TileText:
        """The tile of an expression of a node."""
        match value:
            case ir.Constant():
                return literal(value.value)
            case ir.PositionValue():
                return self.positions.value(value.position)
            case ir.BufferLoad() if value in node.reads:
                return self.known(node.reads[value])
            case ir.BufferLoad():
                return self.load(value)
            case ir.Round(ir.Apply() | ir.BoundedValue() as made, DType.I32) if (
                is_made_of_integer_literals(made)
            ):
                return self.value(as_integer_literals(made), node)
            case ir.Round():
                return cast(self.value(value.value, node), value.dtype)
            case ir.BoundedValue():
                return self._within(value, node)
            case ir.Apply(operation=ir.Operation.SELECT):
                where, *branches = (self.value(argument, node) for argument in value.arguments)
                return self.where(cast(where, DType.BOOL), *branches)
            case ir.Apply():
                return self._apply(value, node)

    def known(self, node: TileNode) -> TileText:
        """The tile that a node's value was given a name as."""
        found = self.scope.known(node)
        assert found is not None, f"{node.stage} is not computed yet"
        return found

    def _apply(self, value: ir.Apply, node: TileNode) -> TileText:
        given = [self.value(argument, node) for argument in value.arguments]
        axes = self.layout.axes(one for value in given for one in value.axes)
        own = operation_call(value.operation, [one.dtype for one in given], value.arguments)
        if all(one.dtype is DType.WEAK for one in given):
            given[0] = cast(given[0], own.operand)
        texts = [broadcast_text(widened_operand(one, own.operand), axes) for one in given]
        return TileText(
            own.text(texts), own.dtype, axes, zero_preserving_indices(value.operation, given)
        )

    def where(self, where: TileText, inner: TileText, other: TileText) -> TileText:
        """One value where it is true, elsewhere the other one."""
        dtype = branch_dtype(inner, other)
        if inner.dtype is other.dtype:
            inner = cast(inner, dtype)
        axes = self.layout.axes((*where.axes, *inner.axes, *other.axes))
        texts = [
            broadcast_text(where, axes),
            *(broadcast_text(widened_operand(one, dtype), axes) for one in (inner, other)),
        ]
        return TileText(f"jnp.where({', '.join(texts)})", dtype, axes)

    def _within(self, value: ir.BoundedValue, node: TileNode) -> TileText:
        inner = self.value(value.value, node)
        tests = [test for limits in value.limits for test in self.positions.within(*limits)]
        if not tests:
            return inner
        axes = self.positions.axes(tests)
        where = TileText(self.positions.mask(tests, axes), DType.BOOL, axes)
        if len(tests) > 1:
            where = replace(where, text=f"({where.text})")
        return self.where(where, inner, self.value(value.otherwise, node))

    def load(self, load: ir.BufferLoad, order: tuple[ir.LoopIndex, ...] | None = None) -> TileText:
        """The tile of a buffer's elements, with its axes in an order; zeros outside."""
        indices = {one for at in load.at for one in ir.indices(at)}
        axes = self.layout.axes(indices) if order is None else order
        known = self.scope.known((load, axes))
        if known is not None:
            return known
        if self.scope.outer is not None and self.layout.loop not in indices:
            return TilePrinter(self.layout, self.blocks, self.scope.outer, self.refs).load(
                load, axes
            )
        mask = self.positions.mask(self.positions.beyond(load.at, load.buffer.shape), axes)
        text = dialect.load(self.refs[load.buffer], self._places(load, axes, mask), mask)
        sized = zip(load.at, load.buffer.shape, strict=True)
        zeros = frozenset(
            one for at, size in sized if (one := ir.single_index(at)) and one.size == size
        )
        if load.buffer.dtype is DType.BOOL:
            text = f"({text} != 0)"  # without a GPU jax has them as whole numbers
        found = TileText(text, load.buffer.dtype, axes, zeros)
        return self.scope.bind((load, axes), f"{load.buffer.name}_tile", found)

    def _places(self, load: ir.BufferLoad, axes: tuple[ir.LoopIndex, ...], mask: str) -> str:
        """Where a tile is in what a program is handed of a buffer."""
        left = self.blocks.left(load.buffer)
        places = tuple(ir.single_index(load.at[one.axis]) for one in left)
        sizes = tuple(one.size for one in left)
        if not mask and axes and places == axes and sizes == self.layout.shape(axes):
            return "..."
        found = [
            self.positions.value(load.at[one.axis])
            if one.cut is None
            else self.positions.inside(one.cut)
            for one in left
        ]
        return ", ".join(broadcast_text(one, axes) for one in found) or "0"

    def store(self, node: TileNode) -> None:
        """Writes an output's tile, without what lies beyond its indices."""
        buffer, at = node.stage.target, node.stage.at
        axes, found = self.layout.axes(node.stage.free), self.known(node)
        text = broadcast_text(found, axes)
        if found.axes != axes:
            text = f"jnp.broadcast_to({text}, {self.layout.shape(axes)})"
        mask = self.positions.mask(self.positions.below(node.stage.free), axes)
        places = self._places(ir.BufferLoad(buffer, at), axes, mask)
        if any(map(self.layout.overlaps, at)):
            places = self._apart(node.stage, axes, mask)
        self.scope.lines.append(dialect.store(self.refs[buffer], places, text, mask))

    def _apart(self, stage: ir.KernelStage, axes: tuple[ir.LoopIndex, ...], mask: str) -> str:
        """Places of which none beyond the indices is one of another element.

        A mask is enough on a GPU; without one, what is masked is written back as it was.
        """
        first, *others = (broadcast_text(self.positions.value(one), axes) for one in stage.at)
        return ", ".join([f"jnp.where({mask}, {first}, {stage.target.shape[0]})", *others])
