"""The exponential, the exponential less one, and the hyperbolic tangent.

Method: with n the nearest integer to x / ln 2 and r = x - n ln 2, e^x = 2^n e^r, where |r| <= ln 2
/ 2. The remainder r needs more bits of n ln 2 than a float has, so ln 2 is in two parts (Cody and
Waite), the first with so few bits that its product with n is exact. e^r is 1 + r + r² p(r), p a
minimax polynomial by Remez' exchange.

Example: x = 10 gives n = 14, r = 0.295939, e^r = 1.344388, and 2^14 e^r = 22026.46.

Invariants: the errors of `accuracy.ERRORS`; NaN gives NaN, as clamping by `at_most` and `at_least`
lets it through; results do not depend on the number of lanes. Cost in f32: 5 coefficients, 2 fused
multiply-adds for r, 2 for the rest, and 2 multiplications to scale, or one instruction with
AVX-512.
"""

from __future__ import annotations

from ..operators import OperatorValue
from .float_formats import absolute, at_least, at_most, format_of, signed_like

LN2 = {
    "float": (0.693359375, -2.12194440054690583e-4),
    "double": (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
"""ln 2 in two parts; the first has 9 bits in f32 and 32 in f64."""

LOG2_E = 1.4426950408889634
"""1 / ln 2, by which `reduced` scales its argument."""

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
"""Coefficients of (e^r - 1 - r) / r², r up to 0.347 in size: 2^-27.9 of e^r in f32, 2^-60 in
f64."""

EXP2 = (
    0.6931471824645996, 0.24022647738456726, 0.05550359934568405, 0.009618505835533142,
    0.0013390806270763278, 0.00015326461289077997,
)  # fmt: skip
"""Coefficients of (2^r - 1) / r for |r| <= 0.5, in f32, for `rounded_exp`: 2^-28.3 of 2^r, and
exact at zero."""

EXP2_SHORT = (0.6932829022407532, 0.2422109991312027, 0.0550089292228222)
"""Coefficients of (2^r - 1) / r for `short_exp`, whose results are rounded to bf16: 2^-13.2 of
2^r."""

LIMITS = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
"""At and below the first number `exp` is zero, at and above the second it is infinite."""

POWERS = (-150.0, 129.0)
"""At and below the first exponent 2^x is zero in f32, at and above the second it is infinite."""

FLAT = {"float": 9.1, "double": 19.1}
"""From here on `tanh` rounds to one."""

LOWEST = {"float": -18.0, "double": -38.0}
"""From here down `expm1` rounds to minus one."""


def exp(x: OperatorValue) -> OperatorValue:
    """e^x. Denormal results are rounded once more; too large results are infinite, too small ones
    zero."""
    x = at_least(at_most(x, LIMITS[x.scalar][1]), LIMITS[x.scalar][0])
    near, times, remainder = reduced(x, 2 * format_of(x).bias)
    # 1 + r + r² p: Horner's last two steps are written out, as their coefficients are one.
    tail = x.body.polynomial(remainder, EXP[x.scalar])
    value = x.body.fma(x.body.fma(tail, remainder, 1.0), remainder, 1.0)
    return scaled(value, near, times)


def rounded_exp(x: OperatorValue) -> OperatorValue:
    """e^x as if x had been rounded once more, which changes little for a sum that was."""
    return _power_of_two(x * LOG2_E, EXP2)


def short_exp(x: OperatorValue) -> OperatorValue:
    """e^x as exact as a bf16 needs: its error is a fortieth of the last place of a bf16."""
    return _power_of_two(x * LOG2_E, EXP2_SHORT)


def _power_of_two(power: OperatorValue, coefficients: tuple[float, ...]) -> OperatorValue:
    """2^x, from the nearest integer and the exact remainder."""
    body, offset = power.body, format_of(power).magic + 2 * format_of(power).bias
    if body.scales(power):
        remainder = body.fraction(power)
        near = times = power - remainder
    else:
        # `vscalef` saturates by itself; the magic number needs a bounded exponent.
        power = at_least(at_most(power, POWERS[1]), POWERS[0])
        near = power + offset
        times = near - offset
        remainder = power - times
    return scaled(body.fma(body.polynomial(remainder, coefficients), remainder, 1.0), near, times)


def reduced(x: OperatorValue, offset: int) -> tuple[OperatorValue, OperatorValue, OperatorValue]:
    """Argument reduction: a number whose lowest bits are n + `offset`, then n as a float, then
    r."""
    magic = format_of(x).magic + offset
    # One multiply-add both scales x and rounds it to an integer, which is in the lowest bits.
    near = x.body.fma(x, LOG2_E, magic)
    times = near - magic
    high, low = LN2[x.scalar]
    return near, times, x.body.fma(times, -low, x.body.fma(times, -high, x))


def scaled(value: OperatorValue, near: OperatorValue, times: OperatorValue) -> OperatorValue:
    """The `value` times 2^n, given a number whose lowest bits are n plus twice the bias.

    Without an instruction for it, two factors are multiplied: a single power of two could neither
    be as small as a denormal result needs nor twice the largest number.
    """
    if value.body.scales(value):
        return value.body.scale(value, times)
    powers, mantissa = near.bits, format_of(value).mantissa
    # Half of the exponent goes to each factor, so both are normal numbers.
    first = (powers >> 1) << mantissa
    second = (powers << mantissa) - first
    value = value * first.cast("bitcast", value.scalar)
    return value * second.cast("bitcast", value.scalar)


def expm1(x: OperatorValue) -> OperatorValue:
    """e^x - 1, exact also near zero: half of it is computed, and doubled.

    Where 2^n alone is too large for a float, half of it is not.
    """
    body, form = x.body, format_of(x)
    within = at_least(at_most(x, LIMITS[x.scalar][1]), LOWEST[x.scalar])
    near, _, remainder = reduced(within, form.bias - 1)
    half = (near.bits << form.mantissa).cast("bitcast", x.scalar)
    less = half - 0.5
    # What the subtraction of one half rounds away, exactly (`fast_two_sum`), is added back in.
    lost = half - (less + 0.5)
    less = body.fma(half, _grown(remainder), lost) + less
    return body.select(absolute(x) < 2.0 * form.least_normal, x, less + less)


def tanh(x: OperatorValue) -> OperatorValue:
    """tanh x = (e^2x - 1) / (e^2x + 1), from e^2x - 1, which is exact near zero."""
    body, form = x.body, format_of(x)
    twice = at_most(absolute(x), FLAT[x.scalar]) * 2.0
    near, _, remainder = reduced(twice, form.bias)
    power = (near.bits << form.mantissa).cast("bitcast", x.scalar)
    less = body.fma(power, _grown(remainder), power - 1.0)
    return signed_like(less / (less + 2.0), x)


def _grown(remainder: OperatorValue) -> OperatorValue:
    """e^r - 1 for an argument that `reduced` has returned."""
    tail = remainder.body.polynomial(remainder, EXP[remainder.scalar])
    return remainder.body.fma(tail * remainder, remainder, remainder)
