"""Absolute values, logarithms, maxima and named functions of normal forms.

A maximum is a set of values with what they have in common taken out: `max(x + z, y + z)` is z +
max{x, y} and `max(2·x, 2·y)` is 2·max{x, y}, so that the shift of a softmax cancels. Absolute
values and logarithms are taken apart along products: `|2·x·exp(y)|` is 2·exp(y)·|x|, and
`log(x·exp(y))` is log(x) + y where x is not negative.

Invariant: each rewrite holds wherever its result is defined, or its side condition is seen in the
signs of `normal_form`. Cost: linear in the terms, but for sorting by key. See docs/why/verdicts.md.
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
    """A function known by name, or by its symmetry; `pow` by a constant is `raised`."""
    if function.name == "pow":
        power = arguments[1].number
        # Powers beyond 64 would be multiplied out factor by factor; they stay a named function.
        if power is not None and power.denominator <= 2 and abs(power) <= 64:
            return raised(arguments[0], power)
    if function.positive:
        # Sign analysis works on names: `FunctionCall` does not keep the `Function`.
        POSITIVE_CALLS.add(function.name)
    if (function.odd or function.even) and _leads_negative(arguments[0]):
        # f(-x) and f(x) get one key: the argument whose first summand is positive.
        mirrored = of_base(FunctionCall(function.name, [negated(arguments[0])]))
        return negated(mirrored) if function.odd else mirrored
    return of_base(FunctionCall(function.name, arguments))


def _leads_negative(a: Poly) -> bool:
    """Whether the first summand by key has a negative number: exactly one of `a` and `-a` does."""
    if not a.terms:
        return False
    return min(a.terms, key=lambda term: term.key({})).number < 0


def absolute(a: Poly) -> Poly:
    """`|a|`: a positive factor comes out, the sign within is made canonical."""
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
    """The absolute value of a product, factor by factor."""
    result = Poly((Monomial(ONE, part.sizes, (), part.exponent),))
    for base, power in part.factors:
        # x² is not negative, and √x is neither wherever it is defined.
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
    """`|a|` as a call, or `a` where that is not negative."""
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
            # log needs its argument > 0. A factor known to be >= 0 is > 0 there, since the product
            # is not zero.
            if base_positive(base) or base_nonnegative(base):
                fire(Rule.LOG_PRODUCT)
                result = plus(result, scaled(_log_of(of_base(base)), power))
            else:
                unsure.append((base, power))
    # log(-3·x) = log(3) + log(-x) would need the sign of x: a negative number stays with the
    # factors of unknown sign.
    if number != 1 and (number > 0 or not unsure):
        result = plus(result, of_base(FunctionCall("log", [constant(number)])))
        number = Fraction(1)
    # log(x³) = 3·log x, for x³ > 0 implies x > 0; with an even power it would be log|x|.
    if len(unsure) == 1 and number == 1 and unsure[0][1] % 2 != 0:
        result = plus(result, scaled(_log_of(of_base(unsure[0][0])), unsure[0][1]))
    elif unsure:
        result = plus(result, _log_of(product_of(number, (), unsure)))
    return result


def _log_of(a: Poly) -> Poly:
    """`log a` as a call; a sum that stands alone is not wrapped twice."""
    if len(a.terms) == 1 and len(a.terms[0].factors) == 1:
        base, power = a.terms[0].factors[0]
        if isinstance(base, SumBase) and power == 1:
            return of_base(FunctionCall("log", [base.poly]))
    return of_base(FunctionCall("log", [a]))


def maximum_of(items: Iterable[Item]) -> Poly:
    """The largest of `items`, each over all values of its own variables."""
    flat = [_needed(inner) for item in items for inner in _flattened(item)]
    shared = _shared(flat)
    if shared.terms:
        fire(Rule.MAX_SHIFT)
        # max(x + z, y + z) = max(x, y) + z holds for every real z.
        flat = [(bound, minus(poly, shared)) for bound, poly in flat]
    flat = _distinct(flat)
    # max{x} = x, where x runs over no variable.
    if len(flat) == 1 and not flat[0][0]:
        return plus(flat[0][1], shared)
    scale = _scale(flat)
    if scale != 1:
        fire(Rule.MAX_SCALE)
        flat = _distinct([(bound, scaled(poly, 1 / scale)) for bound, poly in flat])
    return plus(shared, scaled(of_base(Maximum(flat)), scale))


def _flattened(item: Item) -> list[Item]:
    """The items of a maximum inside a maximum, or the item itself."""
    bound, poly = item
    if len(poly.terms) == 1:
        term = poly.terms[0]
        alone = len(term.factors) == 1 and term.exponent is None and not term.bound
        if alone and term.number == 1 and not term.sizes and term.factors[0][1] == 1:
            base = term.factors[0][0]
            if isinstance(base, Maximum):
                fire(Rule.MAX_SET)
                return [((*bound, *inner), nested) for inner, nested in base.items]
    return [item]


def _needed(item: Item) -> Item:
    """The item without variables that its value does not depend on."""
    bound, poly = item
    return tuple(var for var in bound if var in poly.vars), poly


def _shared(items: Sequence[Item]) -> Poly:
    """What can be taken out of all items.

    Of each summand over no item's variable, the least number.
    """
    terms: dict[str, Monomial] = {}
    numbers: list[dict[str, Fraction]] = []
    for bound, poly in items:
        coefficients: dict[str, Fraction] = {}
        for term in poly.terms:
            if not term.vars.intersection(bound):
                key = term.key({})
                terms[key] = term
                coefficients[key] = term.number
        numbers.append(coefficients)
    # Any number would do for the sum to be right; the least one is a choice that does not depend on
    # the order of the items.
    least = {
        key: min(coefficients.get(key, Fraction(0)) for coefficients in numbers) for key in terms
    }
    return Poly([terms[key].numbered(least[key]) for key in sorted(terms) if least[key]])


def _distinct(items: Iterable[Item]) -> list[Item]:
    """Each item once, by key; without 0 where another item is never negative."""
    by_key: dict[str, Item] = {}
    for item in items:
        by_key.setdefault(item_key(item, {}), item)
    distinct = list(by_key.values())
    zero = [item for item in distinct if not item[1].terms]
    # max{0, |x|, …} = max{|x|, …}: the zero adds nothing.
    if zero and any(item[1].terms and nonnegative(item[1]) for item in distinct):
        distinct = [item for item in distinct if item[1].terms]
    return distinct


def _scale(items: Sequence[Item]) -> Fraction:
    """The positive number that is taken out of all items: that of the first summand by key."""
    first: tuple[str, Fraction] | None = None
    for bound, poly in items:
        for term in poly.terms:
            key = item_key((bound, Poly((term.numbered(ONE),))), {})
            if first is None or key < first[0]:
                first = (key, abs(term.number))
    return first[1] if first else ONE
