"""Values of elements, with what they need to be real numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from .normal_form import Poly


class Need(StrEnum):
    """What an expression needs to be a real number."""

    NONZERO = "≠ 0"
    NONNEGATIVE = "≥ 0"
    REAL = "a real number"
    """Asked of a function whose domain is no other need."""
    FINITE = "finite"
    """Asked of infinity itself, so that only programs that both have it are compared."""
    LIMIT = "has a limit"
    """Asked of an operation on infinity that may be none, such as ∞ - ∞."""


Condition: TypeAlias = tuple[Need, Poly]


class Conditions:
    """Conditions by their text."""

    __slots__ = ("by_key",)

    def __init__(self, by_key: Mapping[str, Condition]) -> None:
        self.by_key = by_key

    def and_(self, other: Conditions) -> Conditions:
        if not other.by_key:
            return self
        if not self.by_key:
            return other
        return Conditions({**self.by_key, **other.by_key})

    def only(self, need: Need) -> Conditions:
        return Conditions({k: v for k, v in self.by_key.items() if v[0] is need})

    def common(self, other: Conditions) -> Conditions:
        return Conditions({k: v for k, v in self.by_key.items() if k in other.by_key})


NOTHING = Conditions({})


@dataclass(frozen=True, slots=True)
class Scalar:
    """The value of an element, with what it needs: certainly, and perhaps."""

    poly: Poly
    sure: Conditions = NOTHING
    """It is a real number only where these hold."""
    demands: Conditions = NOTHING
    """It is a real number wherever these hold; of a choice, those of both branches."""


def met(*operands: Scalar) -> tuple[Conditions, Conditions]:
    sure, demands = NOTHING, NOTHING
    for operand in operands:
        sure, demands = sure.and_(operand.sure), demands.and_(operand.demands)
    return sure, demands


def needing(scalar: Scalar, need: Need, poly: Poly) -> Scalar:
    """The same value, under one more condition."""
    condition = Conditions({f"{need}{poly.key({})}": (need, poly)})
    return Scalar(scalar.poly, scalar.sure.and_(condition), scalar.demands.and_(condition))
