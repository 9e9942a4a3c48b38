"""Exact fractions of the literals of a program.

`exact(0.33333334)` is 1/3: programs write a rounded third and mean a third.
"""

from __future__ import annotations

import math
from fractions import Fraction


def exact(number: float | int | Fraction) -> Fraction:
    """The simplest fraction that rounds to `number` in single precision.

    Programs write 0.33333334 and mean a third; both sides of a comparison are read alike.
    """
    if isinstance(number, (int, Fraction)):
        return Fraction(number)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no number to compute with")
    value = Fraction(number)
    if value.denominator == 1:
        return value
    # Half a unit in the last place of float32's 24 bits.
    margin = abs(value) / 2**25
    return simplest(value - margin, value + margin)


def simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator in an interval: `simplest(0.33, 0.34)` is 1/3."""
    if low < 0 < high:
        return Fraction(0)
    if high <= 0:
        return -simplest(-high, -low)
    whole = math.floor(low)
    if whole == low or whole + 1 <= high:
        return Fraction(whole if whole == low else whole + 1)
    # One step of the continued fraction: the integer part is common to all numbers of the interval,
    # the rest is inverted.
    return whole + 1 / simplest(1 / (high - whole), 1 / (low - whole))
