"""What the literals of a function mean, which were rounded to their element type.

Somebody who writes 0.1 in half precision means a tenth, and 0.70710677 means the root of a half.
Both programs of a comparison are read alike, and nothing is read as what would round to another
literal.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..tensor import DType, Term, apply, literal
from ..tensor.numbers import simplest

_BITS = {DType.F16: 12, DType.BF16: 9}
_FAMILIAR = (0.044715, math.sqrt(2 / math.pi), math.log(2), 1 / math.log(2), math.pi, math.e)


def meant(number: int | float, dtype: DType) -> Term:
    """The number, fraction or root that a literal of this element type stands for."""
    if not math.isfinite(number) or number == int(number):
        return literal(number)
    sign, size = math.copysign(1, number), Fraction(abs(number))
    bits = _BITS.get(dtype, 25)
    margin = Fraction(1, 2**bits)
    fraction = simplest(size * (1 - margin), size * (1 + margin))
    square = simplest((size * (1 - margin)) ** 2, (size * (1 + margin)) ** 2)
    effort, limit = 4 * _height(square), 16 * 2 ** (bits / 2)
    if effort <= limit and effort < _height(fraction):
        return _signed(sign, _root(square))
    if dtype not in _BITS:
        return literal(number)
    return literal(sign * _unrounded(size, margin, fraction, limit))


def _signed(sign: float, term: Term) -> Term:
    return term if sign > 0 else apply("neg", term)


def _height(fraction: Fraction) -> int:
    return fraction.numerator * fraction.denominator


def _root(square: Fraction) -> Term:
    if square.numerator == 1:
        return apply("rsqrt", literal(square.denominator))
    whole = literal(square.numerator)
    below = literal(square.denominator)
    return apply("sqrt", whole if square.denominator == 1 else apply("div", whole, below))


def _unrounded(size: Fraction, margin: Fraction, fraction: Fraction, limit: float) -> float:
    """A well-known number, else a simple fraction, else the shortest decimal."""
    for number in _FAMILIAR:
        if abs(size - Fraction(number)) <= margin * size:
            return number
    if _height(fraction) <= limit:
        return float(fraction)
    digits = next(n for n in range(1, 18) if _near(f"{float(size):.{n}g}", size, margin))
    return float(f"{float(size):.{digits}g}")


def _near(text: str, size: Fraction, margin: Fraction) -> bool:
    return abs(Fraction(text) - size) <= margin * size
