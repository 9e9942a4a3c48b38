"""Maxima in normal form: a set of values, with what all have in common taken out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from .arithmetic import minus, of_base, plus, scaled
from .rules import Rule, fire
from .scalars import ONE, Item, Largest, Monomial, Poly, item_key
from .signs import nonnegative


def largest(items: Iterable[Item]) -> Poly:
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
    return plus(shared, scaled(of_base(Largest(flat)), scale))


def _flattened(item: Item) -> list[Item]:
    bound, poly = item
    if len(poly.terms) == 1:
        term = poly.terms[0]
        alone = len(term.factors) == 1 and term.exponent is None and not term.bound
        if alone and term.number == 1 and not term.sizes and term.factors[0][1] == 1:
            base = term.factors[0][0]
            if isinstance(base, Largest):
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
