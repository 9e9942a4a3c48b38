"""Simplification of sums: fused digits, joined ranges, and masks that leave one summand.

Sums that a mask leaves one place of: the sum over i of `[i = j]·x(i)` is `x(j)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from ...tensor.sizes import Dim, Size, quotient
from .indices import IndexSum, Var
from .normal_form import ONE, Base, FunctionCall, Monomial, Poly, Position
from .rules import Rule, fire


def fused(term: Monomial) -> Monomial:
    """Puts digits together: a sum over `high` and `low` of what only sees `high * n + low`."""
    while len(term.bound) > 1:
        pair = _digits(term)
        if pair is None:
            return term
        high, low = pair
        whole = Var(high.extent * low.extent)
        values = {high: IndexSum(()), low: IndexSum.of(whole)}
        fire(Rule.SUM_SPLIT)
        term = term.mapped(values, [*(var for var in term.bound if var not in pair), whole])
    return term


def _digits(term: Monomial) -> tuple[Var, Var] | None:
    seen = list(term.indices())
    counted = {index for index in seen if isinstance(index, Var)}
    indices = [dict(index.terms) for index in seen if isinstance(index, IndexSum)]
    bound = [var for var in term.bound if var not in counted]
    for high in bound:
        for low in bound:
            if high is not low and all(
                own.get(high, 0) == own.get(low, 0) * low.extent for own in indices
            ):
                return high, low
    return None


_ANY: Dim = Size.named("any")
Range: TypeAlias = tuple[Dim, Dim]


def joined(terms: Sequence[Monomial]) -> list[Monomial]:
    """Puts sums over neighbouring ranges together, where all else in them is alike."""
    left = list(terms)
    again = True
    while again:
        again = False
        seen: dict[str, list[tuple[int, Var, Range]]] = {}
        for place, term in enumerate(left):
            for var in term.bound:
                found = _from_start(term, var)
                if found is not None:
                    key, range_ = found
                    seen.setdefault(f"{term.number} {key}", []).append((place, var, range_))
        for alike in seen.values():
            pair = _neighbours(alike)
            if pair is not None:
                (one, var, (_, extent)), (two, _, (_, more)) = pair
                fire(Rule.SUM_RANGES)
                whole = _stretched(left[one], var, extent + more)
                left = [term for place, term in enumerate(left) if place not in (one, two)]
                left.append(whole)
                again = True
                break
    return left


def _neighbours(
    alike: Sequence[tuple[int, Var, Range]],
) -> tuple[tuple[int, Var, Range], tuple[int, Var, Range]] | None:
    for first in alike:
        for second in alike:
            if first[0] != second[0] and first[2][0] + first[2][1] == second[2][0]:
                return first, second
    return None


def _from_start(term: Monomial, var: Var) -> tuple[str, Range] | None:
    """Reads a sum as one over a range: the text of what it sums, and the range."""
    start = _start(term, var)
    if start is None:
        return None
    return _stretched(term, var, _ANY, 0 - start).key({}), (start, var.extent)


def _start(term: Monomial, var: Var) -> Dim | None:
    """The shift that every index with this variable has, where it is one."""
    starts: set[Dim] = set()
    for index in term.indices():
        if isinstance(index, Var):
            if index is var:
                return None
            continue
        factor = dict(index.terms).get(var)
        if factor is not None:
            start = quotient(index.constant, factor) if index.constant != 0 else 0
            if start is None:
                return None
            starts.add(start)
    return starts.pop() if len(starts) == 1 else None


def _stretched(term: Monomial, var: Var, extent: Dim, shift: Dim = 0) -> Monomial:
    """The summand with another extent of one of its sums, and its start moved."""
    fresh = Var(extent)
    rest = [other for other in term.bound if other is not var]
    return term.mapped({var: IndexSum(((fresh, 1),), shift)}, [*rest, fresh])


@dataclass(frozen=True)
class MaskedSum:
    """What a sum comes to: a product, and the variables that are left to sum over."""

    rest: Monomial
    """All factors but the masked one."""
    masked: Poly
    bound: tuple[Var, ...]


def picked(term: Monomial, bound: Sequence[Var]) -> MaskedSum | None:
    """Sums over one of these variables, if a mask holds it equal to another."""
    for place, (base, power) in enumerate(term.factors):
        pair = _mask(base) if power == 1 else None
        for gone, kept in (pair, pair[::-1]) if pair is not None else ():
            if gone in bound and gone.extent == kept.extent:
                values = {gone: IndexSum.of(kept)}
                assert isinstance(base, FunctionCall)
                others = term.factors[:place] + term.factors[place + 1 :]
                rest = Monomial(term.number, term.sizes, others, term.exponent)
                left = tuple(var for var in bound if var is not gone)
                return MaskedSum(rest.mapped(values), base.arguments[1].mapped(values), left)
    return None


def _mask(base: Base) -> tuple[Var, Var] | None:
    """The two variables of a choice that is zero unless they are equal."""
    if not isinstance(base, FunctionCall) or base.name != "select" or base.arguments[2].terms:
        return None
    where = base.arguments[0]
    only = where.terms[0].factors if len(where.terms) == 1 else ()
    if len(only) != 1 or where.terms[0].number != 1 or only[0][1] != 1:
        return None
    equal = only[0][0]
    if not isinstance(equal, FunctionCall) or equal.name != "==":
        return None
    return _difference(equal.arguments[0])


def _difference(a: Poly) -> tuple[Var, Var] | None:
    """The variables of `i - j`."""
    found: dict[Fraction, Var] = {}
    for term in a.terms:
        base, power = term.factors[0] if len(term.factors) == 1 else (None, ONE)
        plain = not term.sizes and not term.bound and term.exponent is None
        if not isinstance(base, Position) or power != 1 or not plain:
            return None
        found[term.number] = base.var
    if len(a.terms) != 2 or set(found) != {ONE, -ONE}:
        return None
    return found[ONE], found[-ONE]
