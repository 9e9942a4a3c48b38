"""Roots of rational numbers, and summed products taken apart into independent factors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from .indices import Var
from .normal_form import ONE, Base, Monomial, Poly, SumBase


def root(number: Fraction, power: Fraction) -> tuple[Fraction, list[tuple[Base, Fraction]]]:
    """A positive number to a half power: the rational part, and roots of primes: `√12` is 2·√3."""
    # √(n/d) = √(n·d)/d: only an integer is left under the root.
    inside = number.numerator * number.denominator
    outer = Fraction(1, number.denominator)
    primes: list[int] = []
    for prime in _primes():
        # What is left is a prime or 1: smaller factors are divided out.
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
    """Candidates for division, 2 and odd numbers below 2000.

    Composites never divide what is left.
    """
    yield 2
    yield from range(3, 2000, 2)


def separated(term: Monomial) -> list[Monomial]:
    """A summed product as a product of sums that share no variable.

    `Σ_ij x[i]·y[j]` is two factors.
    """
    if not term.bound:
        return [term]
    groups: list[set[Var]] = [{var} for var in term.bound]
    pieces: list[set[Var]] = [set(base.vars) for base, _ in term.factors]
    exponents = () if term.exponent is None else term.exponent.terms
    pieces += [set(summand.vars) for summand in exponents]
    for piece in pieces:
        # Union of the groups that one factor connects: what is left are connected components of
        # variables.
        met = [group for group in groups if group & piece]
        if len(met) > 1:
            groups = [group for group in groups if group not in met]
            groups.append(set().union(*met))
    outside = Monomial(
        term.number,
        term.sizes,
        [(base, power) for base, power in term.factors if not base.vars & set(term.bound)],
        sum_or_none([summand for summand in exponents if not summand.vars & set(term.bound)]),
    )
    factors = [outside]
    for group in groups:
        inner = Monomial(
            ONE,
            (),
            [(base, power) for base, power in term.factors if base.vars & group],
            sum_or_none([summand for summand in exponents if summand.vars & group]),
            [var for var in term.bound if var in group],
        )
        factors.append(Monomial(ONE, (), ((SumBase(Poly((inner,))), ONE),)))
    return factors


def sum_or_none(terms: Sequence[Monomial]) -> Poly | None:
    """The `Poly` of `terms`; None where there are none."""
    return Poly(terms) if terms else None
