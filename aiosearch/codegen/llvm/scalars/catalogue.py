"""Which functions there are, and how they are put into a module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from inspect import signature
from typing import TypeAlias

from ....tensor.types import DType
from ...ir import Operation
from ..operators import OperatorValue, VectorFunctionBody
from . import error_functions, exact, exponentials, half_precision, logarithms, powers, trigonometry


class Conversion(StrEnum):
    """Between `float` and the type of 16 bits that is asked for, whose values go as `i16`."""

    NARROW = "narrow"
    """To the nearest, halves to even."""
    WIDEN = "widen"


class Rounded(StrEnum):
    """Of floats that were rounded already: as if they had been rounded once more."""

    EXP = "rounded_exp"


Name: TypeAlias = Operation | Conversion | Rounded
FunctionRequest: TypeAlias = tuple[Name, int, DType]
"""A function, on how many lanes, and of which type."""

FUNCTIONS: dict[Operation, Callable[..., OperatorValue]] = {
    Operation.COS: trigonometry.cos,
    Operation.ERF: error_functions.erf,
    Operation.ERFC: error_functions.erfc,
    Operation.EXP: exponentials.exp,
    Operation.EXPM1: exponentials.expm1,
    Operation.FLOOR: exact.floor,
    Operation.LOG: logarithms.log,
    Operation.LOG1P: logarithms.log1p,
    Operation.MAXIMUM: exact.maximum,
    Operation.MINIMUM: exact.minimum,
    Operation.POW: powers.power,
    Operation.ROUND: exact.rounded,
    Operation.SIN: trigonometry.sin,
    Operation.SQRT: exact.sqrt,
    Operation.TANH: exponentials.tanh,
}

SHORT: dict[Operation, Callable[..., OperatorValue]] = {Operation.EXP: exponentials.short_exp}
"""Of floats, for those who round the result to a bf16: asked for by that type."""

ROUNDED: dict[Operation, Rounded] = {Operation.EXP: Rounded.EXP}
"""What sums in 32 bits may be given to instead: they have been rounded many times."""

OF_ROUNDED: dict[Rounded, Callable[[OperatorValue], OperatorValue]] = {
    Rounded.EXP: exponentials.rounded_exp
}

CONVERSIONS: dict[tuple[Conversion, DType], Callable[[OperatorValue], OperatorValue]] = {
    (Conversion.NARROW, DType.BF16): half_precision.to_bf16,
    (Conversion.NARROW, DType.F16): half_precision.to_f16,
    (Conversion.WIDEN, DType.BF16): half_precision.from_bf16,
    (Conversion.WIDEN, DType.F16): half_precision.from_f16,
}

ELEMENTS = {DType.F32: "float", DType.F64: "double"}


def symbol(name: Name, lanes: int, dtype: DType) -> str:
    """The name of a function in LLVM IR, such as `@aio.exp.v16f32`."""
    return f"@aio.{name}.{'' if lanes == 1 else f'v{lanes}'}{dtype}"


def definition(
    name: Name, lanes: int, dtype: DType, *, fused: bool = True, scaling: bool = False
) -> tuple[str, str]:
    """A function's symbol and its text. What it calls comes with `library`.

    `fused` says that the machine has FMA, and with it SSE 4.1 and F16C: all with AVX2 do. Without,
    nothing is used that LLVM would call a library for anywhere. `scaling` says that it has AVX-512.
    Neither `scaling` nor the number of lanes changes a result.
    """
    text, _ = _written(name, lanes, dtype, fused, scaling)
    return symbol(name, lanes, dtype), text


def library(
    requests: Iterable[FunctionRequest], *, fused: bool = True, scaling: bool = False
) -> str:
    """The texts of functions, each once, after what they call. It does not depend on the order."""
    declarations: set[str] = set()
    helpers: dict[str, str] = {}
    texts = {}
    for request in requests:
        texts[symbol(*request)], body = _written(*request, fused, scaling)
        declarations |= body.declarations
        helpers |= body.helpers
    functions = [text for _, text in [*sorted(helpers.items()), *sorted(texts.items())]]
    return "\n".join([*sorted(declarations), *functions])


def _written(
    name: Name, lanes: int, dtype: DType, fused: bool, scaling: bool
) -> tuple[str, VectorFunctionBody]:
    body = VectorFunctionBody(lanes, fused, scaling)
    function, element = _definition_of(name, dtype)
    operands = [
        OperatorValue(body, element, f"%{parameter}")
        for parameter in signature(function).parameters
    ]
    result = function(*operands)
    listed = ", ".join(f"{operand.kind} {operand.text}" for operand in operands)
    head = f"define internal {result.kind} {symbol(name, lanes, dtype)}({listed}) alwaysinline {{"
    lines = [head, "entry:", *body.lines, f"  ret {result.kind} {result.text}", "}", ""]
    return "\n".join(lines), body


def _definition_of(name: Name, dtype: DType) -> tuple[Callable[..., OperatorValue], str]:
    """What writes a function, and the type of its operands."""
    if isinstance(name, Conversion):
        return CONVERSIONS[name, dtype], "float" if name is Conversion.NARROW else "i16"
    if isinstance(name, Rounded):
        return OF_ROUNDED[name], "float"
    if dtype is DType.BF16:
        return SHORT[name], "float"
    return FUNCTIONS[name], ELEMENTS[dtype]
