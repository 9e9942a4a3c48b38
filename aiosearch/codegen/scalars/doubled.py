"""Numbers of twice the bits: sums of two floats that are known without an error."""

from __future__ import annotations

from typing import TypeAlias

from .writing import Operand, Value

Pair: TypeAlias = tuple[Value, Value]
"""A number, and what it lacks."""

SPLITTER = {"float": 2.0**12 + 1, "double": 2.0**27 + 1}


def summed(one: Value, other: Value) -> Pair:
    """Of any two."""
    total = one + other
    taken = total - one
    return total, (one - (total - taken)) + (other - taken)


def ordered(large: Value, small: Value) -> Pair:
    """Of two of which the first is not smaller, by their absolute values."""
    total = large + small
    return total, small - (total - large)


def product(one: Value, other: Operand) -> Pair:
    body = one.body
    second = body.operand(other, one.element)
    near = one * second
    if body.fused:
        return near, body.fma(one, second, -near)
    (high, low), (above, below) = _halves(one), _halves(second)
    rest = (high * above - near) + high * below + low * above
    return near, rest + low * below


def _halves(value: Value) -> Pair:
    """Two parts of half as many bits, the products of which are exact."""
    spread = value * SPLITTER[value.element]
    high = spread - (spread - value)
    return high, value - high


def multiplied(one: Pair, other: Pair) -> Pair:
    """All but the product of what both lack."""
    near, rest = product(one[0], other[0])
    return ordered(near, rest + (one[0] * other[1] + one[1] * other[0]))
