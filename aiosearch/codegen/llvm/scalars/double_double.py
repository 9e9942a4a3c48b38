"""Double-double arithmetic: error-free sums and products of two floats.

A pair (a, b) stands for the exact sum a + b, with b below half an ulp of a. Example in f32: 2^24 +
1 is not a float, and `two_sum` gives (16777216, 1). Nothing here survives fast-math: LLVM must keep
the order of operations.
"""

from __future__ import annotations

from typing import TypeAlias

from ..operators import Operand, OperatorValue

DoubleDouble: TypeAlias = tuple[OperatorValue, OperatorValue]
"""A number, and what it lacks to the exact value."""

SPLITTER = {"float": 2.0**12 + 1, "double": 2.0**27 + 1}
"""Veltkamp's constant, 2^s + 1 with s half of the mantissa, which splits a number into two of half
as many bits."""


def two_sum(left: OperatorValue, right: OperatorValue) -> DoubleDouble:
    """The sum and its exact error (Knuth): 6 operations."""
    total = left + right
    right_rounded = total - left
    return total, (left - (total - right_rounded)) + (right - right_rounded)


def fast_two_sum(large: OperatorValue, small: OperatorValue) -> DoubleDouble:
    """The sum and its exact error, if `large` is not smaller than `small` in size (Dekker): 3
    operations."""
    total = large + small
    return total, small - (total - large)


def two_product(left: OperatorValue, right: Operand) -> DoubleDouble:
    """The product and its exact error: one fused multiply-add, or Dekker's 17 operations."""
    body = left.body
    second = body.operand(right, left.scalar)
    near = left * second
    # The fused operation rounds a * b - near once, and that difference is a float.
    if body.fused:
        return near, body.fma(left, second, -near)
    (high, low), (above, below) = _split_halves(left), _split_halves(second)
    error = (high * above - near) + high * below + low * above
    return near, error + low * below


def _split_halves(value: OperatorValue) -> DoubleDouble:
    """Two parts of half as many bits, whose products are exact."""
    spread = value * SPLITTER[value.scalar]
    high = spread - (spread - value)
    return high, value - high


def multiply_pairs(left: DoubleDouble, right: DoubleDouble) -> DoubleDouble:
    """The product of two pairs, without the product of both errors."""
    near, error = two_product(left[0], right[0])
    return fast_two_sum(near, error + (left[0] * right[1] + left[1] * right[0]))
