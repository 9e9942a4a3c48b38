"""A program as a graph: what the elements of each tensor in it are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..tensor.mugraph import Kernel
from ..tensor.types import DType
from .ir import Buffer, Fold, Operation
from .moves import Move


@dataclass(frozen=True, slots=True)
class Given:
    """An input."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Ramp:
    """The index along an axis."""

    axis: int


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A scalar function; operands' axes of size one, and operands without axes, are repeated."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class Product:
    """What a matmul adds up: pointwise, and worth preparing the operands for."""


@dataclass(frozen=True, slots=True)
class Cast:
    """The same value in the element type that the value has."""


@dataclass(frozen=True, slots=True)
class Padding:
    axis: int
    low: int
    fill: float


@dataclass(frozen=True, slots=True)
class Joining:
    """One after the other along an axis."""

    axis: int


@dataclass(frozen=True, slots=True)
class Folding:
    """Over axes, which stay with size one."""

    fold: Fold
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a custom kernel stores."""


What: TypeAlias = (
    Given | Number | Ramp | Pointwise | Product | Cast | Padding | Joining | Folding | Kept | Move
)


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """What a tensor is made of, made by `Values`, so that equal ones are one."""

    what: What
    arguments: tuple[Value, ...]
    shape: tuple[int, ...]
    dtype: DType
    owner: Kernel | None
    """The custom kernel that it belongs to."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def below(roots: Sequence[Value]) -> Iterator[Value]:
    """Every value once, operands first."""
    seen: set[Value] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        value, ready = stack.pop()
        if value in seen:
            continue
        if ready:
            seen.add(value)
            yield value
            continue
        stack.append((value, True))
        stack.extend((one, False) for one in reversed(value.arguments))
