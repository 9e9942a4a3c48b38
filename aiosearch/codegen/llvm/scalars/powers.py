"""Powers: eʸ ˡᵒᵍ ˣ, where the logarithm has more bits than the result shows."""

from __future__ import annotations

from math import inf, log2, nan

from ..operators import OperatorValue
from .double_double import DoubleDouble, fast_two_sum, multiply_pairs, two_product, two_sum
from .exact import rounded
from .exponentials import EXP, LIMITS, LN2, exp, reduced, scaled
from .float_formats import absolute, at_least, at_most, format_of, signed_like
from .logarithms import log, special, split

THIRDS = (0.6666666666666666, 3.700743415417188e-17)
"""Two thirds, in two parts."""

ARTANH = (
    0.39999999999999997, 0.2857142857143293, 0.22222222220347623,
    0.1818181854720814, 0.15384577361097215, 0.1333558789538098,
    0.11688490500894713, 0.11884001080753336,
)  # fmt: skip
"""Coefficients of (2 artanh s - 2 s - 2/3 s³) / s⁵, by powers of s² <= 0.0295: 2^-71 of all."""


def power(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """Special cases as in C99: of zeros, infinities, and negative numbers to a whole power."""
    size = _size_of_float(x, y) if x.element == "float" else _size(absolute(x), y)
    return _signed(x, y, size)


def _size_of_float(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """In `double`, which has bits enough."""
    tiny, units = _in_units(x)
    wide = x.body.select(tiny, units * _unit(x), absolute(x).cast("fpext", "double"))
    return exp(y.cast("fpext", "double") * log(wide)).cast("fptrunc", "float")


def _in_units(x: OperatorValue) -> tuple[OperatorValue, OperatorValue]:
    """Whether a number's size is below the normal ones, and so many of the least one it is then.

    As floats these are zeros in XLA's threads, but XLA's own powers of them are none.
    """
    bits = absolute(x).bits
    return bits < (1 << format_of(x).mantissa), bits.cast("sitofp", "double")


def _unit(x: OperatorValue) -> float:
    """The least number above zero."""
    form = format_of(x)
    return form.least_normal * 2.0**-form.mantissa


def _size(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """Of the absolute value; wrong where x or y is one."""
    body = x.body
    tiny, units = _in_units(x)
    x = body.select(tiny, units, x)
    near, low_part = _logarithm(x, body.select(tiny, log2(_unit(x)), body.number(0.0, x.element)))
    near, lost = two_product(special(x, near), y)
    low, high = LIMITS[x.element]
    inside = absolute(near) < -low
    low_part = body.select(inside, body.fma(low_part, y, lost), body.number(0.0, x.element))
    power, times, left = reduced(at_least(at_most(near, high), low), 2 * format_of(x).bias)
    left = left + low_part
    tail = body.polynomial(left, EXP[x.element])
    return scaled(body.fma(body.fma(tail, left, 1.0), left, 1.0), power, times)


def _logarithm(x: OperatorValue, power: OperatorValue) -> DoubleDouble:
    """Of a positive number times two to a power, to some 65 bits."""
    body = x.body
    times, f = split(x)
    times = times + power
    s = _quotient(f)
    square = multiply_pairs(s, s)
    cube = multiply_pairs(multiply_pairs(s, square), _pair(x, THIRDS))
    fifth = s[0] * square[0] * square[0] * body.polynomial(square[0], ARTANH)
    high, low = LN2[x.element]
    near, low_part = two_sum(times * high, s[0] * 2.0)
    near, error = two_sum(near, cube[0])
    low_part = low_part + error + (body.fma(times, low, s[1] * 2.0 + cube[1]) + fifth)
    return fast_two_sum(near, low_part)


def _quotient(f: OperatorValue) -> DoubleDouble:
    """f / (2 + f)."""
    below, lost = fast_two_sum(f.body.number(2.0, f.element), f)
    near = f / below
    back, error = two_product(near, below)
    return near, ((f - back) - error - near * lost) / below


def _pair(like: OperatorValue, numbers: tuple[float, float]) -> DoubleDouble:
    high, low = numbers
    return like.body.number(high, like.element), like.body.number(low, like.element)


def _signed(x: OperatorValue, y: OperatorValue, size: OperatorValue) -> OperatorValue:
    """The power, from its absolute value."""
    body = x.body
    ones = absolute(x).equals(1.0) & absolute(y).equals(inf)
    size = body.select(ones, 1.0, size)
    whole = rounded(y).equals(y)
    halved = y * 0.5
    odd = whole & body.select(rounded(halved).equals(halved), 0, whole)
    value = body.select(odd, signed_like(size, x), size)
    below = (x.bits < 0) & (absolute(x).bits > 0)  # also where a thread takes it for zero
    roots = below & (x > -inf) & (whole ^ 1)
    value = body.select(roots, nan, value)
    return body.select(x.equals(1.0) | y.equals(0.0), 1.0, value)
