"""Functions without approximation: square root, minimum, maximum, rounding."""

from __future__ import annotations

from ..operators import OperatorValue
from .float_formats import absolute, format_of, signed_like


def sqrt(x: OperatorValue) -> OperatorValue:
    """The square root, by instruction."""
    return x.body.intrinsic("sqrt", x)


def maximum(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """The larger operand; NaN if either is. Of two zeros, either."""
    return x.body.select(x.is_nan, x, x.body.select(x > y, x, y))


def minimum(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """The smaller operand; NaN if either is. Of two zeros, either."""
    return x.body.select(x.is_nan, x, x.body.select(x < y, x, y))


def rounded(x: OperatorValue) -> OperatorValue:
    """The nearest integer, ties to even."""
    if x.body.fused:
        return x.body.intrinsic("roundeven", x)
    # Adding 2^23 (or 2^52) pushes the fraction out of the mantissa, rounded to nearest even; larger
    # numbers are integers anyway.
    size, large = absolute(x), 2.0 ** format_of(x).mantissa
    near = signed_like((size + large) - large, x)
    return x.body.select(size < large, near, x)


def floor(x: OperatorValue) -> OperatorValue:
    """The largest integer that is not larger."""
    if x.body.fused:
        return x.body.intrinsic("floor", x)
    near = rounded(x)
    return x.body.select(near > x, near - 1.0, near)
