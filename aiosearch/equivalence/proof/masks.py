"""Sums that a mask leaves one place of: the sum over i of `[i = j]·x(i)` is `x(j)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from .indices import Index, Var
from .scalars import ONE, Base, Call, Monomial, Poly, Position


@dataclass(frozen=True)
class Picked:
    """What a sum comes to: a product, and the variables that are left to sum over."""

    rest: Monomial
    """All factors but the masked one."""
    masked: Poly
    bound: tuple[Var, ...]


def picked(term: Monomial, bound: Sequence[Var]) -> Picked | None:
    """Sums over one of these variables, if a mask holds it equal to another."""
    for place, (base, power) in enumerate(term.factors):
        pair = _mask(base) if power == 1 else None
        for gone, kept in (pair, pair[::-1]) if pair is not None else ():
            if gone in bound and gone.extent == kept.extent:
                values = {gone: Index.of(kept)}
                assert isinstance(base, Call)
                others = term.factors[:place] + term.factors[place + 1 :]
                rest = Monomial(term.number, term.sizes, others, term.exponent)
                left = tuple(var for var in bound if var is not gone)
                return Picked(rest.mapped(values), base.arguments[1].mapped(values), left)
    return None


def _mask(base: Base) -> tuple[Var, Var] | None:
    """The two variables of a choice that is zero unless they are equal."""
    if not isinstance(base, Call) or base.name != "select" or base.arguments[2].terms:
        return None
    where = base.arguments[0]
    only = where.terms[0].factors if len(where.terms) == 1 else ()
    if len(only) != 1 or where.terms[0].number != 1 or only[0][1] != 1:
        return None
    equal = only[0][0]
    if not isinstance(equal, Call) or equal.name != "==":
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
