"""Roots of numbers, and products taken apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from .indices import Var
from .normal_form import ONE, Base, Monomial, Poly, SumBase


def root(number: Fraction, power: Fraction) -> tuple[Fraction, list[tuple[Base, Fraction]]]:
    """A positive number to a half power: what is rational, and roots of primes."""
    inside = number.numerator * number.denominator
    outer = Fraction(1, number.denominator)
    primes: list[int] = []
    for prime in _primes():
        if prime * prime > inside:
            break
        while inside % (prime * prime) == 0:
            inside //= prime * prime
            outer *= prime
        if inside % prime == 0:
            inside //= prime
            primes.append(prime)
    whole = math.isqrt(inside)
    if whole * whole == inside:
        outer *= whole
    elif inside > 1:
        primes.append(inside)
    times = int(power * 2)
    bases: list[tuple[Base, Fraction]] = [
        (SumBase(Poly((Monomial(Fraction(p)),))), power) for p in primes
    ]
    return outer**times, bases


def _primes() -> Iterable[int]:
    yield 2
    yield from range(3, 2000, 2)


def separated(term: Monomial) -> list[Monomial]:
    """A summed product as a product of sums that share no variable."""
    if not term.bound:
        return [term]
    groups: list[set[Var]] = [{var} for var in term.bound]
    pieces: list[set[Var]] = [set(base.vars) for base, _ in term.factors]
    exponents = () if term.exponent is None else term.exponent.terms
    pieces += [set(one.vars) for one in exponents]
    for piece in pieces:
        met = [group for group in groups if group & piece]
        if len(met) > 1:
            groups = [group for group in groups if group not in met]
            groups.append(set().union(*met))
    outside = Monomial(
        term.number,
        term.sizes,
        [(base, power) for base, power in term.factors if not base.vars & set(term.bound)],
        some([one for one in exponents if not one.vars & set(term.bound)]),
    )
    found = [outside]
    for group in groups:
        inner = Monomial(
            ONE,
            (),
            [(base, power) for base, power in term.factors if base.vars & group],
            some([one for one in exponents if one.vars & group]),
            [var for var in term.bound if var in group],
        )
        found.append(Monomial(ONE, (), ((SumBase(Poly((inner,))), ONE),)))
    return found


def some(terms: Sequence[Monomial]) -> Poly | None:
    """A sum, where there is something to sum."""
    return Poly(terms) if terms else None
