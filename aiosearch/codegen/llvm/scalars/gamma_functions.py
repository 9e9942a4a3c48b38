"""The logarithm of the gamma function, ln |Γ(x)|, and its slope, the digamma function ψ(x).

Method, for x > 0: with n the nearest whole number and u = x - n, which is exact, Γ(x) is Γ(2 + u)
times or divided by the few factors between x and 2 + u, so that ln Γ(x) is a polynomial in u plus
or minus one logarithm. From `FAR` on it is Stirling's series. Both ways need one logarithm, so that
they share it. Γ(x) Γ(1 - x) = π / sin πx gives what is below zero, with a second logarithm.

Example: x = 3.75 has n = 4 and u = -0.25; ln Γ(1.75) = -0.0844011, the factors are 2.75 and 1.75,
and -0.0844011 + ln 4.8125 = 1.4868155.

ln Γ is zero at 1 and 2, where it has all its digits: u is a factor there, and ln x that of a number
near one. Below zero it has a zero between each two poles, near which the digits of what is added up
there cancel.

Invariants: the errors of `catalogue.ERRORS` above zero; infinite at zero, at whole numbers below
and at both infinities. Cost in f32: two logarithms, one division, and 17 coefficients.

ψ(x), for x > 0: with n the whole part and t the fraction, ψ(x) is ψ(1 + t) plus 1 / (x - 1) down to
1 / (1 + t), or less 1 / x where n is 0: one quotient of products that are made along the way. ψ has
its only zero above 0 at 1.46163, so that ψ(1 + t) is a polynomial times the distance from there,
which is taken in two steps to keep its digits. From `DIGAMMA_FAR` on it is the asymptotic series,
with one logarithm. ψ(1 - x) - ψ(x) = π cot πx gives what is below zero.

Example: x = 3.5 has n = 3 and t = 0.5; ψ(1.5) = 0.0364900, and 1 / 2.5 + 1 / 1.5 makes it
1.1031566.
"""

from __future__ import annotations

from math import inf, nan, pi

from ..operators import OperatorValue
from .exact import floor, rounded
from .float_formats import absolute
from .logarithms import log

NEAR_TWO = {
    # |u| <= 1/2, at Chebyshev's points: 2^-28.9 and 2^-56.7 of the logarithm.
    "float": (
        0.42278433509846713, 0.3224670180454995, -0.06735229409087408, 0.0205816254365885,
        -0.007385920884783578, 0.00287886868374075, -0.0011874848136699278,
        0.0005702512502829781, -0.00025056202146086636,
    ),
    "double": (
        0.42278433509846713, 0.3224670334241132, -0.06735230105319563, 0.02058080842778338,
        -0.007385551028935545, 0.002890510330865901, -0.0011927539009983087,
        0.0005096695196526673, -0.00022315497746292723, 9.945761692157133e-05,
        -4.4923727564247656e-05, 2.050601970174762e-05, -9.45628851510172e-06,
        4.3828545383846665e-06, -1.9743106888421067e-06, 9.242852225162277e-07,
        -5.811277768921246e-07, 2.7475390051909663e-07,
    ),
}  # fmt: skip
"""Coefficients of ln Γ(2 + u) / u for |u| <= 1/2: 2^-28.9 and 2^-56.7 of the logarithm."""

FAR = {"float": 4.5, "double": 8.5}
"""From here on Stirling's series is used."""

STIRLING = {
    # 1/x² up to that of `FAR`, at Chebyshev's points: 2^-25 and 2^-58 of what the series adds.
    "float": (0.08333333130231954, -0.0027770347587248827, 0.0007526791203999451),
    "double": (
        0.08333333333333333, -0.002777777777775886, 0.0007936507914552451,
        -0.0005952371356647239, 0.0008415498761143852, -0.0018956627985661561,
        0.005196041772783029,
    ),
}  # fmt: skip
"""Coefficients of x times what ln Γ(x) has beside (x - 1/2) (ln x - 1) + `HALF_LOG_TAU`, by powers
of 1/x²."""

HALF_LOG_TAU = 0.4189385332046727
"""(ln 2π - 1) / 2."""

SINE = {
    # |r| <= 1/2, at Chebyshev's points: 2^-27 and 2^-70 of the sine.
    "float": (
        3.1415926400772034, -5.167710076668315, 2.550077386528912, -0.5982904112834275,
        0.07765591227601387,
    ),
    "double": (
        3.141592653589793, -5.16771278004997, 2.5501640398773455, -0.5992645293207869,
        0.08214588661099356, -0.007370430943702136, 0.0004663027874593273,
        -2.1915250301851375e-05, 7.94853903737232e-07, -2.228371216069697e-08,
    ),
}  # fmt: skip
"""Coefficients of sin(πr) / r for |r| <= 1/2, by powers of r²."""

LOG_PI = 1.1447298858494002

DIGAMMA_ZERO = {
    "float": (0.4616321325302124, 1.2438149938918909e-08),
    "double": (0.46163214496836236, -1.5522348162858677e-17),
}
"""Where ψ(1 + t) is zero: the nearest float, and what it lacks."""

NEAR_ZERO = {
    "float": (
        0.9510558760318328, -0.42362749747529066, 0.24054253501497624, -0.1483988613883281,
        0.09498468507487738, -0.062055980386091954, 0.040850026740824504, -0.025786883631264544,
        0.01711498899971067, -0.016373620255320655, 0.010902588672572695,
    ),
    "double": (
        0.9510558760318328, -0.4236274212814606, 0.24054248424078697, -0.14840492305388092,
        0.09498872445289039, -0.06192213327548831, 0.040760833940846085, -0.026975796659787055,
        0.017907248317313294, -0.011908220105959716, 0.007927021796868154, -0.005279937255532708,
        0.003518106563802472, -0.0023454947397380833, 0.0015633696313653504,
        -0.0010364584817312839, 0.0006909255761282986, -0.00048595039220036254,
        0.00032395945401345196, -0.00014480643368061614, 9.653646261410062e-05,
        -0.0001782188548855923, 0.00011881232908510335,
    ),
}  # fmt: skip
"""Coefficients of ψ(3/2 + s) over the distance from the zero, for |s| <= 1/2, at Chebyshev's
points: 2^-27 and 2^-57 of the function."""

DIGAMMA_FAR = {"float": 6.0, "double": 10.0}
"""From here on the asymptotic series is used."""

DIGAMMA_TAIL = {
    "float": (1 / 12, -1 / 120, 1 / 252),
    "double": (
        1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160,
    ),
}  # fmt: skip
"""Coefficients of 1/x² times a polynomial in it, by which ln x - 1/(2x) is above ψ(x)."""


def lgamma(x: OperatorValue) -> OperatorValue:
    """The logarithm of |Γ(x)|; infinite where Γ has a pole, and at both infinities."""
    body, size = x.body, absolute(x)
    below = x < 0.0
    value = _above_zero(body.select(below, size + 1.0, size))
    fraction = absolute(size - rounded(size))
    sine = fraction * body.polynomial(fraction * fraction, SINE[x.scalar])
    mirrored = (LOG_PI - log(sine)) - value
    # Γ(1 - x) is infinite too where x is large; a pole is one all the same.
    mirrored = body.select(sine.equals(0.0), inf, mirrored)
    return body.select(size < inf, body.select(below, mirrored, value), size)


def _above_zero(x: OperatorValue) -> OperatorValue:
    """The logarithm of Γ(x) for x from zero on."""
    body, far = x.body, FAR[x.scalar]
    number = rounded(x)
    unit = body.number(1.0, x.scalar)
    # Γ(x) is Γ(2 + u) over x (x + 1) where n is 0, over x where it is 1, and times x - 1 up to
    # x - (n - 2) from 3 on.
    factors = body.select(number < 0.5, x * (x + 1.0), body.select(number < 1.5, x, unit))
    for passed in range(1, round(far) - 1):
        factors = factors * body.select(number > passed + 1.5, x - float(passed), unit)
    is_near = x < far
    logarithm = log(body.select(is_near, factors, x))
    u = x - number
    beside = body.select(number < 1.5, -logarithm, logarithm)
    near = body.fma(u, body.polynomial(u, NEAR_TWO[x.scalar]), beside)
    inverse = unit / x
    tail = inverse * body.polynomial(inverse * inverse, STIRLING[x.scalar])
    beyond = body.fma(x - 0.5, logarithm - 1.0, tail + HALF_LOG_TAU)
    return body.select(is_near, near, beyond)


def digamma(x: OperatorValue) -> OperatorValue:
    """The slope of ln |Γ(x)|; no number where Γ has a pole, and at -∞."""
    body = x.body
    above = body.select(x < 0.0, 1.0 - x, x)
    value = _slope_above_zero(above)
    # Of r, the distance from the nearest whole number, cos πr is the sine of what r lacks to 1/2.
    fraction = x - rounded(x)
    lack = 0.5 - absolute(fraction)
    sine = fraction * body.polynomial(fraction * fraction, SINE[x.scalar])
    cosine = lack * body.polynomial(lack * lack, SINE[x.scalar])
    mirrored = value - pi * (cosine / sine)
    mirrored = body.select(sine.equals(0.0), nan, mirrored)
    return body.select(x > 0.0, value, mirrored)


def _slope_above_zero(x: OperatorValue) -> OperatorValue:
    """ψ(x) for x from zero on."""
    body, far = x.body, DIGAMMA_FAR[x.scalar]
    unit, zero = body.number(1.0, x.scalar), body.number(0.0, x.scalar)
    number = floor(x)
    part = x - number
    is_first, is_near = number < 0.5, x < far
    over, under = body.select(is_first, -unit, zero), body.select(is_first, x, unit)
    for passed in range(1, round(far) - 1):
        factor, beyond = x - float(passed), number > passed + 0.5
        over = body.select(beyond, body.fma(over, factor, under), over)
        under = body.select(beyond, under * factor, under)
    # One division serves both ways.
    quotient = body.select(is_near, over, unit) / body.select(is_near, under, x)
    root, beside = DIGAMMA_ZERO[x.scalar]
    distance = (part - root) - beside
    near = body.fma(distance, body.polynomial(part - 0.5, NEAR_ZERO[x.scalar]), quotient)
    square = quotient * quotient
    tail = body.fma(square, body.polynomial(square, DIGAMMA_TAIL[x.scalar]), quotient * 0.5)
    return body.select(is_near, near, log(body.select(is_near, unit, x)) - tail)
