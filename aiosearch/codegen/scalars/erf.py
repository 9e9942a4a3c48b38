"""The error function: a polynomial up to one, and from there on what is missing to one.

That is erfc x = e^-x² p(x), where p is smooth. So is its error weighted by e^-x², and p may be a
polynomial although it is far off where nothing is missing any more.
"""

from __future__ import annotations

from .exponentials import EXP, reduced
from .formats import absolute, at_most, format_of, signed_like
from .writing import Value

NEAR = {
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
"""Coefficients of erf x / x - 1, by powers of x²."""

BEYOND = {
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
"""Coefficients of erfc x e^x², by powers of x less the middle."""

MIDDLE = {"float": (2.5, 4.0), "double": (3.5, 6.0)}
"""The middle, and from where on erf is one."""


def erf(x: Value) -> Value:
    body = x.body
    size = absolute(x)
    squared = x * x
    near = body.fma(size, body.polynomial(squared, NEAR[x.element]), size)
    return signed_like(body.select(size < 1.0, near, _beyond(size)), x)


def _beyond(size: Value) -> Value:
    body = size.body
    middle, flat = MIDDLE[size.element]
    x = at_most(size, flat)
    polynomial = body.polynomial(x - middle, BEYOND[size.element])
    return 1.0 - _falling(x) * polynomial


def _falling(x: Value) -> Value:
    """e^-x², for numbers of which it is not small enough to be denormal."""
    body, form = x.body, format_of(x)
    near, _, rest = reduced(-(x * x), form.bias)
    tail = body.polynomial(rest, EXP[x.element])
    value = body.fma(body.fma(tail, rest, 1.0), rest, 1.0)
    return value * (near.bits << form.mantissa).cast("bitcast", x.element)
