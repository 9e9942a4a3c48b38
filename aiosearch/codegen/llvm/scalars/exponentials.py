"""The exponential, and the hyperbolic tangent that is made of it.

Where n is the nearest whole number to x / ln 2, and r is the rest, eˣ is 2ⁿ eʳ. The rest comes from
ln 2 in two parts, of which the first has so few bits that its product with n is exact.
"""

from __future__ import annotations

from ..operators import OperatorValue
from .float_formats import absolute, at_least, at_most, format_of, signed_like

LN2 = {
    "float": (0.693359375, -2.12194440054690583e-4),
    "double": (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
"""The natural logarithm of two, in two parts."""

LOG2_E = 1.4426950408889634

EXP = {
    # |r| <= 0.347, minimax by Remez' exchange: 2^-27.9 and 2^-60 of e^r.
    "float": (
        0.4999999403953552, 0.1666652262210846, 0.041668184101581573, 0.008368509821593761,
        0.0013829512754455209,
    ),
    "double": (
        0.5, 0.16666666666666682, 0.04166666666666609, 0.008333333333316916,
        0.0013888888889117244, 0.00019841269896683127, 2.4801586924646202e-05,
        2.755723455711374e-06, 2.7557582761810216e-07, 2.5112144974292745e-08,
        2.082654602367095e-09,
    ),
}  # fmt: skip
"""Coefficients of (eʳ - 1 - r) / r²."""

EXP2 = (
    0.6931471824645996, 0.24022647738456726, 0.05550359934568405, 0.009618505835533142,
    0.0013390806270763278, 0.00015326461289077997,
)  # fmt: skip
"""Coefficients of (2ʳ - 1) / r, |r| <= 0.5, in 32 bits: 2^-28.3 of 2ʳ, and nothing at zero."""

EXP2_SHORT = (0.6932829022407532, 0.2422109991312027, 0.0550089292228222)
"""The same to 2^-13.2 of 2ʳ."""

LIMITS = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
"""At and below the first the exponential is zero, at and above the second it is infinite."""

POWERS = (-150.0, 129.0)
"""The same of powers of two in 32 bits."""

FLAT = {"float": 9.1, "double": 19.1}
"""From here on the hyperbolic tangent is one."""

LOWEST = {"float": -18.0, "double": -38.0}
"""From here down the exponential less one is minus one."""


def exp(x: OperatorValue) -> OperatorValue:
    """Denormal results are rounded once more; what is too large is infinite, too small is zero."""
    x = at_least(at_most(x, LIMITS[x.element][1]), LIMITS[x.element][0])
    near, times, remainder = reduced(x, 2 * format_of(x).bias)
    tail = x.body.polynomial(remainder, EXP[x.element])
    value = x.body.fma(x.body.fma(tail, remainder, 1.0), remainder, 1.0)
    return scaled(value, near, times)


def rounded_exp(x: OperatorValue) -> OperatorValue:
    """As if the number had been rounded once more before: of one that was, that changes little."""
    return _power_of_two(x * LOG2_E, EXP2)


def short_exp(x: OperatorValue) -> OperatorValue:
    """As exact as a bf16 needs: the error before it becomes one is a fortieth of its last place."""
    return _power_of_two(x * LOG2_E, EXP2_SHORT)


def _power_of_two(power: OperatorValue, coefficients: tuple[float, ...]) -> OperatorValue:
    """From the whole number that is nearest, and what is left, which is exact."""
    body, offset = power.body, format_of(power).magic + 2 * format_of(power).bias
    if body.scales(power):
        remainder = body.fraction(power)
        near = times = power - remainder
    else:
        power = at_least(at_most(power, POWERS[1]), POWERS[0])
        near = power + offset
        times = near - offset
        remainder = power - times
    return scaled(body.fma(body.polynomial(remainder, coefficients), remainder, 1.0), near, times)


def reduced(x: OperatorValue, offset: int) -> tuple[OperatorValue, OperatorValue, OperatorValue]:
    """A number whose lowest bits are n plus an offset, then n, and the rest."""
    magic = format_of(x).magic + offset
    near = x.body.fma(x, LOG2_E, magic)
    times = near - magic
    high, low = LN2[x.element]
    return near, times, x.body.fma(times, -low, x.body.fma(times, -high, x))


def scaled(value: OperatorValue, near: OperatorValue, times: OperatorValue) -> OperatorValue:
    """A value times two to a power: as a number to whose lowest bits twice the bias is added, too.

    Where no instruction does it, by two factors: one alone could be neither as small as a denormal
    result needs it nor twice as large as the largest number.
    """
    if value.body.scales(value):
        return value.body.scale(value, times)
    powers, mantissa = near.bits, format_of(value).mantissa
    first = (powers >> 1) << mantissa
    second = (powers << mantissa) - first
    value = value * first.cast("bitcast", value.element)
    return value * second.cast("bitcast", value.element)


def expm1(x: OperatorValue) -> OperatorValue:
    """The exponential less one, which loses nothing near zero: half of it, and that twice.

    Twice what is left would not be a number where the power of two alone is too large for one.
    """
    body, form = x.body, format_of(x)
    within = at_least(at_most(x, LIMITS[x.element][1]), LOWEST[x.element])
    near, _, remainder = reduced(within, form.bias - 1)
    half = (near.bits << form.mantissa).cast("bitcast", x.element)
    less = half - 0.5
    lost = half - (less + 0.5)
    less = body.fma(half, _grown(remainder), lost) + less
    return body.select(absolute(x) < 2.0 * form.least_normal, x, less + less)


def tanh(x: OperatorValue) -> OperatorValue:
    """From e²ˣ - 1, which loses nothing near zero."""
    body, form = x.body, format_of(x)
    twice = at_most(absolute(x), FLAT[x.element]) * 2.0
    near, _, remainder = reduced(twice, form.bias)
    power = (near.bits << form.mantissa).cast("bitcast", x.element)
    less = body.fma(power, _grown(remainder), power - 1.0)
    return signed_like(less / (less + 2.0), x)


def _grown(remainder: OperatorValue) -> OperatorValue:
    """eʳ - 1."""
    tail = remainder.body.polynomial(remainder, EXP[remainder.element])
    return remainder.body.fma(tail * remainder, remainder, remainder)
