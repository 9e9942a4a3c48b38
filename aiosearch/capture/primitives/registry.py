"""The registry of rules: which JAX primitive is read by which function.

    @reads("sqrt")
    def _sqrt(x: TracedValue, **params: object) -> TracedValue: ...

A rule takes the operands as `TracedValue`s and the parameters of the equation by name; those that
say nothing of values end in `params`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from ..errors import CaptureError
from ..values import TracedValue

Rule: TypeAlias = Callable[..., "TracedValue | Sequence[TracedValue]"]

RULES: dict[str, Rule] = {}

R = TypeVar("R", bound=Rule)


def reads(*primitives: str) -> Callable[[R], R]:
    """Declares the rule of some primitives."""

    def declare(rule: R) -> R:
        for primitive in primitives:
            RULES[primitive] = rule
        return rule

    return declare


def demand(fits: bool, reason: str) -> None:
    """Refuses a primitive that is used in a way the language cannot say: raises `CaptureError`."""
    if not fits:
        raise CaptureError("", reason)
