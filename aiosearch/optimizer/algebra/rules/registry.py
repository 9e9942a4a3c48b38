"""`Rule` and the registry of rules: a rewrite from a term to equal ones, by operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ....tensor import DType, ShapeError, Term

Rewrite: TypeAlias = Callable[[Term], Iterable[Term]]


@dataclass(frozen=True)
class RewriteRule:
    """Rules may be optimistic: whatever comes of them is verified."""

    name: str
    operators: tuple[str, ...]
    """The operators at whose terms it is tried."""
    rewrite: Rewrite


RULES: dict[str, list[RewriteRule]] = {}
"""By operator."""


def rule(*operators: str) -> Callable[[Rewrite], Rewrite]:
    """Declares a function as a rule for terms of these operators."""

    def declare(rewrite: Rewrite) -> Rewrite:
        declared = RewriteRule(rewrite.__name__.strip("_"), operators, rewrite)
        for operator in operators:
            RULES.setdefault(operator, []).append(declared)
        return rewrite

    return declare


def rewritten(term: Term) -> Iterator[tuple[str, Term]]:
    """Every equal term that a rule gives, and the rule's name."""
    for one in RULES.get(term.operator.name, ()):
        try:
            for found in one.rewrite(term):
                if found is not term and found.dtype is not DType.WEAK and fits(found, term):
                    yield one.name, found
        except ShapeError:
            continue


def fits(found: Term, term: Term) -> bool:
    """Whether one may stand where the other does."""
    return found.shape == term.shape and found.dtype is term.dtype
