"""Graphs made forwards, one operator after the other: slow, and plain enough to be believed.

A term is a nested tuple: its depth, its operator and its operands, those that may be swapped in
order. Operators are appended so that terms only increase. An operand is of less depth than what is
made of it, so every set of terms comes up, and in one order only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations_with_replacement, product
from typing import Any, TypeAlias

Term: TypeAlias = tuple[Any, ...]
Grow: TypeAlias = Callable[[tuple[Term, ...]], Iterator[Term]]

COMMUTATIVE = ("add", "mul")


def leaf(name: str) -> Term:
    return (0, name, ())


def term(operator: str, *operands: Term) -> Term:
    depth = 1 + max(operand[0] for operand in operands)
    ordered = tuple(sorted(operands)) if operator in COMMUTATIVE else operands
    return (depth, operator, ordered)


def sets(given: Iterable[Term], most: int, grow: Grow) -> Iterator[tuple[Term, ...]]:
    """Every set of at most so many terms that `grow` makes of those given, operators last."""
    leaves = tuple(given)
    yield from _sets(leaves, (), most, grow)


def _sets(
    leaves: tuple[Term, ...], made: tuple[Term, ...], most: int, grow: Grow
) -> Iterator[tuple[Term, ...]]:
    yield made
    if len(made) == most:
        return
    for new in grow((*leaves, *made)):
        if not made or new > made[-1]:
            yield from _sets(leaves, (*made, new), most, grow)


def unary(*operators: str) -> Grow:
    """These operators on any term."""

    def grow(terms: tuple[Term, ...]) -> Iterator[Term]:
        return (term(operator, one) for operator in operators for one in terms)

    return grow


def binary(*operators: str) -> Grow:
    """These operators on any two terms, or twice on one."""

    def grow(terms: tuple[Term, ...]) -> Iterator[Term]:
        for operator in operators:
            swapped = operator in COMMUTATIVE
            pairs = combinations_with_replacement(terms, 2) if swapped else product(terms, repeat=2)
            yield from (term(operator, *pair) for pair in pairs)

    return grow


def either(*ways: Grow) -> Grow:
    def grow(terms: tuple[Term, ...]) -> Iterator[Term]:
        for way in ways:
            yield from way(terms)

    return grow
