"""Simplification of sums: fused digits, joined ranges, and masks that leave one summand.

Three laws give sums over differently cut ranges one form. Fusion: Σ over high < n, low < 4 of
f(4·high + low) is Σ over i < 4·n of f(i). Joining: Σ over i < 3 of x[i] plus Σ over i < 2 of x[i +
3] is Σ over i < 5 of x[i]. Masks: Σ over i of [i = j]·x(i) is x(j).
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
    """Joins two digits of a sum over `high` and `low` that only sees `high * n + low`."""
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
    """Two bound variables that occur only as `high * low.extent + low`."""
    seen = list(term.indices())
    # A variable whose value counts as a number cannot be fused: only indices see both digits as
    # one.
    counted = {index for index in seen if isinstance(index, Var)}
    indices = [dict(index.terms) for index in seen if isinstance(index, IndexSum)]
    bound = [var for var in term.bound if var not in counted]
    for high in bound:
        for low in bound:
            if high is not low and all(
                factors.get(high, 0) == factors.get(low, 0) * low.extent for factors in indices
            ):
                return high, low
    return None


_ANY: Dim = Size.named("any")
"""The extent that stands for every extent when the texts of two sums are compared."""
Range: TypeAlias = tuple[Dim, Dim]
"""The start and the extent of a sum's range."""


def joined(terms: Sequence[Monomial]) -> list[Monomial]:
    """Joins sums over neighbouring ranges, where all else in them is alike."""
    left = list(terms)
    again = True
    while again:
        again = False
        seen: dict[str, list[tuple[int, Var, Range]]] = {}
        for place, term in enumerate(left):
            for var in term.bound:
                reading = _from_start(term, var)
                if reading is not None:
                    key, range_ = reading
                    seen.setdefault(f"{term.number} {key}", []).append((place, var, range_))
        for alike in seen.values():
            pair = _neighbours(alike)
            if pair is not None:
                (first, var, (_, extent)), (second, _, (_, next_extent)) = pair
                fire(Rule.SUM_RANGES)
                whole = _stretched(left[first], var, extent + next_extent)
                left = [term for place, term in enumerate(left) if place not in (first, second)]
                # Three neighbours take two rounds; each round has one term less.
                left.append(whole)
                again = True
                break
    return left


def _neighbours(
    alike: Sequence[tuple[int, Var, Range]],
) -> tuple[tuple[int, Var, Range], tuple[int, Var, Range]] | None:
    """Two sums of which one starts where the other ends."""
    for first in alike:
        for second in alike:
            if first[0] != second[0] and first[2][0] + first[2][1] == second[2][0]:
                return first, second
    return None


def _from_start(term: Monomial, var: Var) -> tuple[str, Range] | None:
    """Reads a sum as one over a range: the text of what it sums, and the `Range`."""
    start = _start(term, var)
    if start is None:
        return None
    # Moved to start at 0 and stretched to a common extent, sums that differ in their range alone
    # have one text.
    return _stretched(term, var, _ANY, 0 - start).key({}), (start, var.extent)


def _start(term: Monomial, var: Var) -> Dim | None:
    """The shift that every index with `var` has, where it is a single one."""
    starts: set[Dim] = set()
    for index in term.indices():
        if isinstance(index, Var):
            # The value of the variable counts: moving its range would change the summand.
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
    unchanged = [bound_var for bound_var in term.bound if bound_var is not var]
    return term.mapped({var: IndexSum(((fresh, 1),), shift)}, [*unchanged, fresh])


@dataclass(frozen=True)
class MaskedSum:
    """What a masked sum comes to: a product, and the variables that are left to sum over."""

    unmasked: Monomial
    """All factors but the mask."""
    bound: tuple[Var, ...]


def picked(term: Monomial, bound: Sequence[Var]) -> MaskedSum | None:
    """Sums over one of `bound`, if a mask holds it equal to another variable; None if none does."""
    for place, (base, power) in enumerate(term.factors):
        pair = _mask(base) if power == 1 else None
        for gone, remaining in (pair, pair[::-1]) if pair is not None else ():
            # Equal extents: otherwise j may lie outside the range of i, and the sum is 0 there.
            if gone in bound and gone.extent == remaining.extent:
                values = {gone: IndexSum.of(remaining)}
                factors = term.factors[:place] + term.factors[place + 1 :]
                unmasked = Monomial(term.number, term.sizes, factors, term.exponent)
                left = tuple(var for var in bound if var is not gone)
                return MaskedSum(unmasked.mapped(values), left)
    return None


def is_equality(a: Poly) -> bool:
    """Whether `a` is the truth value of an equality, and nothing else."""
    only = a.terms[0] if len(a.terms) == 1 else None
    if only is None or only.number != 1 or len(only.factors) != 1 or only.bound or only.sizes:
        return False
    base, power = only.factors[0]
    return only.exponent is None and power == 1 and equated(base) is not None


def equated(base: Base) -> Poly | None:
    """The difference that is zero where a truth value of an equality is one; None for any other
    base."""
    equality = isinstance(base, FunctionCall) and base.name == "=="
    return base.arguments[0] if isinstance(base, FunctionCall) and equality else None


def _mask(base: Base) -> tuple[Var, Var] | None:
    """The two variables that a factor is zero for unless they are equal."""
    difference = equated(base)
    return None if difference is None else _difference(difference)


def _difference(a: Poly) -> tuple[Var, Var] | None:
    """The variables of `i - j`; None where `a` has another form."""
    by_sign: dict[Fraction, Var] = {}
    for term in a.terms:
        base, power = term.factors[0] if len(term.factors) == 1 else (None, ONE)
        plain = not term.sizes and not term.bound and term.exponent is None
        if not isinstance(base, Position) or power != 1 or not plain:
            return None
        by_sign[term.number] = base.var
    if len(a.terms) != 2 or set(by_sign) != {ONE, -ONE}:
        return None
    return by_sign[ONE], by_sign[-ONE]
