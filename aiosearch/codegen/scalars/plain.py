"""Functions that need no approximation: they are exact, or rounded as IEEE 754 says."""

from __future__ import annotations

from .formats import absolute, format_of, signed_like
from .writing import Value


def sqrt(x: Value) -> Value:
    return x.body.intrinsic("sqrt", x)


def maximum(x: Value, y: Value) -> Value:
    """Not a number where an operand is none. Of two zeros, either."""
    return x.body.select(x.is_nan, x, x.body.select(x > y, x, y))


def minimum(x: Value, y: Value) -> Value:
    """Not a number where an operand is none. Of two zeros, either."""
    return x.body.select(x.is_nan, x, x.body.select(x < y, x, y))


def rounded(x: Value) -> Value:
    """To the nearest whole number, halves to even."""
    if x.body.fused:
        return x.body.intrinsic("roundeven", x)
    size, large = absolute(x), 2.0 ** format_of(x).mantissa
    near = signed_like((size + large) - large, x)
    return x.body.select(size < large, near, x)


def floor(x: Value) -> Value:
    if x.body.fused:
        return x.body.intrinsic("floor", x)
    near = rounded(x)
    return x.body.select(near > x, near - 1.0, near)
