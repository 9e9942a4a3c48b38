"""Powers: x^y = e^(y ln x), where the logarithm has more bits than the result shows.

The problem: an absolute error of y ln x is a relative error of the result, and y ln x may be 709,
so 10 more bits than the result's are needed. In f32 the logarithm and exponential are those of f64.
In f64 the logarithm is a double-double of some 65 bits, and what y ln x lacks as one float goes
into the reduced argument of the exponential.

Example: 1.0001^100000 in f64. ln 1.0001 is 9.9995000333e-05, of which one float holds 53 bits.
Times 100,000 it is 9.9995000333, with the error of the logarithm kept as a second float, and e to
that is 22015.456.

Invariants: special cases as in C99; x^0 = 1^y = 1 even for NaN; negative numbers to an integer
power have its parity's sign, to other powers NaN. Cost in f64: two divisions and some 60
operations.
"""

from __future__ import annotations

from math import inf, log2, nan

from ..operators import OperatorValue
from .double_double import DoubleDouble, fast_two_sum, multiply_pairs, two_product, two_sum
from .exact import rounded
from .exponentials import EXP, LIMITS, LN2, exp, reduced, scaled
from .float_formats import absolute, at_least, at_most, format_of, signed_like
from .logarithms import log, special, split

THIRDS = (0.6666666666666666, 3.700743415417188e-17)
"""2/3 as a `DoubleDouble`."""

ARTANH = (
    0.39999999999999997, 0.2857142857143293, 0.22222222220347623,
    0.1818181854720814, 0.15384577361097215, 0.1333558789538098,
    0.11688490500894713, 0.11884001080753336,
)  # fmt: skip
"""Coefficients of (2 artanh s - 2 s - 2/3 s³) / s⁵, by powers of s² up to 0.0295: 2^-71 of the
logarithm."""


def power(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """x^y, with the special cases of C99."""
    size = _size_of_float(x, y) if x.scalar == "float" else _size(absolute(x), y)
    return _signed(x, y, size)


def _size_of_float(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """|x|^y in f32, computed in f64."""
    tiny, units = _in_units(x)
    wide = x.body.select(tiny, units * _unit(x), absolute(x).cast("fpext", "double"))
    return exp(y.cast("fpext", "double") * log(wide)).cast("fptrunc", "float")


def _in_units(x: OperatorValue) -> tuple[OperatorValue, OperatorValue]:
    """Whether a number is denormal, and its size in units of the smallest number.

    XLA's threads flush denormal floats to zero, but XLA's own powers of denormals are not those of
    zero: they are read as integers.
    """
    bits = absolute(x).bits
    return bits < (1 << format_of(x).mantissa), bits.cast("sitofp", "double")


def _unit(x: OperatorValue) -> float:
    """The smallest positive number."""
    form = format_of(x)
    return form.least_normal * 2.0**-form.mantissa


def _size(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """|x|^y in f64; wrong where x or y is 1, which `_signed` corrects."""
    body = x.body
    tiny, units = _in_units(x)
    x = body.select(tiny, units, x)
    near, low_part = _logarithm(x, body.select(tiny, log2(_unit(x)), body.number(0.0, x.scalar)))
    # The product with y is exact as a pair; its second part and the logarithm's go into the reduced
    # argument.
    near, lost = two_product(special(x, near), y)
    low, high = LIMITS[x.scalar]
    # Where the result overflows or is zero the low part may be NaN, and must not reach it.
    inside = absolute(near) < -low
    low_part = body.select(inside, body.fma(low_part, y, lost), body.number(0.0, x.scalar))
    power, times, left = reduced(at_least(at_most(near, high), low), 2 * format_of(x).bias)
    left = left + low_part
    tail = body.polynomial(left, EXP[x.scalar])
    return scaled(body.fma(body.fma(tail, left, 1.0), left, 1.0), power, times)


def _logarithm(x: OperatorValue, power: OperatorValue) -> DoubleDouble:
    """ln(x 2^power) of a positive number as a double-double of some 65 bits."""
    body = x.body
    times, f = split(x)
    times = times + power
    s = _quotient(f)
    square = multiply_pairs(s, s)
    cube = multiply_pairs(multiply_pairs(s, square), _pair(x, THIRDS))
    # From the fifth power of s on, 53 bits suffice: these terms are below 2^-12 of the sum.
    fifth = s[0] * square[0] * square[0] * body.polynomial(square[0], ARTANH)
    high, low = LN2[x.scalar]
    near, low_part = two_sum(times * high, s[0] * 2.0)
    near, error = two_sum(near, cube[0])
    low_part = low_part + error + (body.fma(times, low, s[1] * 2.0 + cube[1]) + fifth)
    return fast_two_sum(near, low_part)


def _quotient(f: OperatorValue) -> DoubleDouble:
    """s = f / (2 + f) as a `DoubleDouble`."""
    below, lost = fast_two_sum(f.body.number(2.0, f.scalar), f)
    near = f / below
    back, error = two_product(near, below)
    return near, ((f - back) - error - near * lost) / below


def _pair(like: OperatorValue, numbers: tuple[float, float]) -> DoubleDouble:
    """A constant as a `DoubleDouble`."""
    high, low = numbers
    return like.body.number(high, like.scalar), like.body.number(low, like.scalar)


def _signed(x: OperatorValue, y: OperatorValue, size: OperatorValue) -> OperatorValue:
    """x^y from |x|^y, as `power` defines it for zeros, infinities, NaN and negative numbers."""
    body = x.body
    # (-1)^infinity is one.
    ones = absolute(x).equals(1.0) & absolute(y).equals(inf)
    size = body.select(ones, 1.0, size)
    whole = rounded(y).equals(y)
    # y is odd if it is an integer and its half is not.
    halved = y * 0.5
    odd = whole & body.select(rounded(halved).equals(halved), 0, whole)
    value = body.select(odd, signed_like(size, x), size)
    below = (x.bits < 0) & (absolute(x).bits > 0)  # also where a thread takes it for zero
    roots = below & (x > -inf) & (whole ^ 1)
    value = body.select(roots, nan, value)
    return body.select(x.equals(1.0) | y.equals(0.0), 1.0, value)
