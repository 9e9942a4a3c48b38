"""Functions of normal forms: what little is known of them is used, the rest stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ...tensor.algebra import Function
from .arithmetic import (
    constant,
    multiply,
    negated,
    of_base,
    plus,
    product_of,
    raised,
    scaled,
    taken_out,
)
from .roots import separated
from .rules import Rule, fire
from .scalars import HALF, ONE, Base, Call, Monomial, Poly, Whole
from .signs import POSITIVE_CALLS, base_nonnegative, base_positive, nonnegative


def applied(function: Function, arguments: Sequence[Poly]) -> Poly:
    """A function that is known by name only, or by its symmetry."""
    if function.name == "pow":
        power = arguments[1].number
        if power is not None and power.denominator <= 2 and abs(power) <= 64:
            return raised(arguments[0], power)
    if function.positive:
        POSITIVE_CALLS.add(function.name)
    if (function.odd or function.even) and _leads_negative(arguments[0]):
        mirrored = of_base(Call(function.name, [negated(arguments[0])]))
        return negated(mirrored) if function.odd else mirrored
    return of_base(Call(function.name, arguments))


def _leads_negative(a: Poly) -> bool:
    if not a.terms:
        return False
    return min(a.terms, key=lambda term: term.key({})).number < 0


def absolute(a: Poly) -> Poly:
    """`|a|`: a positive factor comes out, the sign within is put right."""
    if nonnegative(a):
        return a
    if len(a.terms) != 1:
        content, primitive = taken_out(a, HALF)
        if _leads_negative(primitive):
            primitive = negated(primitive)
        return multiply(
            Poly((content.numbered(abs(content.number)),)), of_base(Call("abs", [primitive]))
        )
    result = constant(abs(a.terms[0].number))
    for part in separated(a.terms[0]):
        result = multiply(result, _absolute_product(part))
    return result


def _absolute_product(part: Monomial) -> Poly:
    result = Poly((Monomial(ONE, part.sizes, (), part.exponent),))
    for base, power in part.factors:
        if power % 2 == 0 or power.denominator > 1:
            result = multiply(result, of_base(base, power))
        elif isinstance(base, Whole):
            inner = absolute(base.poly) if len(base.poly.terms) > 1 else _bare(base.poly)
            result = multiply(result, raised(inner, power))
        else:
            inside = of_base(base)
            bare = inside if nonnegative(inside) else of_base(Call("abs", [inside]))
            result = multiply(result, raised(bare, power))
    return result


def _bare(a: Poly) -> Poly:
    return a if nonnegative(a) else of_base(Call("abs", [a]))


def logarithm(a: Poly) -> Poly:
    """`log a`, where `a` is above zero."""
    if not a.terms:
        return of_base(Call("log", [a]))
    if len(a.terms) == 1:
        parts = separated(a.terms[0])
    else:
        content, primitive = taken_out(a, HALF)
        parts = [content, Monomial(ONE, (), ((Whole(primitive), ONE),))]
    result = constant(0)
    number = Fraction(1)
    unsure: list[tuple[Base, Fraction]] = []
    for part in parts:
        number *= part.number
        if part.exponent is not None:
            fire(Rule.LOG_EXP)
            result = plus(result, part.exponent)
        for name, power in part.sizes:
            size = Poly((Monomial(ONE, ((name, ONE),)),))
            result = plus(result, scaled(of_base(Call("log", [size])), power))
        for base, power in part.factors:
            if base_positive(base) or base_nonnegative(base):
                fire(Rule.LOG_PRODUCT)
                result = plus(result, scaled(_log_of(of_base(base)), power))
            else:
                unsure.append((base, power))
    if number != 1 and (number > 0 or not unsure):
        result = plus(result, of_base(Call("log", [constant(number)])))
        number = Fraction(1)
    if len(unsure) == 1 and number == 1 and unsure[0][1] % 2 != 0:
        result = plus(result, scaled(_log_of(of_base(unsure[0][0])), unsure[0][1]))
    elif unsure:
        result = plus(result, _log_of(product_of(number, (), unsure)))
    return result


def _log_of(a: Poly) -> Poly:
    """The logarithm of what cannot be taken apart; a sum that stands alone is not wrapped twice."""
    if len(a.terms) == 1 and len(a.terms[0].factors) == 1:
        base, power = a.terms[0].factors[0]
        if isinstance(base, Whole) and power == 1:
            return of_base(Call("log", [base.poly]))
    return of_base(Call("log", [a]))
