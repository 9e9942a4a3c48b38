"""Expressions of a source, and what is written in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Binds(IntEnum):
    """How tightly an expression holds together."""

    COMPARISON = 1
    SUM = 2
    PRODUCT = 3
    MATRICES = 4
    """Python reads `@` as it does `*`, from the left: right operands of both have brackets."""
    SIGN = 5
    ATOM = 6


@dataclass(frozen=True, slots=True)
class Piece:
    """An expression."""

    text: str
    binds: Binds = Binds.ATOM

    def at(self, binds: Binds) -> str:
        """The text for a place that takes what binds at least so tightly."""
        return self.text if self.binds >= binds else f"({self.text})"

    @property
    def atom(self) -> str:
        return self.at(Binds.ATOM)


def number(value: Any, whole: bool) -> Piece:
    """A literal; written with a point unless it is whole and may be written so."""
    found = float(value)
    if math.isinf(found):
        return Piece("jnp.inf") if found > 0 else Piece("-jnp.inf", Binds.SIGN)
    text = str(int(found)) if whole and found == int(found) and abs(found) < 2**24 else repr(found)
    return Piece(text, Binds.SIGN if text.startswith("-") else Binds.ATOM)


def call(function: str, *arguments: str) -> Piece:
    return Piece(f"{function}({', '.join(arguments)})")


def listed(sizes: Sequence[Any]) -> str:
    return ", ".join(map(str, sizes))


def sized(sizes: Sequence[Any]) -> str:
    return f"({listed(sizes)}{',' if len(sizes) == 1 else ''})"


def axis_text(axes: Sequence[int], rank: int) -> str:
    """Axes as people count them: the last ones from the end."""
    if len(axes) == 1:
        (axis,) = axes
        return str(axis - rank if axis == rank - 1 else axis)
    return sized(axes)


# Pointwise operators
