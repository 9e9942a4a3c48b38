"""Functions and maxima of normal forms.

Maxima in normal form: a set of values, with what all have in common taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from ...tensor.algebra import Function
from .arithmetic import (
    constant,
    minus,
    multiply,
    negated,
    of_base,
    plus,
    product_of,
    raised,
    scaled,
    taken_out,
)
from .normal_form import (
    HALF,
    ONE,
    POSITIVE_CALLS,
    Base,
    FunctionCall,
    Item,
    Maximum,
    Monomial,
    Poly,
    SumBase,
    base_nonnegative,
    base_positive,
    item_key,
    nonnegative,
)
from .roots import separated
from .rules import Rule, fire


def applied(function: Function, arguments: Sequence[Poly]) -> Poly:
    """A function that is known by name only, or by its symmetry."""
    if function.name == "pow":
        power = arguments[1].number
        if power is not None and power.denominator <= 2 and abs(power) <= 64:
            return raised(arguments[0], power)
    if function.positive:
        POSITIVE_CALLS.add(function.name)
    if (function.odd or function.even) and _leads_negative(arguments[0]):
        mirrored = of_base(FunctionCall(function.name, [negated(arguments[0])]))
        return negated(mirrored) if function.odd else mirrored
    return of_base(FunctionCall(function.name, arguments))


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
            Poly((content.numbered(abs(content.number)),)),
            of_base(FunctionCall("abs", [primitive])),
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
        elif isinstance(base, SumBase):
            inner = absolute(base.poly) if len(base.poly.terms) > 1 else _bare(base.poly)
            result = multiply(result, raised(inner, power))
        else:
            inside = of_base(base)
            bare = inside if nonnegative(inside) else of_base(FunctionCall("abs", [inside]))
            result = multiply(result, raised(bare, power))
    return result


def _bare(a: Poly) -> Poly:
    return a if nonnegative(a) else of_base(FunctionCall("abs", [a]))


def logarithm(a: Poly) -> Poly:
    """`log a`, where `a` is above zero."""
    if not a.terms:
        return of_base(FunctionCall("log", [a]))
    if len(a.terms) == 1:
        parts = separated(a.terms[0])
    else:
        content, primitive = taken_out(a, HALF)
        parts = [content, Monomial(ONE, (), ((SumBase(primitive), ONE),))]
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
            result = plus(result, scaled(of_base(FunctionCall("log", [size])), power))
        for base, power in part.factors:
            if base_positive(base) or base_nonnegative(base):
                fire(Rule.LOG_PRODUCT)
                result = plus(result, scaled(_log_of(of_base(base)), power))
            else:
                unsure.append((base, power))
    if number != 1 and (number > 0 or not unsure):
        result = plus(result, of_base(FunctionCall("log", [constant(number)])))
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
        if isinstance(base, SumBase) and power == 1:
            return of_base(FunctionCall("log", [base.poly]))
    return of_base(FunctionCall("log", [a]))


def maximum_of(items: Iterable[Item]) -> Poly:
    """The largest of values, each over its own variables."""
    flat = [_needed(one) for item in items for one in _flattened(item)]
    shared = _shared(flat)
    if shared.terms:
        fire(Rule.MAX_SHIFT)
        flat = [(bound, minus(poly, shared)) for bound, poly in flat]
    flat = _distinct(flat)
    if len(flat) == 1 and not flat[0][0]:
        return plus(flat[0][1], shared)
    scale = _scale(flat)
    if scale != 1:
        fire(Rule.MAX_SCALE)
        flat = _distinct([(bound, scaled(poly, 1 / scale)) for bound, poly in flat])
    return plus(shared, scaled(of_base(Maximum(flat)), scale))


def _flattened(item: Item) -> list[Item]:
    bound, poly = item
    if len(poly.terms) == 1:
        term = poly.terms[0]
        alone = len(term.factors) == 1 and term.exponent is None and not term.bound
        if alone and term.number == 1 and not term.sizes and term.factors[0][1] == 1:
            base = term.factors[0][0]
            if isinstance(base, Maximum):
                fire(Rule.MAX_SET)
                return [((*bound, *inner), one) for inner, one in base.items]
    return [item]


def _needed(item: Item) -> Item:
    bound, poly = item
    return tuple(var for var in bound if var in poly.vars), poly


def _shared(items: Sequence[Item]) -> Poly:
    """What can be taken out of all: for each summand that no item runs over, the least number."""
    terms: dict[str, Monomial] = {}
    numbers: list[dict[str, Fraction]] = []
    for bound, poly in items:
        own: dict[str, Fraction] = {}
        for term in poly.terms:
            if not term.vars.intersection(bound):
                key = term.key({})
                terms[key] = term
                own[key] = term.number
        numbers.append(own)
    least = {key: min(own.get(key, Fraction(0)) for own in numbers) for key in terms}
    return Poly([terms[key].numbered(least[key]) for key in sorted(terms) if least[key]])


def _distinct(items: Iterable[Item]) -> list[Item]:
    found: dict[str, Item] = {}
    for item in items:
        found.setdefault(item_key(item, {}), item)
    kept = list(found.values())
    zero = [item for item in kept if not item[1].terms]
    if zero and any(item[1].terms and nonnegative(item[1]) for item in kept):
        kept = [item for item in kept if item[1].terms]
    return kept


def _scale(items: Sequence[Item]) -> Fraction:
    """A positive number that all are multiples of: that of the first summand by name."""
    first: tuple[str, Fraction] | None = None
    for bound, poly in items:
        for term in poly.terms:
            key = item_key((bound, Poly((term.numbered(ONE),))), {})
            if first is None or key < first[0]:
                first = (key, abs(term.number))
    return first[1] if first else ONE
