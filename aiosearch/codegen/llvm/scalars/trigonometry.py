"""Sine and cosine of angles of any size.

Method: the angle is reduced to between -π/4 and π/4 by whole quarters of a turn, which say whether
sine or cosine is evaluated and with which sign. π/2 is in four parts (Cody and Waite), whose
products with up to 2^20 quarters are exact; larger angles go through `range_reduction` first. In
f32 the reduction runs in f64, whose 53 bits leave enough.

Example: x = 10 is 6.366 quarters, so n = 6 and the angle is 10 - 6 π/2 = 0.575222; 6 mod 4 = 2, so
sin 10 = -sin 0.575222 = -0.544021 and cos 10 = -cos 0.575222 = -0.839072.

Invariants: the errors of `accuracy.ERRORS` for angles of any size; infinity gives NaN; sin of a
zero is that zero. Cost: both polynomials are evaluated, as lanes differ in which they need.
"""

from __future__ import annotations

from math import pi

from ..operators import OperatorValue
from .double_double import DoubleDouble, two_sum
from .float_formats import format_of
from .range_reduction import reduce_far_angles

QUARTERS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
"""π/2 in four parts, three of which have so few bits that a product with `FAR_ANGLE` is exact."""

SIN = {
    # |x| <= 0.786, minimax by Remez' exchange: 2^-28 and 2^-62 of the sine.
    "float": (-0.16666655242443085, 0.008332191035151482, -0.00019518598855938762),
    "double": (
        -0.16666666666666666, 0.008333333333332967, -0.00019841269840841535,
        2.7557319002608707e-06, -2.5052051309616457e-08, 1.6051763238803297e-10,
        -7.26285680639945e-13,
    ),
}  # fmt: skip
"""Coefficients of (sin x - x) / x³ for |x| <= 0.786, by powers of x²: 2^-28 and 2^-62 of the
sine."""

COS = {
    # As above: 2^-33 and 2^-61 of the cosine.
    "float": (0.04166664555668831, -0.0013887309469282627, 2.4432327336398885e-05),
    "double": (
        0.041666666666666595, -0.0013888888888868316, 2.480158728391477e-05,
        -2.75573123803678e-07, 2.0875422223006655e-09, -1.1342902664712454e-11,
    ),
}  # fmt: skip
"""Coefficients of (cos x - 1 + x²/2) / x⁴ for |x| <= 0.786, by powers of x²: 2^-33 and 2^-61 of the
cosine."""


def sin(x: OperatorValue) -> OperatorValue:
    """The sine of an angle in radians."""
    return x.body.select(x.equals(0.0), x, _wave(x, 0))


def cos(x: OperatorValue) -> OperatorValue:
    """The cosine of an angle in radians."""
    return _wave(x, 1)


def _wave(x: OperatorValue, ahead: int) -> OperatorValue:
    """The sine of an angle `ahead` quarters of a turn further."""
    turns, angle = _reduced_float(x) if x.scalar == "float" else _reduced(x)
    turns = turns + ahead
    odd = (turns & 1).equals(1)
    value = x.body.select(odd, _cosine(*angle), _sine(*angle))
    # Bit 1 of the quarters is the sign: shifted to the sign bit and flipped there.
    flipped = (turns << (30 if x.scalar == "float" else 62)) & format_of(x).sign
    return (value.bits ^ flipped).cast("bitcast", x.scalar)


def _reduced_float(x: OperatorValue) -> tuple[OperatorValue, DoubleDouble]:
    """The quarters of a turn and the angle that is left, computed in f64."""
    body = x.body
    angle, tail, before = reduce_far_angles(x.cast("fpext", "double"))
    near, times = _turns(angle)
    for part in QUARTERS[:3]:
        angle = body.fma(times, -part, angle)
    turns = (near + before).cast("trunc", "i32")
    return turns, ((angle + tail).cast("fptrunc", "float"), body.number(0.0, "float"))


def _reduced(x: OperatorValue) -> tuple[OperatorValue, DoubleDouble]:
    """A number whose lowest bits count quarters of a turn, and the angle that is left as a
    double-double."""
    body = x.body
    angle, tail, before = reduce_far_angles(x)
    near, times = _turns(angle)
    first, second, third, fourth = QUARTERS
    angle = body.fma(times, -first, angle)
    # For angles near multiples of π/2 almost everything cancels, so the later parts are subtracted
    # as double-doubles.
    angle, lost = two_sum(angle, times * -second)
    angle, error = two_sum(angle, times * -third)
    lost = body.fma(times, -fourth, lost + error) + tail
    return near + before, two_sum(angle, lost)


def _turns(angle: OperatorValue) -> tuple[OperatorValue, OperatorValue]:
    """The nearest number of quarters: in the lowest bits of an integer, and as a float."""
    magic = format_of(angle).magic
    near = angle.body.fma(angle, 2 / pi, magic)
    return near.bits, near - magic


def _sine(x: OperatorValue, tail: OperatorValue) -> OperatorValue:
    """The sine of an angle that `_reduced` has returned."""
    body = x.body
    first, *higher = SIN[x.scalar]
    z = x * x
    cube = z * x
    tail_terms = body.polynomial(z, tuple(higher))
    # The second part of the angle counts to first order only.
    bent = z * (tail * 0.5 - cube * tail_terms) - tail
    return x - (bent - cube * first)


def _cosine(x: OperatorValue, tail: OperatorValue) -> OperatorValue:
    """The cosine of an angle that `_reduced` has returned."""
    z = x * x
    half = z * 0.5
    # 1 - x²/2 is rounded; what it lost is added with the small terms.
    near = 1.0 - half
    bent = z * z * x.body.polynomial(z, COS[x.scalar]) - x * tail
    return near + (((1.0 - near) - half) + bent)
