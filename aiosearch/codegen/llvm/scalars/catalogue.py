"""Which functions there are, how large their errors are, and how they are put into a module.

An error is the largest one, in units of the last place (ulp) of the exact result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from inspect import signature
from typing import TypeAlias

from ....tensor.types import DType
from ...ir import Operation
from ..operators import OperatorValue, VectorFunctionBody
from . import (
    error_functions,
    exact,
    exponentials,
    float_formats,
    gamma_functions,
    logarithms,
    powers,
    trigonometry,
)


@dataclass(frozen=True, slots=True)
class Error:
    """Bounds for results that are normal numbers; denormal results are rounded once more."""

    fused: float
    """With fused multiply-add."""
    plain: float
    """Without fused multiply-add."""

    def of(self, *, fused: bool) -> float:
        """The bound with or without fused multiply-add."""
        return self.fused if fused else self.plain


# Exact functions only select or round to integers; a square root is rounded once by the
# instruction.
_EXACT, _ROUNDED = Error(0, 0), Error(0.5, 0.5)

ERRORS: dict[tuple[Operation, DType], Error] = {
    (Operation.COS, DType.F32): Error(1.7, 1.7),
    (Operation.COS, DType.F64): Error(0.9, 0.9),
    (Operation.DIGAMMA, DType.F32): Error(4.0, 6.0),
    (Operation.DIGAMMA, DType.F64): Error(4.0, 6.0),
    (Operation.ERF, DType.F32): Error(1.3, 1.5),
    (Operation.ERF, DType.F64): Error(1.4, 1.5),
    (Operation.ERFC, DType.F32): Error(4.1, 4.9),
    (Operation.ERFC, DType.F64): Error(4.3, 5.2),
    (Operation.EXP, DType.BF16): Error(0.03, 0.03),
    (Operation.EXP, DType.F32): Error(1.0, 1.3),
    (Operation.EXP, DType.F64): Error(0.9, 1.2),
    (Operation.EXPM1, DType.F32): Error(1.5, 1.7),
    (Operation.EXPM1, DType.F64): Error(1.9, 2.1),
    (Operation.FLOOR, DType.F32): _EXACT,
    (Operation.FLOOR, DType.F64): _EXACT,
    (Operation.LGAMMA, DType.F32): Error(5.5, 7.0),
    (Operation.LGAMMA, DType.F64): Error(5.0, 7.0),
    (Operation.LOG, DType.F32): Error(0.9, 0.9),
    (Operation.LOG, DType.F64): Error(0.9, 0.9),
    (Operation.LOG1P, DType.F32): Error(0.9, 0.9),
    (Operation.LOG1P, DType.F64): Error(0.9, 0.9),
    (Operation.MAXIMUM, DType.F32): _EXACT,
    (Operation.MAXIMUM, DType.F64): _EXACT,
    (Operation.MINIMUM, DType.F32): _EXACT,
    (Operation.MINIMUM, DType.F64): _EXACT,
    (Operation.POW, DType.F32): Error(0.6, 0.6),
    (Operation.POW, DType.F64): Error(1.1, 1.4),
    (Operation.REM, DType.F32): _EXACT,
    (Operation.REM, DType.F64): _EXACT,
    (Operation.ROUND, DType.F32): _EXACT,
    (Operation.ROUND, DType.F64): _EXACT,
    (Operation.SIN, DType.F32): Error(1.7, 1.7),
    (Operation.SIN, DType.F64): Error(0.9, 0.9),
    (Operation.SQRT, DType.F32): _ROUNDED,
    (Operation.SQRT, DType.F64): _ROUNDED,
    (Operation.TANH, DType.F32): Error(2.8, 2.8),
    (Operation.TANH, DType.F64): Error(2.8, 2.8),
}
"""Measured by `benchmarks/scalars.py`: for functions of one f32, over all floats, and for `lgamma`
and `digamma` over those above zero; below they have zeros near which no digit is left.

A function for bf16 returns a float that is yet to be rounded, by half an ulp of bf16 at most.
"""


class Conversion(StrEnum):
    """Conversions between `float` and a 16-bit type, whose values are passed as i16."""

    NARROW = "narrow"
    """To the 16-bit type, to nearest, ties to even."""
    WIDEN = "widen"


class Rounded(StrEnum):
    """Functions of floats that have been rounded many times already: as exact as if their argument
    had been rounded once more."""

    EXP = "rounded_exp"


Name: TypeAlias = Operation | Conversion | Rounded
"""What a function is asked for by."""
FunctionRequest: TypeAlias = tuple[Name, int, DType]
"""A function, its number of lanes and its element type."""

FUNCTIONS: dict[Operation, Callable[..., OperatorValue]] = {
    Operation.COS: trigonometry.cos,
    Operation.DIGAMMA: gamma_functions.digamma,
    Operation.ERF: error_functions.erf,
    Operation.ERFC: error_functions.erfc,
    Operation.EXP: exponentials.exp,
    Operation.EXPM1: exponentials.expm1,
    Operation.FLOOR: exact.floor,
    Operation.LGAMMA: gamma_functions.lgamma,
    Operation.LOG: logarithms.log,
    Operation.LOG1P: logarithms.log1p,
    Operation.MAXIMUM: exact.maximum,
    Operation.MINIMUM: exact.minimum,
    Operation.POW: powers.power,
    Operation.REM: exact.remainder,
    Operation.ROUND: exact.rounded,
    Operation.SIN: trigonometry.sin,
    Operation.SQRT: exact.sqrt,
    Operation.TANH: exponentials.tanh,
}
"""The function of each operation that LLVM has no instruction for."""

SHORT: dict[Operation, Callable[..., OperatorValue]] = {Operation.EXP: exponentials.short_exp}
"""Faster functions whose result is rounded to bf16, asked for by that type."""

ROUNDED: dict[Operation, Rounded] = {Operation.EXP: Rounded.EXP}
"""Faster functions for arguments that are sums in f32."""

OF_ROUNDED: dict[Rounded, Callable[[OperatorValue], OperatorValue]] = {
    Rounded.EXP: exponentials.rounded_exp
}
"""The functions behind `ROUNDED`."""

CONVERSIONS: dict[tuple[Conversion, DType], Callable[[OperatorValue], OperatorValue]] = {
    (Conversion.NARROW, DType.BF16): float_formats.to_bf16,
    (Conversion.NARROW, DType.F16): float_formats.to_f16,
    (Conversion.WIDEN, DType.BF16): float_formats.from_bf16,
    (Conversion.WIDEN, DType.F16): float_formats.from_f16,
}
"""The function of each conversion."""

ELEMENTS = {DType.F32: "float", DType.F64: "double"}
"""LLVM types of the element types that functions compute in."""


def symbol(name: Name, lanes: int, dtype: DType) -> str:
    """The name of a function in LLVM IR, such as `@aio.exp.v16f32`."""
    return f"@aio.{name}.{'' if lanes == 1 else f'v{lanes}'}{dtype}"


def definition(
    name: Name, lanes: int, dtype: DType, *, fused: bool = True, scaling: bool = False
) -> tuple[str, str]:
    """A function's symbol and text; what it calls comes with `library`.

    `fused` says that the machine has FMA, SSE 4.1 and F16C, as all with AVX2 do; without, only
    instructions are used for which LLVM never calls a library. `scaling` says that it has AVX-512.
    Neither `scaling` nor the number of lanes changes a result.
    """
    text, _ = _written(name, lanes, dtype, fused, scaling)
    return symbol(name, lanes, dtype), text


def library(
    requests: Iterable[FunctionRequest], *, fused: bool = True, scaling: bool = False
) -> str:
    """The texts of functions, each once, after what they call; independent of the order of
    `requests`."""
    declarations: set[str] = set()
    helpers: dict[str, str] = {}
    texts = {}
    for request in requests:
        texts[symbol(*request)], body = _written(*request, fused, scaling)
        declarations |= body.writer.declared
        helpers |= body.helpers
    # Sorted, so that equal modules have equal texts and share object code.
    functions = [text for _, text in [*sorted(helpers.items()), *sorted(texts.items())]]
    return "\n".join([*sorted(declarations), *functions])


def _written(
    name: Name, lanes: int, dtype: DType, fused: bool, scaling: bool
) -> tuple[str, VectorFunctionBody]:
    """The text of a function, and its body."""
    # Always inlined, so that constants of the polynomial stay in registers across a loop.
    body = VectorFunctionBody(lanes, fused, scaling)
    function, scalar = _definition_of(name, dtype)
    operands = [body.parameter(operand, scalar) for operand in signature(function).parameters]
    result = function(*operands)
    listed = ", ".join(map(str, operands))
    returned = result.value.type
    head = f"define internal {returned} {symbol(name, lanes, dtype)}({listed}) alwaysinline {{"
    lines = [head, *body.writer.text, f"  ret {result}", "}", ""]
    return "\n".join(lines), body


def _definition_of(name: Name, dtype: DType) -> tuple[Callable[..., OperatorValue], str]:
    """The Python function that writes a function, and the element type of its operands."""
    if isinstance(name, Conversion):
        return CONVERSIONS[name, dtype], "float" if name is Conversion.NARROW else "i16"
    if isinstance(name, Rounded):
        return OF_ROUNDED[name], "float"
    if dtype is DType.BF16:
        return SHORT[name], "float"
    return FUNCTIONS[name], ELEMENTS[dtype]
