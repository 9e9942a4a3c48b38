"""`RewriteRule` and the registry of rules: a rewrite from a term to equal ones, by operator.

    @rule("exp")
    def exp_of_difference(term):           # exp(a - log b) is exp(a) / b
    ...

declares a function as a rule for terms of `exp`; `rewritten` tries it on each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ....tensor import DType, ShapeError, Term

Rewrite: TypeAlias = Callable[[Term], Iterable[Term]]
"""Gives terms that are equal to one, or should be."""


@dataclass(frozen=True)
class RewriteRule:
    """A function that rewrites terms of some operators.

    It may be optimistic, as about overflow: whatever comes of it is verified.
    """

    name: str
    """The function's name, which is shown as the way to a program."""
    operators: tuple[str, ...]
    """The operators at whose terms it is tried."""
    rewrite: Rewrite


RULES: dict[str, list[RewriteRule]] = {}
"""The rules by operator, in the order in which they were declared."""


def rule(*operators: str) -> Callable[[Rewrite], Rewrite]:
    """Declares a function as a rule for terms of these operators."""

    def declare(rewrite: Rewrite) -> Rewrite:
        declared = RewriteRule(rewrite.__name__.strip("_"), operators, rewrite)
        for operator in operators:
            RULES.setdefault(operator, []).append(declared)
        return rewrite

    return declare


def rewritten(term: Term) -> Iterator[tuple[str, Term]]:
    """Every term that a rule gives for `term` and that may stand in its place, with the rule's
    name."""
    for candidate in RULES.get(term.operator.name, ()):
        try:
            for equal in candidate.rewrite(term):
                # A weak result would take the type of what it meets, which need not be the type of
                # the term.
                if equal is not term and equal.dtype is not DType.WEAK and fits(equal, term):
                    yield candidate.name, equal
        # A rule need not check sizes: what cannot be built is no rewrite.
        except ShapeError:
            continue


def fits(replacement: Term, term: Term) -> bool:
    """Whether `replacement` has the shape and the element type of `term`."""
    return replacement.shape == term.shape and replacement.dtype is term.dtype
