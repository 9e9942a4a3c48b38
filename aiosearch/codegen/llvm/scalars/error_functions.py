"""The error function erf and its complement erfc = 1 - erf.

erf: up to 1 in size it is x + x p(x²), odd and smooth. Beyond, it is 1 - e^-x² p(x - middle), where
p approximates erfc x e^x². The error of p is weighted by e^-x², so p may be far off where erfc adds
nothing to 1 any more.

erfc: it keeps all digits however small it is, so it cannot be 1 - erf. With u = x / (x + 3), erfc x
= e^-x² p(u) / (x + 3), where p is smooth from 0 to infinity, u below 1. For negative x it is 2 -
erfc(-x). e^-x² needs x² to more bits than a float has (`two_product`): an error of x² is as large a
relative error of the result.

Example: erfc 10 in f64: u = 0.769231, p(u) / 13 = 0.0561410, e^-100 = 3.72008e-44, and the product
is 2.08849e-45; 1 - erf 10 would be 0.
"""

from __future__ import annotations

from ..operators import OperatorValue
from .double_double import two_product
from .exponentials import EXP, reduced, scaled
from .float_formats import absolute, at_most, format_of, signed_like

NEAR_COEFFICIENTS = {
    # |x| <= 1, minimax by Remez' exchange: 2^-27 and 2^-56 of erf.
    "float": (
        0.12837916612625122, -0.3761262595653534, 0.1128358393907547,
        -0.026853766292333603, 0.005188231822103262, -0.0008009268785826862,
        7.850535621400923e-05,
    ),
    "double": (
        0.1283791670955126, -0.3761263890318375, 0.11283791670954854,
        -0.02686617064507233, 0.005223977624775147, -0.0008548326978400481,
        0.00012055331023988814, -1.4925593186471417e-05, 1.6460967522474821e-06,
        -1.6349967539633425e-07, 1.4657481951884042e-08, -1.1364091650570365e-09,
        5.942540309812823e-11,
    ),
}  # fmt: skip
"""Coefficients of erf x / x - 1 for |x| <= 1, by powers of x²: 2^-27 and 2^-56 of erf."""

BEYOND_COEFFICIENTS = {
    # From one to where erf is one: 2^-26 and 2^-58, absolutely, once multiplied by e^-x².
    "float": (
        0.21080654859542847, -0.07429971545934677, 0.02515779808163643,
        -0.007804272696375847, 0.0019662484992295504, -0.0019621725659817457,
        -0.0008002791437320411, -0.0003888721694238484,
    ),
    "double": (
        0.15529365560895245, -0.041323577833949215, 0.010661133181569731,
        -0.002673074473656919, 0.0006526863572918227, -0.00015546856582611174,
        3.618233492805886e-05, -8.238012987349441e-06, 1.8356343465087484e-06,
        -4.038061939906855e-07, 8.581190648723022e-08, -1.650907012239441e-08,
        5.6694633454150055e-09, -1.7225059299734806e-10, -3.080817144801266e-10,
        -5.824982489431695e-10, -2.0885584837872107e-10, 2.4495430830600376e-12,
        4.1031042429635717e-11, 1.9619842834837134e-11, 4.8363307722544085e-12,
        6.462481524771626e-13, 3.8811881434393814e-14,
    ),
}  # fmt: skip
"""Coefficients of erfc x e^x², by powers of x less `ERF_TAIL_MIDDLE`: 2^-26 and 2^-58 in absolute
terms once multiplied by e^-x²."""

ERF_TAIL_MIDDLE = {"float": (2.5, 4.0), "double": (3.5, 6.0)}
"""The middle of the interval, and from where on erf is one."""


def erf(x: OperatorValue) -> OperatorValue:
    """The error function."""
    body = x.body
    size = absolute(x)
    # Below 1 the polynomial needs x² to working precision only.
    squared = x * x
    near = body.fma(size, body.polynomial(squared, NEAR_COEFFICIENTS[x.scalar]), size)
    return signed_like(body.select(size < 1.0, near, _beyond(size)), x)


def _beyond(size: OperatorValue) -> OperatorValue:
    """`erf` of a number from 1 on."""
    body = size.body
    middle, flat = ERF_TAIL_MIDDLE[size.scalar]
    x = at_most(size, flat)
    polynomial = body.polynomial(x - middle, BEYOND_COEFFICIENTS[size.scalar])
    return 1.0 - _exp_minus_square_normal(x) * polynomial


def _exp_minus_square_normal(x: OperatorValue) -> OperatorValue:
    """e^-x², where it is a normal number."""
    body, form = x.body, format_of(x)
    near, _, remainder = reduced(-(x * x), form.bias)
    tail = body.polynomial(remainder, EXP[x.scalar])
    value = body.fma(body.fma(tail, remainder, 1.0), remainder, 1.0)
    return value * (near.bits << form.mantissa).cast("bitcast", x.scalar)


ERFC_SHIFT, ERFC_MIDDLE = 3.0, 0.5
"""The shift 3 of u = x / (x + 3), and the middle of the values of u."""

ERFC = {
    # Minimax by Remez' exchange, to where erfc is zero: 2^-28.9 and 2^-58.2 of erfc.
    "float": (
        1.0740069076830272, -1.7667889706893793, 2.360913224659059, -2.4837283317710694,
        1.9124630777451819, -0.8588679668635009, -0.07844514477603057, 0.39426432807160144,
        -0.12404167128416292, -0.1669766355021004,
    ),
    "double": (
        1.0740069070883398, -1.7667889063397673, 2.360913428416405, -2.483738095204575,
        1.9124441805973367, -0.8584715079791705, -0.07759466421568166, 0.38835993592579937,
        -0.1403672771854247, -0.14171025010583185, 0.11014284782967153, 0.06225528780692919,
        -0.07155743238361921, -0.03890342399219847, 0.045286506810311336, 0.0327078735319802,
        -0.026593565732155447, -0.030427286249007025, 0.011534105786488027, 0.025609749774420085,
        -0.0001245499650809619, -0.01473200404959503, -0.0036360348614140037, 0.002651200400254163,
    ),
}  # fmt: skip
"""Coefficients of erfc x e^x² (x + 3), by powers of u less `ERFC_MIDDLE`: 2^-28.9 and 2^-58.2 of
erfc, rounded so that erfc 0 is one."""

FLAT = {"float": 10.1, "double": 27.3}
"""From here on `erfc` is zero."""


def erfc(x: OperatorValue) -> OperatorValue:
    """The complementary error function; denormal results are rounded once more."""
    body = x.body
    size = at_most(absolute(x), FLAT[x.scalar])
    # One division serves both the argument u - 0.5 and the factor 1 / (x + 3).
    part = body.number(1.0, x.scalar) / (size + ERFC_SHIFT)
    factor = part * body.polynomial(body.fma(size, part, -ERFC_MIDDLE), ERFC[x.scalar])
    above = _exp_minus_square_times(size, factor)
    return body.select(x < 0.0, 2.0 - above, above)


def _exp_minus_square_times(x: OperatorValue, factor: OperatorValue) -> OperatorValue:
    """e^-x² times a `factor`, with the rounding error of x² corrected."""
    body, form = x.body, format_of(x)
    squared, lost = two_product(x, x)
    # The error of the square is far below r, so it is simply subtracted from the reduced argument.
    near, times, remainder = reduced(-squared, 2 * form.bias)
    remainder = remainder - lost
    grown = body.fma(remainder * body.polynomial(remainder, EXP[x.scalar]), remainder, remainder)
    return scaled(body.fma(grown, factor, factor), near, times)
