"""Primitives that work on each element by itself, and what of them need not be computed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...tensor import DType, apply, literal
from ...tensor.sizes import product
from ...tensor.types import ARRAY_NAMES, FLOATING, NARROW
from ..values import TracedValue, element_type, known_array, pointwise, reshaped, truth, uniform
from .registry import demand, reads

_SAME = {
    "abs": "abs",
    "add": "add",
    "add_any": "add",
    "and": "minimum",
    "cos": "cos",
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "exp": "exp",
    "expm1": "expm1",
    "floor": "floor",
    "log": "log",
    "log1p": "log1p",
    "logistic": "sigmoid",
    "max": "maximum",
    "min": "minimum",
    "mul": "mul",
    "neg": "neg",
    "or": "maximum",
    "sin": "sin",
    "square": "square",
    "sub": "sub",
    "tanh": "tanh",
}
"""Primitives that have an operator of their own."""
_COMPARED = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"}
_TURNED = {"gt": "less", "ge": "less_equal"}
"""Comparisons that are read with their operands exchanged."""
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "mul": operator.mul,
    "sub": operator.sub,
}
_OF_ONE: dict[str, Callable[[int], int]] = {
    "abs": operator.abs,
    "neg": operator.neg,
    "square": lambda x: x * x,
}
_LOGIC = frozenset({"and", "or"})


def _declare_same(primitive: str, name: str) -> None:
    @reads(primitive)
    def rule(*operands: TracedValue, **params: object) -> TracedValue:
        logic = operands[0].dtype is DType.BOOL
        demand(not logic or primitive not in {"add", "mul", "sub"}, "arithmetic on truth values")
        demand(logic or primitive not in _LOGIC, "on the bits of a number")
        demand(not any(operand.dtype in NARROW for operand in operands), "arithmetic in eight bits")
        return _simplified(primitive, *operands) or pointwise(name, *operands)


def _declare_comparison(primitive: str, name: str, turned: bool) -> None:
    @reads(primitive)
    def rule(x: TracedValue, y: TracedValue, **params: object) -> TracedValue:
        operands = (y, x) if turned else (x, y)
        return pointwise(name, *operands, dtype=DType.BOOL)


_NEUTRAL = {"max": -math.inf, "min": math.inf}
"""The number that changes nothing as an operand."""


def _simplified(primitive: str, x: TracedValue, y: TracedValue | None = None) -> TracedValue | None:
    """A value that need not be computed: arithmetic on plain integers, and a neutral operand."""
    if y is None:
        return _simplified_unary(primitive, x)
    shape = np.broadcast_shapes(x.shape, y.shape)
    a, b = x.number, y.number
    if isinstance(a, int) and isinstance(b, int) and primitive in _ARITHMETIC:
        return uniform(_ARITHMETIC[primitive](a, b), shape, x.dtype)
    for neutral, operand in ((x, y), (y, x)):
        if _neutral(primitive, neutral):
            return replace(operand, shape=shape)
    return None


def _simplified_unary(primitive: str, x: TracedValue) -> TracedValue | None:
    """A value of one integer literal that need not be computed."""
    number = x.number
    if isinstance(number, int) and x.dtype is DType.I32 and primitive in _OF_ONE:
        return uniform(_OF_ONE[primitive](number), x.shape, x.dtype)
    return None


def _neutral(primitive: str, x: TracedValue) -> bool:
    if primitive in _LOGIC:
        return truth(x) is (primitive == "and")
    # Of floats x + 0 turns -0.0 into 0.0: only an integer zero changes nothing.
    if primitive == "add":
        return x.number == 0 and x.dtype is DType.I32
    return primitive in _NEUTRAL and x.number == _NEUTRAL[primitive]


for _primitive, _name in _SAME.items():
    _declare_same(_primitive, _name)
for _primitive, _name in _COMPARED.items():
    _declare_comparison(_primitive, _name, turned=False)
for _primitive, _name in _TURNED.items():
    _declare_comparison(_primitive, _name, turned=True)


def _scalar(number: int | float, like: TracedValue) -> TracedValue:
    return uniform(number, (), like.dtype)


@reads("sqrt")
def _sqrt(x: TracedValue, **params: object) -> TracedValue:
    if x.number is not None and x.number >= 0:
        return uniform(math.sqrt(x.number), x.shape, x.dtype)
    return pointwise("sqrt", x)


@reads("rsqrt")
def _rsqrt(x: TracedValue, **params: object) -> TracedValue:
    if x.number is not None and x.number > 0:
        return uniform(1 / math.sqrt(x.number), x.shape, x.dtype)
    return pointwise("rsqrt", x)


@reads("not")
def _not(x: TracedValue, **params: object) -> TracedValue:
    demand(x.dtype is DType.BOOL, "on the bits of a number")
    return replace(x, term=apply("equal", x.term, literal(0)))


@reads("xor")
def _xor(x: TracedValue, y: TracedValue, **params: object) -> TracedValue:
    demand(x.dtype is DType.BOOL, "on the bits of a number")
    return pointwise("not_equal", x, y)


@reads("div")
def _div(x: TracedValue, y: TracedValue, **params: object) -> TracedValue:
    demand(x.dtype in FLOATING, "of whole numbers, which rounds")
    return _mean(x, y) or pointwise("div", x, y)


def _mean(total: TracedValue, count: TracedValue) -> TracedValue | None:
    """A sum that is divided by as many elements as it adds up is a `mean`."""
    term = total.term
    inner = term.arguments[0] if term.operator.name == "reshape" else term
    if inner.operator.name != "sum":
        return None
    summed, parameters = inner.arguments[0], dict(inner.parameters)
    if product(summed.shape[axis] for axis in parameters["axes"]) != count.number:
        return None
    mean = apply("mean", summed, **parameters)
    return replace(total, term=reshaped(mean, term.shape))


@reads("integer_pow")
def _integer_pow(x: TracedValue, y: int, **params: object) -> TracedValue:
    return pointwise("square", x) if y == 2 else pointwise("power", x, exponent=y)


@reads("pow")
def _pow(x: TracedValue, y: TracedValue, **params: object) -> TracedValue:
    if y.number is not None:
        return pointwise("power", x, exponent=y.number)
    # The base as the array has it: rounded to a half, 1.1 to the x is far from the true one.
    # Whole exponents are converted first, as jax does.
    exponent = _converted(y, x.dtype)
    if x.held is not None and 0 < x.held < math.inf:
        return pointwise("exponential", exponent, base=x.held)
    return pointwise("pow", x, exponent, dtype=x.dtype)


@reads("rem")
def _rem(x: TracedValue, y: TracedValue, **params: object) -> TracedValue:
    # Of integers only by a number: what is left of a division by zero differs between devices.
    demand(x.dtype in FLOATING or bool(y.number), "of whole numbers by what is computed")
    return pointwise("rem", x, y, dtype=x.dtype)


@reads("lgamma")
def _lgamma(x: TracedValue, **params: object) -> TracedValue:
    if x.number is not None and 0 < x.number < math.inf:
        return uniform(math.lgamma(x.number), x.shape, x.dtype)
    return pointwise("lgamma", x)


@reads("exp2")
def _exp2(x: TracedValue, **params: object) -> TracedValue:
    """As exact as XLA's, which takes a logarithm too."""
    return replace(x, term=apply("exp", apply("mul", x.term, apply("log", literal(2)))))


@reads("log2")
def _log2(x: TracedValue, **params: object) -> TracedValue:
    return replace(x, term=apply("div", apply("log", x.term), apply("log", literal(2))))


@reads("sinh")
def _sinh(x: TracedValue, **params: object) -> TracedValue:
    """sinh(x) from half the angle, as whole exponentials overflow where this does not."""
    half = pointwise("mul", x, _scalar(0.5, x))
    both = pointwise("add", pointwise("exp", half), pointwise("exp", pointwise("neg", half)))
    return pointwise("mul", pointwise("mul", _odd(half), _scalar(0.5, x)), both, dtype=x.dtype)


@reads("cosh")
def _cosh(x: TracedValue, **params: object) -> TracedValue:
    odd = _odd(pointwise("mul", x, _scalar(0.5, x)))
    above = pointwise("mul", pointwise("mul", odd, _scalar(0.5, x)), odd)
    return pointwise("add", above, _scalar(1, x), dtype=x.dtype)


def _odd(x: TracedValue) -> TracedValue:
    """Twice the hyperbolic sine, of exponentials less one, which keep their digits near zero."""
    return pointwise("sub", pointwise("expm1", x), pointwise("expm1", pointwise("neg", x)))


@reads("atanh")
def _atanh(x: TracedValue, **params: object) -> TracedValue:
    """Half the difference of two logarithms near one, which have other signs: no digit is lost."""
    below = pointwise("log1p", pointwise("neg", x))
    return pointwise("mul", _scalar(0.5, x), pointwise("sub", pointwise("log1p", x), below))


@reads("polynomial")
def _polynomial(x: TracedValue, *factors: TracedValue, **params: object) -> TracedValue:
    """A polynomial by Horner's rule, from the highest coefficient."""
    total = factors[-1]
    for factor in reversed(factors[:-1]):
        total = pointwise("add", pointwise("mul", total, x), factor)
    return total


@reads("one_minus_square")
def _one_minus_square(x: TracedValue, **params: object) -> TracedValue:
    """(1 + x) (1 - x), as jax computes it: a square near one has lost digits."""
    unit = _scalar(1, x)
    return pointwise("mul", pointwise("add", unit, x), pointwise("sub", unit, x))


@reads("tan")
def _tan(x: TracedValue, **params: object) -> TracedValue:
    return pointwise("div", pointwise("sin", x), pointwise("cos", x))


@reads("sign")
def _sign(x: TracedValue, **params: object) -> TracedValue:
    """NaN stays NaN, and a zero stays a zero."""
    zero = _scalar(0, x)
    above = pointwise("less", zero, x, dtype=DType.BOOL)
    below = pointwise("less", x, zero, dtype=DType.BOOL)
    not_above = pointwise("select", below, _scalar(-1, x), x)
    return pointwise("select", above, _scalar(1, x), not_above)


@reads("ceil")
def _ceil(x: TracedValue, **params: object) -> TracedValue:
    return pointwise("neg", pointwise("floor", pointwise("neg", x)))


@reads("round")
def _round(x: TracedValue, rounding_method: Any, **params: object) -> TracedValue:
    demand(rounding_method.name == "TO_NEAREST_EVEN", "halves away from zero")
    return pointwise("round", x)


@reads("is_finite")
def _is_finite(x: TracedValue, **params: object) -> TracedValue:
    return pointwise("less", pointwise("abs", x), _scalar(math.inf, x), dtype=DType.BOOL)


@reads("clamp")
def _clamp(low: TracedValue, x: TracedValue, high: TracedValue, **params: object) -> TracedValue:
    if _plain(low.number) and _plain(high.number):
        return pointwise("clamp", x, low=low.number, high=high.number)
    return pointwise("minimum", pointwise("maximum", x, low), high, dtype=x.dtype)


def _plain(number: int | float | None) -> bool:
    return number is not None and math.isfinite(number)


@reads("select_n")
def _select_n(which: TracedValue, *cases: TracedValue, **params: object) -> TracedValue:
    demand(which.dtype is DType.BOOL, "among more than two cases")
    if len(cases) == 1:
        return cases[0]
    otherwise, then = cases
    if truth(then) is True and truth(otherwise) is False and which.shape == then.shape:
        return which
    fixed = known_array(which) if not which.term.shape else None
    if fixed is not None:
        return then if fixed.all() else otherwise
    return pointwise("select", which, then, otherwise)


@reads("convert_element_type")
def _convert(x: TracedValue, new_dtype: object, **params: object) -> TracedValue:
    return _converted(x, element_type(new_dtype))


def _converted(x: TracedValue, dtype: DType) -> TracedValue:
    if dtype is x.dtype:
        return x
    demand(dtype not in NARROW, f"numbers become {ARRAY_NAMES[dtype]}, of which there are few")
    if dtype is DType.BOOL:
        return pointwise("not_equal", x, _scalar(0, x), dtype=dtype)
    if x.dtype is DType.BOOL:
        return pointwise("select", x, uniform(1, (), dtype), uniform(0, (), dtype), dtype=dtype)
    if dtype is DType.I32 and x.dtype not in NARROW:
        return _truncated(x)
    # A literal takes the type of what it meets: only the array's type changes.
    if x.term.dtype is DType.WEAK:
        return replace(x, dtype=dtype)
    return replace(x, term=apply("cast", x.term, dtype=dtype), dtype=dtype)


def _truncated(x: TracedValue) -> TracedValue:
    """Rounds to an integer, towards zero: `ceil` below zero and `floor` above."""
    if x.number is not None and math.isfinite(x.number):
        return uniform(int(x.number), x.shape, DType.I32)
    below = pointwise("less", x, _scalar(0, x), dtype=DType.BOOL)
    truncated = pointwise("select", below, _ceil(x), pointwise("floor", x))
    return replace(truncated, term=apply("cast", truncated.term, dtype=DType.I32), dtype=DType.I32)
