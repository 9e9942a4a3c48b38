"""Sums over digits of one index are one sum; sums over neighbouring ranges are one sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ...tensor.sizes import Dim, Size, quotient
from .indices import Index, Var
from .rules import Rule, fire
from .scalars import Monomial


def fused(term: Monomial) -> Monomial:
    """Puts digits together: a sum over `high` and `low` of what only sees `high * n + low`."""
    while len(term.bound) > 1:
        pair = _digits(term)
        if pair is None:
            return term
        high, low = pair
        whole = Var(high.extent * low.extent)
        values = {high: Index(()), low: Index.of(whole)}
        fire(Rule.SUM_SPLIT)
        term = term.mapped(values, [*(var for var in term.bound if var not in pair), whole])
    return term


def _digits(term: Monomial) -> tuple[Var, Var] | None:
    seen = list(term.indices())
    counted = {index for index in seen if isinstance(index, Var)}
    indices = [dict(index.terms) for index in seen if isinstance(index, Index)]
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
    return term.mapped({var: Index(((fresh, 1),), shift)}, [*rest, fresh])
