"""Double-double arithmetic: error-free sums and products of two floats."""

from __future__ import annotations

from typing import TypeAlias

from ..operators import Operand, OperatorValue

DoubleDouble: TypeAlias = tuple[OperatorValue, OperatorValue]
"""A number, and what it lacks."""

SPLITTER = {"float": 2.0**12 + 1, "double": 2.0**27 + 1}


def two_sum(one: OperatorValue, other: OperatorValue) -> DoubleDouble:
    """Of any two."""
    total = one + other
    taken = total - one
    return total, (one - (total - taken)) + (other - taken)


def fast_two_sum(large: OperatorValue, small: OperatorValue) -> DoubleDouble:
    """Of two of which the first is not smaller, by their absolute values."""
    total = large + small
    return total, small - (total - large)


def two_product(one: OperatorValue, other: Operand) -> DoubleDouble:
    body = one.body
    second = body.operand(other, one.element)
    near = one * second
    if body.fused:
        return near, body.fma(one, second, -near)
    (high, low), (above, below) = _split_halves(one), _split_halves(second)
    rest = (high * above - near) + high * below + low * above
    return near, rest + low * below


def _split_halves(value: OperatorValue) -> DoubleDouble:
    """Two parts of half as many bits, the products of which are exact."""
    spread = value * SPLITTER[value.element]
    high = spread - (spread - value)
    return high, value - high


def multiply_pairs(one: DoubleDouble, other: DoubleDouble) -> DoubleDouble:
    """All but the product of what both lack."""
    near, rest = two_product(one[0], other[0])
    return fast_two_sum(near, rest + (one[0] * other[1] + one[1] * other[0]))
