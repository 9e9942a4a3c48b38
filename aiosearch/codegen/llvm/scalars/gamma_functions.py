"""The logarithm of the gamma function, ln |Γ(x)|.

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
"""

from __future__ import annotations

from math import inf

from ..operators import OperatorValue
from .exact import rounded
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
