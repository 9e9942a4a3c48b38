"""What instructions give and take, as LLVM IR names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Value:
    """What an instruction gave: its name, and its type by element and lanes."""

    text: str
    scalar: str
    lanes: int = 1

    @property
    def type(self) -> str:
        return typed(self.scalar, self.lanes)

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


Whole: TypeAlias = Value | int
"""A whole number: known now, or an `i64` when it runs."""


def typed(scalar: str, lanes: int) -> str:
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def suffix(scalar: str, lanes: int) -> str:
    """The type as it stands in the names of intrinsics: `v8f32`."""
    short = {"float": "f32", "double": "f64"}.get(scalar, scalar)
    return short if lanes == 1 else f"v{lanes}{short}"


def splat(scalar: str, text: str, lanes: int) -> str:
    """A constant with the same in every lane."""
    return f"<{', '.join([f'{scalar} {text}'] * lanes)}>"


def i64(value: Whole) -> Value:
    return value if isinstance(value, Value) else Value(str(value), "i64")
