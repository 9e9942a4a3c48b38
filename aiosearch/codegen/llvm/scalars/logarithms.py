"""The natural logarithm, and that of one more.

Method: x = 2^k (1 + f) with 1 + f between √½ and √2, so that ln x = k ln 2 + ln(1 + f) has no
cancellation. With s = f / (2 + f), ln(1 + f) = 2 artanh s = f - s (f - s² R(s²)), where |s| <=
0.172 and R is a minimax polynomial by Remez' exchange. f enters exactly, so the rounding errors of
s are small against it.

Example: x = 10 gives k = 3, f = 0.25, s = 0.111111, ln 1.25 = 0.223144, and 3 ln 2 + 0.223144 =
2.302585.

Invariants: the errors of `accuracy.ERRORS`; ln 0 is minus infinity, of negative numbers and NaN it
is NaN; denormals count. Cost in f32: one division and 4 coefficients.
"""

from __future__ import annotations

from math import inf, nan

from ..operators import OperatorValue
from .exponentials import LN2
from .float_formats import format_of

LOG = {
    # s² <= 0.0295, minimax by Remez' exchange: 2^-34.9 and 2^-66 of the logarithm.
    "float": (0.6666666865348816, 0.39999663829803467, 0.2857791483402252, 0.22853098809719086),
    "double": (
        0.6666666666666666, 0.40000000000004937, 0.2857142856940415, 0.22222222608292164,
        0.1818177823383298, 0.15386994673367715, 0.13252008046654623, 0.13236113325194637,
    ),
}  # fmt: skip
"""Coefficients of (2 artanh s - 2 s) / s³, by powers of s² up to 0.0295: 2^-34.9 and 2^-66 of the
logarithm."""

ROOT = {"float": (0x3F3504F3, 0x3F800000), "double": (0x3FE6A09E667F3BCD, 0x3FF0000000000000)}
"""The bits of √½ and of 1."""


def log(x: OperatorValue) -> OperatorValue:
    """The natural logarithm; minus infinity at zero, NaN below."""
    return special(x, _natural(x))


def log1p(x: OperatorValue) -> OperatorValue:
    """ln(1 + x), exact also where x is small against 1.

    The sum 1 + x is rounded; what it lost, divided by it, is what its logarithm lacks.
    """
    body, total = x.body, x + 1.0
    # `fast_two_sum` with the larger of x and 1 first.
    lost = body.select(x < 1.0, x - (total - 1.0), 1.0 - (total - x))
    value = special(total, _natural(total, lost / total))
    return body.select(x.equals(0.0), x, value)


def _natural(x: OperatorValue, lacking: OperatorValue | None = None) -> OperatorValue:
    """The logarithm of a positive number, plus a small correction."""
    body = x.body
    power, f = split(x)
    s = f / (f + 2.0)
    z, half = s * s, f * f * 0.5
    tail = z * body.polynomial(z, LOG[x.scalar])
    high, low = LN2[x.scalar]
    # The second part of ln 2 is small: it joins the correction before the large terms are added.
    beside = power * low if lacking is None else body.fma(power, low, lacking)
    small = body.fma(s, half + tail, beside)
    return body.fma(power, high, f - (half - small))


def split(x: OperatorValue) -> tuple[OperatorValue, OperatorValue]:
    """k as a float, and f, which is exact."""
    body, form = x.body, format_of(x)
    root, unit = ROOT[x.scalar]
    # Denormals are scaled by 2^23 (or 2^52) first, and the exponent is corrected in `_number`.
    tiny = x < form.least_normal
    bits = body.select(tiny, x * 2.0**form.mantissa, x).bits
    # Adding the difference of 1 and √½ carries into the exponent exactly where the factor is √2 or
    # more, so no comparison is needed.
    stored = (bits + (unit - root)) >> form.mantissa
    factor = (bits - (stored << form.mantissa) + unit).cast("bitcast", x.scalar)
    return _number(stored, x, tiny) - form.magic, factor - 1.0


def _number(stored: OperatorValue, x: OperatorValue, tiny: OperatorValue) -> OperatorValue:
    """A `stored` exponent as a float with the magic number added."""
    form = format_of(x)
    magic = x.body.number(form.magic - form.bias, x.scalar).bits
    less = x.body.number(form.magic - form.bias - form.mantissa, x.scalar).bits
    return (stored + x.body.select(tiny, less, magic)).cast("bitcast", x.scalar)


def special(x: OperatorValue, value: OperatorValue) -> OperatorValue:
    """`value`, or the logarithm of zero, of negative numbers, infinity and NaN."""
    value = x.body.select(x < inf, value, x)
    value = x.body.select(x < 0.0, nan, value)
    return x.body.select(x.equals(0.0), -inf, value)
