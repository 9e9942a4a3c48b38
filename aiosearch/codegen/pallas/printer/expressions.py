"""Expressions over elements, printed as jax expressions over tiles.

`multiply(X[i, k], s[i])` becomes `(X_tile * s_tile[:, None])`: `TilePrinter` loads each tile once,
aligns the axes of operands, and widens half types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ....tensor.types import DType
from ... import ir
from ...errors import CannotPrint
from ...ir.simplification import (
    INTEGER_OPERATIONS,
    TRUTH_OPERATIONS,
    as_integer_literals,
    is_made_of_integer_literals,
)
from .. import dialect
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
    ir.Operation.LGAMMA: "_lgamma",
    ir.Operation.DIGAMMA: "_digamma",
    ir.Operation.REM: "jnp.fmod",
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
"""Operations whose result is zero where all operands are."""

_SINGLE = frozenset(
    {ir.Operation.ERF, ir.Operation.ERFC, ir.Operation.LGAMMA, ir.Operation.DIGAMMA}
)
"""Operations that helpers compute in single precision alone."""


@dataclass(frozen=True)
class OperationCall:
    """How a function is called, with which types."""

    operand: DType
    dtype: DType
    text: Callable[[Sequence[str]], str]


def operation_call(
    operation: ir.Operation, dtypes: Sequence[DType], arguments: Sequence[ir.Expression]
) -> OperationCall:
    """The call of `operation` on operands of these types; whole numbers stay whole where the
    function and all literals are.
    """
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
    operation: ir.Operation, operands: Sequence[TileText]
) -> frozenset[ir.LoopIndex]:
    """The indices beyond whose sizes `operation` gives zero, because all `operands` are zero
    there.
    """
    if operation not in _KEEP_ZERO:
        return frozenset()
    tiles = [tile for tile in operands if tile.dtype is not DType.WEAK]
    # 0 + 1 is no zero, but 0 times a finite literal is: then no mask is needed before a sum.
    if (len(tiles) < len(operands) and operation is not ir.Operation.MULTIPLY) or not tiles:
        return frozenset()
    return frozenset.intersection(*(tile.zeros for tile in tiles))


def _is_integer_expression(argument: ir.Expression) -> bool:
    """Whether an operand may be whole; of literals, those that are whole numbers of 32 bits."""
    return not isinstance(argument, ir.Constant) or is_made_of_integer_literals(argument)


def _text(operation: ir.Operation, texts: Sequence[str], calls: Mapping[ir.Operation, str]) -> str:
    if operation in _INFIX:
        return f"({texts[0]} {_INFIX[operation]} {texts[1]})"
    if operation is ir.Operation.NEGATIVE:
        return f"(-{texts[0]})"
    return f"{calls[operation]}({', '.join(texts)})"


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
        """The tile of an expression of `node`."""
        match value:
            case ir.Constant():
                return literal(value.value)
            case ir.PositionValue():
                return self.positions.value(value.position)
            case ir.BufferLoad() if value in node.reads:
                return self.known(node.reads[value])
            case ir.BufferLoad():
                return self.load(value)
            case ir.Round(ir.Apply() | ir.BoundedValue() as inner, DType.I32) if (
                is_made_of_integer_literals(inner)
            ):
                return self.value(as_integer_literals(inner), node)
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
        """The tile that the value of `node` was given a name as."""
        tile = self.scope.known(node)
        assert tile is not None, f"{node.stage} is not computed yet"
        return tile

    def _apply(self, value: ir.Apply, node: TileNode) -> TileText:
        operands = [self.value(argument, node) for argument in value.arguments]
        axes = self.layout.axes(part for value in operands for part in value.axes)
        call = operation_call(value.operation, [part.dtype for part in operands], value.arguments)
        if all(part.dtype is DType.WEAK for part in operands):
            operands[0] = cast(operands[0], call.operand)
        texts = [broadcast_text(widened_operand(part, call.operand), axes) for part in operands]
        return TileText(
            call.text(texts), call.dtype, axes, zero_preserving_indices(value.operation, operands)
        )

    def where(self, where: TileText, inner: TileText, outer: TileText) -> TileText:
        """`inner` where `where` is true, elsewhere `outer`."""
        dtype = branch_dtype(inner, outer)
        if inner.dtype is outer.dtype:
            inner = cast(inner, dtype)
        axes = self.layout.axes((*where.axes, *inner.axes, *outer.axes))
        texts = [
            broadcast_text(where, axes),
            *(broadcast_text(widened_operand(branch, dtype), axes) for branch in (inner, outer)),
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
        """The tile of a buffer's elements, with its axes in `order`; zeros outside."""
        indices = {part for at in load.at for part in ir.indices(at)}
        axes = self.layout.axes(indices) if order is None else order
        bound = self.scope.known((load, axes))
        if bound is not None:
            return bound
        # What does not move with the loop is loaded once, before it.
        if self.scope.outer is not None and self.layout.loop not in indices:
            return TilePrinter(self.layout, self.blocks, self.scope.outer, self.refs).load(
                load, axes
            )
        mask = self.positions.mask(self.positions.beyond(load.at, load.buffer.shape), axes)
        text = dialect.load(self.refs[load.buffer], self._places(load, axes, mask), mask)
        sized = zip(load.at, load.buffer.shape, strict=True)
        zeros = frozenset(
            part for at, size in sized if (part := ir.single_index(at)) and part.size == size
        )
        if load.buffer.dtype is DType.BOOL:
            text = f"({text} != 0)"  # without a GPU jax has them as whole numbers
        tile = TileText(text, load.buffer.dtype, axes, zeros)
        return self.scope.bind((load, axes), f"{load.buffer.name}_tile", tile)

    def _places(self, load: ir.BufferLoad, axes: tuple[ir.LoopIndex, ...], mask: str) -> str:
        """Where a tile is in what a program is handed of a buffer."""
        left = self.blocks.left(load.buffer)
        places = tuple(ir.single_index(load.at[part.axis]) for part in left)
        sizes = tuple(part.size for part in left)
        if not mask and axes and places == axes and sizes == self.layout.shape(axes):
            return "..."
        places_text = [
            self.positions.value(load.at[part.axis])
            if part.cut is None
            else self.positions.inside(part.cut)
            for part in left
        ]
        return ", ".join(broadcast_text(part, axes) for part in places_text) or "0"

    def store(self, node: TileNode) -> None:
        """Writes the tile of the output `node`, without what lies beyond its indices."""
        buffer, at = node.stage.target, node.stage.at
        axes, tile = self.layout.axes(node.stage.free), self.known(node)
        text = broadcast_text(tile, axes)
        if tile.axes != axes:
            text = f"jnp.broadcast_to({text}, {self.layout.shape(axes)})"
        mask = self.positions.mask(self.positions.below(node.stage.free), axes)
        places = self._places(ir.BufferLoad(buffer, at), axes, mask)
        if any(map(self.layout.overlaps, at)):
            places = self._apart(node.stage, axes, mask)
        self.scope.lines.append(dialect.store(self.refs[buffer], places, text, mask))

    def _apart(self, stage: ir.KernelStage, axes: tuple[ir.LoopIndex, ...], mask: str) -> str:
        """Positions of which none beyond the indices is that of another element.

        A mask is enough on a GPU; without a GPU, what is masked is written back as it was.
        """
        first, *following = (
            broadcast_text(self.positions.value(position), axes) for position in stage.at
        )
        return ", ".join([f"jnp.where({mask}, {first}, {stage.target.shape[0]})", *following])
