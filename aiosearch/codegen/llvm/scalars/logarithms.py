"""The natural logarithm, of numbers split into a power of two and a factor between √½ and √2.

Where the factor is 1 + f, and s is f / (2 + f), its logarithm is 2 artanh s = f - s (f - s² R(s²)).
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
"""Coefficients of (2 artanh s - 2 s) / s³, by powers of s²."""

ROOT = {"float": (0x3F3504F3, 0x3F800000), "double": (0x3FE6A09E667F3BCD, 0x3FF0000000000000)}
"""The bits of √½ and of one."""


def log(x: OperatorValue) -> OperatorValue:
    """Of zero, minus infinity; of what is below, not a number."""
    return special(x, _natural(x))


def log1p(x: OperatorValue) -> OperatorValue:
    """The logarithm of one more, where nothing is lost of what is small beside one.

    What rounding took from the sum, divided by it, is what its logarithm lacks.
    """
    body, total = x.body, x + 1.0
    lost = body.select(x < 1.0, x - (total - 1.0), 1.0 - (total - x))
    value = special(total, _natural(total, lost / total))
    return body.select(x.equals(0.0), x, value)


def _natural(x: OperatorValue, lacking: OperatorValue | None = None) -> OperatorValue:
    """The logarithm of a number above zero, and what is to be added to it that is small."""
    body = x.body
    power, f = split(x)
    s = f / (f + 2.0)
    z, half = s * s, f * f * 0.5
    tail = z * body.polynomial(z, LOG[x.element])
    high, low = LN2[x.element]
    beside = power * low if lacking is None else body.fma(power, low, lacking)
    small = body.fma(s, half + tail, beside)
    return body.fma(power, high, f - (half - small))


def split(x: OperatorValue) -> tuple[OperatorValue, OperatorValue]:
    """The power of two, and the factor less one, which is exact."""
    body, form = x.body, format_of(x)
    root, unit = ROOT[x.element]
    tiny = x < form.least_normal
    bits = body.select(tiny, x * 2.0**form.mantissa, x).bits
    stored = (bits + (unit - root)) >> form.mantissa
    factor = (bits - (stored << form.mantissa) + unit).cast("bitcast", x.element)
    return _number(stored, x, tiny) - form.magic, factor - 1.0


def _number(stored: OperatorValue, x: OperatorValue, tiny: OperatorValue) -> OperatorValue:
    """An exponent as a float, on top of the magic number, whose last bits it is added to."""
    form = format_of(x)
    magic = x.body.number(form.magic - form.bias, x.element).bits
    less = x.body.number(form.magic - form.bias - form.mantissa, x.element).bits
    return (stored + x.body.select(tiny, less, magic)).cast("bitcast", x.element)


def special(x: OperatorValue, value: OperatorValue) -> OperatorValue:
    """The logarithm of what is not a finite number above zero, else the value."""
    value = x.body.select(x < inf, value, x)
    value = x.body.select(x < 0.0, nan, value)
    return x.body.select(x.equals(0.0), -inf, value)
