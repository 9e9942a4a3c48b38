"""What the error function lacks to one, to all digits however small it is.

It is e^-x² p(u) / (x + 3), where u is x / (x + 3), and p is smooth as far as infinity. A number
below zero lacks two less what its opposite does.
"""

from __future__ import annotations

from .doubled import product
from .exponentials import EXP, reduced, scaled
from .formats import absolute, at_most, format_of
from .writing import Value

BESIDE, MIDDLE = 3.0, 0.5
"""What the operand is divided by is so much more; and the middle of the quotients."""

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
"""Coefficients of erfc x e^x² (x + 3), by powers of u less the middle: so rounded, one at zero."""

FLAT = {"float": 10.1, "double": 27.3}
"""From here on the function is zero."""


def erfc(x: Value) -> Value:
    """Denormal results are rounded once more."""
    body = x.body
    size = at_most(absolute(x), FLAT[x.element])
    part = body.number(1.0, x.element) / (size + BESIDE)
    factor = part * body.polynomial(body.fma(size, part, -MIDDLE), ERFC[x.element])
    above = _falling(size, factor)
    return body.select(x < 0.0, 2.0 - above, above)


def _falling(x: Value, factor: Value) -> Value:
    """e^-x² times a factor. What rounding takes from x² would be as much of the result."""
    body, form = x.body, format_of(x)
    squared, lost = product(x, x)
    near, times, rest = reduced(-squared, 2 * form.bias)
    rest = rest - lost
    grown = body.fma(rest * body.polynomial(rest, EXP[x.element]), rest, rest)
    return scaled(body.fma(grown, factor, factor), near, times)
