"""Values of elements, with the conditions under which they are real numbers.

`div(x, y)` has the value x·y^-1 under the condition that y is not zero (`Need.NONZERO`). A
candidate is accepted only if each of its demands is certain in the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from .normal_form import Poly


class Need(StrEnum):
    """A requirement for an expression to be a real number."""

    NONZERO = "≠ 0"
    """Asked of divisors and of arguments of logarithms."""
    NONNEGATIVE = "≥ 0"
    """Asked of radicands and of arguments of logarithms."""
    REAL = "a real number"
    """Asked of a function whose domain is no other need."""
    FINITE = "finite"
    """Asked of infinity itself, so that only programs that both have it are compared."""
    LIMIT = "has a limit"
    """Asked of an operation on infinity that may be none, such as ∞ - ∞."""


Condition: TypeAlias = tuple[Need, Poly]
"""A `Need` and the expression that it is about."""


class Conditions:
    """A set of `Condition`, each by its text. Immutable."""

    __slots__ = ("by_key",)

    def __init__(self, by_key: Mapping[str, Condition]) -> None:
        self.by_key = by_key

    def and_(self, other: Conditions) -> Conditions:
        """The union of both sets."""
        if not other.by_key:
            return self
        if not self.by_key:
            return other
        return Conditions({**self.by_key, **other.by_key})

    def only(self, need: Need) -> Conditions:
        """The conditions of one kind."""
        return Conditions({k: v for k, v in self.by_key.items() if v[0] is need})

    def common(self, other: Conditions) -> Conditions:
        """The conditions that both sets hold."""
        return Conditions({k: v for k, v in self.by_key.items() if k in other.by_key})


NOTHING = Conditions({})
"""No condition."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """The value of an element, and its conditions: those certain, and those demanded."""

    poly: Poly
    sure: Conditions = NOTHING
    """The value is a real number only where these hold; of a `select`, what both branches need."""
    demands: Conditions = NOTHING
    """The value is a real number wherever these hold; of a `select`, those of both branches."""


def met(*operands: Scalar) -> tuple[Conditions, Conditions]:
    """The conditions of all `operands` together: sure, and demanded."""
    sure, demands = NOTHING, NOTHING
    for operand in operands:
        sure, demands = sure.and_(operand.sure), demands.and_(operand.demands)
    return sure, demands


def needing(scalar: Scalar, need: Need, poly: Poly) -> Scalar:
    """The value of `scalar` under one more condition."""
    condition = Conditions({f"{need}{poly.key({})}": (need, poly)})
    return Scalar(scalar.poly, scalar.sure.and_(condition), scalar.demands.and_(condition))
