"""Sine and cosine: angles are brought between -π/4 and π/4 by whole quarters of a turn."""

from __future__ import annotations

from math import pi

from ..operators import OperatorValue
from .double_double import DoubleDouble, two_sum
from .float_formats import format_of
from .range_reduction import reduce_far_angles

QUARTERS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
"""π/2 in four parts, of which three have so few bits that a product with 2^20 is exact."""

SIN = {
    # |x| <= 0.786, minimax by Remez' exchange: 2^-28 and 2^-62 of the sine.
    "float": (-0.16666655242443085, 0.008332191035151482, -0.00019518598855938762),
    "double": (
        -0.16666666666666666, 0.008333333333332967, -0.00019841269840841535,
        2.7557319002608707e-06, -2.5052051309616457e-08, 1.6051763238803297e-10,
        -7.26285680639945e-13,
    ),
}  # fmt: skip
"""Coefficients of (sin x - x) / x³, by powers of x²."""

COS = {
    # As above: 2^-33 and 2^-61 of the cosine.
    "float": (0.04166664555668831, -0.0013887309469282627, 2.4432327336398885e-05),
    "double": (
        0.041666666666666595, -0.0013888888888868316, 2.480158728391477e-05,
        -2.75573123803678e-07, 2.0875422223006655e-09, -1.1342902664712454e-11,
    ),
}  # fmt: skip
"""Coefficients of (cos x - 1 + x²/2) / x⁴, by powers of x²."""


def sin(x: OperatorValue) -> OperatorValue:
    """Of angles of any size, in radians; of infinity, not a number; of zeros, the same."""
    return x.body.select(x.equals(0.0), x, _wave(x, 0))


def cos(x: OperatorValue) -> OperatorValue:
    """As the sine; of zeros, one."""
    return _wave(x, 1)


def _wave(x: OperatorValue, ahead: int) -> OperatorValue:
    """The sine of an angle that is so many quarters of a turn further."""
    turns, angle = _reduced_float(x) if x.element == "float" else _reduced(x)
    turns = turns + ahead
    odd = (turns & 1).equals(1)
    value = x.body.select(odd, _cosine(*angle), _sine(*angle))
    flipped = (turns << (30 if x.element == "float" else 62)) & format_of(x).sign
    return (value.bits ^ flipped).cast("bitcast", x.element)


def _reduced_float(x: OperatorValue) -> tuple[OperatorValue, DoubleDouble]:
    """In `double`, where what is lost is not felt."""
    body = x.body
    angle, tail, before = reduce_far_angles(x.cast("fpext", "double"))
    near, times = _turns(angle)
    for part in QUARTERS[:3]:
        angle = body.fma(times, -part, angle)
    turns = (near + before).cast("trunc", "i32")
    return turns, ((angle + tail).cast("fptrunc", "float"), body.number(0.0, "float"))


def _reduced(x: OperatorValue) -> tuple[OperatorValue, DoubleDouble]:
    """A number whose last bits count quarters of a turn, and the rest of an angle."""
    body = x.body
    angle, tail, before = reduce_far_angles(x)
    near, times = _turns(angle)
    first, second, third, fourth = QUARTERS
    angle = body.fma(times, -first, angle)
    angle, lost = two_sum(angle, times * -second)
    angle, error = two_sum(angle, times * -third)
    lost = body.fma(times, -fourth, lost + error) + tail
    return near + before, two_sum(angle, lost)


def _turns(angle: OperatorValue) -> tuple[OperatorValue, OperatorValue]:
    """The nearest whole number of quarters of a turn: in the last bits, and as a float."""
    magic = format_of(angle).magic
    near = angle.body.fma(angle, 2 / pi, magic)
    return near.bits, near - magic


def _sine(x: OperatorValue, tail: OperatorValue) -> OperatorValue:
    body = x.body
    first, *higher = SIN[x.element]
    z = x * x
    cube = z * x
    tail_terms = body.polynomial(z, tuple(higher))
    bent = z * (tail * 0.5 - cube * tail_terms) - tail
    return x - (bent - cube * first)


def _cosine(x: OperatorValue, tail: OperatorValue) -> OperatorValue:
    z = x * x
    half = z * 0.5
    near = 1.0 - half
    bent = z * z * x.body.polynomial(z, COS[x.element]) - x * tail
    return near + (((1.0 - near) - half) + bent)
