"""Operators that work on each element by itself: arithmetic, `exp`, comparisons, casts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from ..algebra import Algebra, Function, V
from ..errors import ShapeError
from ..evaluation import exact
from ..operator import (
    Dimensions,
    Meaning,
    Operator,
    OperatorParameter,
    ParameterKind,
    Parameters,
    ParameterValue,
    ShapeRule,
    declare,
    pointwise_shape,
)
from ..sizes import Dim, product
from ..types import DType, Shape


def _pointwise(
    name: str,
    arity: int,
    meaning: Meaning,
    cost: int = 1,
    shape: ShapeRule = pointwise_shape,
    **attributes: ParameterValue,
) -> Operator:
    """Declares an operator whose arithmetic is `cost` for each element."""

    def flops(shapes: Sequence[Shape], result: Shape, **_: object) -> Dim:
        return product(result) * cost

    return declare(Operator(name, arity, shape, meaning, pointwise=True, flops=flops, **attributes))


def _positive_base(dims: Dimensions, shapes: Sequence[Shape], base: float, **_: object) -> Shape:
    if not 0 < base < math.inf:
        raise ShapeError(f"the base {base}: it is a positive number")
    return pointwise_shape(dims, shapes)


def _truth(dtypes: Sequence[DType], parameters: Parameters) -> DType:
    return DType.BOOL


def _branches(dtypes: Sequence[DType], parameters: Parameters) -> DType:
    return dtypes[1] if dtypes[1] is not DType.WEAK else dtypes[2]


def _cast(dtypes: Sequence[DType], parameters: Parameters) -> DType:
    return DType(parameters["dtype"])


def _each(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """A scalar function that NumPy lacks, in float64 and then rounded to its argument's type."""
    # otypes: without it an empty array has no element to infer the type from.
    vectorized = np.vectorize(function, otypes=[float])
    return lambda x: vectorized(x).astype(x.dtype)


def _lgamma(x: float) -> float:
    """The logarithm of |Γ(x)|, infinite at its poles."""
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def _digamma(x: float) -> float:
    """The slope of ln Γ(x), no number at its poles: by Γ(x + 1) = x Γ(x) from ten on, where its
    asymptotic series is exact in double precision."""
    if math.isnan(x) or x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.nan
    if x < 0:
        # The remainder is exact, and with it the tangent where the argument is large.
        return _digamma(1 - x) - math.pi / math.tan(math.pi * math.remainder(x, 1))
    parts: list[float] = []
    while x < 10:
        parts.append(-1 / x)
        x += 1
    inverse = 1 / x
    square, tail = inverse * inverse, 0.0
    for coefficient in reversed(_DIGAMMA_TAIL):
        tail = (tail + coefficient) * square
    # Summed exactly: near its zero at 1.46 the parts cancel.
    return math.fsum([*parts, math.log(x), -inverse / 2, -tail])


_DIGAMMA_TAIL = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
"""Bernoulli's numbers of even order over that order, as the series of ψ has them."""


def _one(k: Algebra[V]) -> V:
    return k.constant(Fraction(1))


TANH = Function("tanh", np.tanh, odd=True)
ERF = Function("erf", _each(math.erf), odd=True)
ERFC = Function(
    "erfc",
    _each(math.erfc),
    positive=True,
    # Floats compute erfc itself: 1 - erf(x) loses all digits for large x.
    means=lambda k, x: k.subtract(_one(k), k.function(ERF, x)),
)
SIN = Function("sin", np.sin)
COS = Function("cos", np.cos, even=True)
FLOOR = Function("floor", np.floor, integral=True)
ROUND = Function("round", np.rint, integral=True)
POW = Function("pow", np.power)
REM = Function("rem", np.fmod)
LGAMMA = Function("lgamma", _each(_lgamma))
DIGAMMA = Function("digamma", _each(_digamma))
EXPM1 = Function("expm1", np.expm1, means=lambda k, x: k.subtract(k.exp(x), _one(k)))
LOG1P = Function("log1p", np.log1p, means=lambda k, x: k.log(k.add(_one(k), x)))


@cache
def _exponential(base: float | Fraction) -> Function:
    """The power of a positive base, which floats get in full precision."""

    def means(k: Algebra[V], _: V, x: V) -> V:
        return k.exp(k.multiply(x, k.log(k.constant(exact(base)))))

    return Function("pow", np.power, positive=True, means=means)


# The number behind a meaning is its arithmetic for each element, which `cost` counts.
_pointwise("neg", 1, lambda k, x: k.negative(x))
_pointwise("abs", 1, lambda k, x: k.absolute(x))
_pointwise("exp", 1, lambda k, x: k.exp(x), 10, fractions=True)
_pointwise("log", 1, lambda k, x: k.log(x), 10, fractions=True)
_pointwise("square", 1, lambda k, x: k.multiply(x, x))
_pointwise("sqrt", 1, lambda k, x: k.sqrt(x), 4, fractions=True)
_pointwise("rsqrt", 1, lambda k, x: k.divide(_one(k), k.sqrt(x)), 4, fractions=True)
_pointwise("reciprocal", 1, lambda k, x: k.divide(_one(k), x), 4, fractions=True)
_pointwise("tanh", 1, lambda k, x: k.function(TANH, x), 20, fractions=True)
_pointwise("erf", 1, lambda k, x: k.function(ERF, x), 20, fractions=True)
_pointwise("erfc", 1, lambda k, x: k.function(ERFC, x), 20, fractions=True)
_pointwise("sin", 1, lambda k, x: k.function(SIN, x), 20, fractions=True)
_pointwise("cos", 1, lambda k, x: k.function(COS, x), 20, fractions=True)
_pointwise("floor", 1, lambda k, x: k.function(FLOOR, x))
_pointwise("round", 1, lambda k, x: k.function(ROUND, x))
_pointwise("log1p", 1, lambda k, x: k.function(LOG1P, x), 10, fractions=True)
_pointwise("expm1", 1, lambda k, x: k.function(EXPM1, x), 10, fractions=True)
_pointwise("sigmoid", 1, lambda k, x: _sigmoid(k, x), 12, fractions=True)
_pointwise("silu", 1, lambda k, x: k.multiply(x, _sigmoid(k, x)), 13, fractions=True)
_pointwise("gelu", 1, lambda k, x: _gelu(k, x), 24, fractions=True)
_pointwise("gelu_tanh", 1, lambda k, x: _gelu_tanh(k, x), 30, fractions=True)
_pointwise("relu", 1, lambda k, x: k.maximum(x, k.constant(Fraction(0))))
_pointwise("add", 2, lambda k, x, y: k.add(x, y), commutative=True)
_pointwise("sub", 2, lambda k, x, y: k.subtract(x, y))
_pointwise("mul", 2, lambda k, x, y: k.multiply(x, y), commutative=True)
_pointwise("div", 2, lambda k, x, y: k.divide(x, y), 4, fractions=True)
_pointwise("pow", 2, lambda k, x, y: k.function(POW, x, y), 20, fractions=True)
_pointwise("rem", 2, lambda k, x, y: k.function(REM, x, y), 20)
_pointwise("lgamma", 1, lambda k, x: k.function(LGAMMA, x), 60, fractions=True)
_pointwise("digamma", 1, lambda k, x: k.function(DIGAMMA, x), 60, fractions=True)
_pointwise("maximum", 2, lambda k, x, y: k.maximum(x, y), commutative=True, truths=True)
_pointwise("minimum", 2, lambda k, x, y: k.minimum(x, y), commutative=True, truths=True)
_pointwise(
    "power",
    1,
    lambda k, x, exponent: _power(k, x, exact(exponent)),
    4,
    parameters=(OperatorParameter("exponent", ParameterKind.NUMBER),),
)
_pointwise(
    "exponential",
    1,
    lambda k, x, base: k.function(_exponential(base), k.constant(Fraction(base)), x),
    20,
    _positive_base,
    parameters=(OperatorParameter("base", ParameterKind.NUMBER),),
    fractions=True,
)
_pointwise(
    "clamp",
    1,
    lambda k, x, low, high: k.minimum(
        k.maximum(x, k.constant(exact(low))), k.constant(exact(high))
    ),
    2,
    parameters=(
        OperatorParameter("low", ParameterKind.NUMBER),
        OperatorParameter("high", ParameterKind.NUMBER),
    ),
)
_pointwise("less", 2, lambda k, x, y: k.compare("<", x, y), dtype=_truth)
_pointwise("less_equal", 2, lambda k, x, y: k.compare("<=", x, y), dtype=_truth)
_pointwise("equal", 2, lambda k, x, y: k.compare("==", x, y), dtype=_truth)
_pointwise("not_equal", 2, lambda k, x, y: k.compare("!=", x, y), dtype=_truth)
_pointwise("select", 3, lambda k, p, x, y: k.select(p, x, y), dtype=_branches)
_pointwise(
    "cast",
    1,
    lambda k, x, dtype: k.cast(x, dtype),
    parameters=(OperatorParameter("dtype", ParameterKind.DTYPE),),
    dtype=_cast,
)


def _sigmoid(k: Algebra[V], x: V) -> V:
    unit = _one(k)
    return k.divide(unit, k.add(unit, k.exp(k.negative(x))))


def _gelu(k: Algebra[V], x: V) -> V:
    half = k.multiply(x, k.constant(Fraction(1, 2)))
    inner = k.divide(x, k.sqrt(k.constant(Fraction(2))))
    return k.multiply(half, k.add(_one(k), k.function(ERF, inner)))


def _gelu_tanh(k: Algebra[V], x: V) -> V:
    half = k.multiply(x, k.constant(Fraction(1, 2)))
    cube = k.multiply(x, k.multiply(x, x))
    # The usual approximation of gelu; its constants are read as the fractions they abbreviate.
    inner = k.add(x, k.multiply(cube, k.constant(exact(0.044715))))
    scaled = k.multiply(inner, k.constant(exact(math.sqrt(2 / math.pi))))
    return k.multiply(half, k.add(_one(k), k.function(TANH, scaled)))


def _power(k: Algebra[V], x: V, exponent: Fraction) -> V:
    """Whole and half powers by multiplication, division and root; others by `POW`."""
    # Beyond, multiplying out costs more than a power, and roots of other degrees are no algebra
    # operation.
    if exponent.denominator > 2 or abs(exponent) > 64:
        return k.function(POW, x, k.constant(exponent))
    whole, half = divmod(abs(exponent), 1)
    result = k.sqrt(x) if half else None
    for _ in range(int(whole)):
        result = x if result is None else k.multiply(result, x)
    unit = _one(k)
    if result is None:
        # x^0 is 1 everywhere, also where x is 0 or NaN, as in NumPy.
        return k.broadcast(unit, k.shape(x))
    return k.divide(unit, result) if exponent < 0 else result
