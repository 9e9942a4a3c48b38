"""What the literals of a function mean, which were rounded to their element type.

Somebody who writes 0.1 in half precision means a tenth, and 0.70710677 means the root of a half.
`meant` finds the simplest fraction, root or well-known constant that rounds to the number.

Example, for f32: 0.70710677 is `rsqrt(2)`, 0.5 stays 0.5; for f16: 0.3333 is 1/3.

Both programs of a comparison are read alike, and nothing is read as what would round to another
literal. docs/why/verdicts.md has more on literals.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..tensor import DType, Term, apply, literal
from ..tensor.evaluation import simplest

_HALVES = {DType.F16: 11, DType.BF16: 8}
"""Bits of the significand of half types, the leading one included."""
_WELL_KNOWN = (0.044715, math.sqrt(2 / math.pi), math.pi, math.e)
"""Constants that functions are written with: of the tanh form of gelu, and π and e."""


def meant(number: int | float, dtype: DType) -> Term:
    """The number, fraction or root that a literal of this element type stands for."""
    if not math.isfinite(number) or number == int(number):
        return literal(number)
    sign, size = math.copysign(1, number), Fraction(abs(number))
    bits = _HALVES.get(dtype, 24)
    smallest = -25 if dtype is DType.F16 else -150
    # Half a unit in the last place: every number within rounds to the literal.
    margin = Fraction(2) ** max(math.frexp(number)[1] - 1 - bits, smallest)
    logarithm = _logarithm(size, margin)
    if logarithm is not None:
        return _signed(sign, logarithm)
    if dtype in _HALVES:
        plain = _plain(size, margin)
        if plain is not None:
            return literal(sign * plain)
    fraction = simplest(size - margin, size + margin)
    square = simplest((size - margin) ** 2, (size + margin) ** 2)
    # A root has to be a good deal simpler than the fraction: among squares of any height there is
    # one near every number.
    effort, limit = 4 * _height(square), 32 * 2 ** (bits / 2)
    if effort <= limit and effort < _height(fraction):
        return _signed(sign, _root(square))
    if dtype not in _HALVES:
        return literal(number)
    return literal(sign * _unrounded(size, margin, fraction, limit))


def _logarithm(size: Fraction, margin: Fraction) -> Term | None:
    """log 2 or its reciprocal, with which powers of two are written as exponentials."""
    two = apply("log", literal(2))
    if abs(size - Fraction(math.log(2))) <= margin:
        return two
    if abs(size - Fraction(1 / math.log(2))) <= margin:
        return apply("reciprocal", two)
    return None


def _plain(size: Fraction, margin: Fraction) -> float | None:
    """A few parts of a power of two, or a constant of `_WELL_KNOWN`."""
    if size.numerator < 16:
        return float(size)
    return next(
        (constant for constant in _WELL_KNOWN if abs(size - Fraction(constant)) <= margin), None
    )


def _signed(sign: float, term: Term) -> Term:
    return term if sign > 0 else apply("neg", term)


def _height(fraction: Fraction) -> int:
    """How complicated a fraction is: 22/7 has 154."""
    return fraction.numerator * fraction.denominator


def _root(square: Fraction) -> Term:
    if square.numerator == 1:
        return apply("rsqrt", literal(square.denominator))
    whole = literal(square.numerator)
    below = literal(square.denominator)
    return apply("sqrt", whole if square.denominator == 1 else apply("div", whole, below))


def _unrounded(size: Fraction, margin: Fraction, fraction: Fraction, limit: float) -> float:
    """A simple fraction, or else the shortest decimal that rounds to the literal."""
    if _height(fraction) <= limit:
        return float(fraction)
    decimals = (f"{float(size):.{digits}g}" for digits in range(1, 18))
    return float(next(text for text in decimals if abs(Fraction(text) - size) <= margin))
