"""What is known of signs, wherever an expression is defined."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .scalars import Base, Call, Largest, Monomial, Poly, Position, Whole

POSITIVE_CALLS: set[str] = set()
"""Functions that are above zero, by name."""

_assumed: ContextVar[frozenset[str]] = ContextVar("assumed", default=frozenset())


@contextmanager
def assuming(bases: frozenset[str]) -> Iterator[None]:
    """Within, these bases are not below zero; nor are they zero where something divides by them."""
    token = _assumed.set(bases)
    try:
        yield
    finally:
        _assumed.reset(token)


def nonnegative(a: Poly) -> bool:
    return all(_term(term, strictly=False) for term in a.terms)


def positive(a: Poly) -> bool:
    """Above zero: no summand below, and one above; sums run at least once."""
    return nonnegative(a) and any(_term(term, strictly=True) for term in a.terms)


def _term(term: Monomial, strictly: bool) -> bool:
    if term.number <= 0:
        return False
    return all(
        base_positive(base)
        or (not strictly and (power % 2 == 0 or power.denominator > 1 or base_nonnegative(base)))
        for base, power in term.factors
    )


def base_nonnegative(base: Base) -> bool:
    if (assumed := _assumed.get()) and base.key({}) in assumed:
        return True
    if isinstance(base, Call):
        return base.name == "abs" or base.name in POSITIVE_CALLS
    if isinstance(base, Whole):
        return nonnegative(base.poly)
    if isinstance(base, Largest):
        return any(nonnegative(poly) for _, poly in base.items)
    return isinstance(base, Position)


def base_positive(base: Base) -> bool:
    if isinstance(base, Call):
        return base.name in POSITIVE_CALLS
    if isinstance(base, Whole):
        return positive(base.poly)
    if isinstance(base, Largest):
        return any(positive(poly) for _, poly in base.items)
    return False
