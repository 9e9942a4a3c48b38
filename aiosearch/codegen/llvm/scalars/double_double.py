"""Double-double arithmetic: error-free sums and products of two floats."""

from __future__ import annotations

from typing import TypeAlias

from ..operators import Operand, OperatorValue

DoubleDouble: TypeAlias = tuple[OperatorValue, OperatorValue]
"""A number, and what it lacks."""

SPLITTER = {"float": 2.0**12 + 1, "double": 2.0**27 + 1}


def two_sum(left: OperatorValue, right: OperatorValue) -> DoubleDouble:
    """Of any two."""
    total = left + right
    right_rounded = total - left
    return total, (left - (total - right_rounded)) + (right - right_rounded)


def fast_two_sum(large: OperatorValue, small: OperatorValue) -> DoubleDouble:
    """Of two of which the first is not smaller, by their absolute values."""
    total = large + small
    return total, small - (total - large)


def two_product(left: OperatorValue, right: Operand) -> DoubleDouble:
    body = left.body
    second = body.operand(right, left.element)
    near = left * second
    if body.fused:
        return near, body.fma(left, second, -near)
    (high, low), (above, below) = _split_halves(left), _split_halves(second)
    error = (high * above - near) + high * below + low * above
    return near, error + low * below


def _split_halves(value: OperatorValue) -> DoubleDouble:
    """Two parts of half as many bits, the products of which are exact."""
    spread = value * SPLITTER[value.element]
    high = spread - (spread - value)
    return high, value - high


def multiply_pairs(left: DoubleDouble, right: DoubleDouble) -> DoubleDouble:
    """All but the product of what both lack."""
    near, error = two_product(left[0], right[0])
    return fast_two_sum(near, error + (left[0] * right[1] + left[1] * right[0]))
