"""The scalar functions as jax's, and the element types that they take and give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...tensor.types import DType
from .. import ir
from ..expressions import TRUTHS, WHOLE, of_whole_literals
from .errors import CannotPrint
from .values import Value, working

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
_OF_WHOLE = {ir.Operation.MAXIMUM: "jnp.maximum", ir.Operation.MINIMUM: "jnp.minimum"}

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
class Result:
    """How a function is called, with which types."""

    operand: DType
    dtype: DType
    text: Callable[[Sequence[str]], str]


def result(
    operation: ir.Operation, dtypes: Sequence[DType], arguments: Sequence[ir.Expression]
) -> Result:
    """Whole numbers stay whole where the function and all literals are."""
    whole = operation in TRUTHS | WHOLE and all(map(_is_whole, arguments))
    operand = working(dtypes, DType.I32 if whole else DType.F32)
    if operation in _SINGLE and operand is DType.F64:
        raise CannotPrint(
            f"Triton has no {operation}, and what stands in for it has single precision"
        )
    dtype = DType.BOOL if operation in TRUTHS else operand
    calls = {**_CALLS, **_OF_WHOLE} if operand is DType.I32 else _CALLS
    return Result(operand, dtype, lambda texts: _text(operation, texts, calls))


def zeros(operation: ir.Operation, given: Sequence[Value]) -> frozenset[ir.Index]:
    """The indices beyond whose sizes a function gives zero, because all that it takes is zero."""
    if operation not in _KEEP_ZERO:
        return frozenset()
    tiles = [one for one in given if one.dtype is not DType.WEAK]
    if (len(tiles) < len(given) and operation is not ir.Operation.MULTIPLY) or not tiles:
        return frozenset()
    return frozenset.intersection(*(one.zeros for one in tiles))


def _is_whole(argument: ir.Expression) -> bool:
    """Whether it may be; of literals, those that are one of the whole numbers that there are."""
    return not isinstance(argument, ir.Constant) or of_whole_literals(argument)


def _text(operation: ir.Operation, texts: Sequence[str], calls: Mapping[ir.Operation, str]) -> str:
    if operation in _INFIX:
        return f"({texts[0]} {_INFIX[operation]} {texts[1]})"
    if operation is ir.Operation.NEGATIVE:
        return f"(-{texts[0]})"
    return f"{calls[operation]}({', '.join(texts)})"
