"""Expressions: what an element is, a number, another buffer's element, a function of values.

`Apply(Operation.MULTIPLY, (BufferLoad(X, (i, k)), BufferLoad(W, (k, j))))` prints as `multiply(X[i,
k], W[k, j])`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ...tensor.types import DType
from .positions import Affine, LoopIndex, Position, indices


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array in row-major order: of the kernel's caller, or scratch that lasts as long as the
    kernel runs. It prints as `t0: f32[8, 64]`.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Constant:
    """A number; a float may be infinite."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class PositionValue:
    """A position, as a value: `value(8i + j)`."""

    position: Position

    def __str__(self) -> str:
        return f"value({self.position})"


@dataclass(frozen=True, slots=True)
class BufferLoad:
    """An element of `buffer`, as a value of its type widened to the working type: `X[i, j]`."""

    buffer: Buffer
    at: tuple[Position, ...]

    @property
    def moving(self) -> tuple[int, ...]:
        """The axes along which `at` moves; of the others the load reads the first place alone."""
        return tuple(axis for axis, position in enumerate(self.at) if position != Affine())

    def __str__(self) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self.at))}]"


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar function of values: `add(X[i], 1)`."""

    operation: Operation
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.operation}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Round:
    """`value` rounded to `dtype`, and widened again: to a half type, or to whole numbers."""

    value: Expression
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}({self.value})"


@dataclass(frozen=True, slots=True)
class BoundedValue:
    """`value` where every position is inside its limits, and `otherwise` elsewhere.

    Each is computed only where it counts: what it loads may lie outside of its buffer elsewhere.
    """

    limits: tuple[tuple[Position, int, int], ...]
    """Positions, each with the first place inside and the first place behind."""
    value: Expression
    otherwise: Expression

    def __str__(self) -> str:
        inside = " and ".join(f"{low} <= {at} < {high}" for at, low, high in self.limits)
        return f"({self.value} if {inside} else {self.otherwise})"


Expression: TypeAlias = Constant | PositionValue | BufferLoad | Apply | Round | BoundedValue


class Operation(StrEnum):
    """The scalar functions; truth values are one and zero."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    MAXIMUM = "maximum"
    """NaN where an operand is NaN, like jax's."""
    MINIMUM = "minimum"
    NEGATIVE = "negative"
    ABSOLUTE = "absolute"
    SQRT = "sqrt"
    EXP = "exp"
    LOG = "log"
    EXPM1 = "expm1"
    LOG1P = "log1p"
    TANH = "tanh"
    ERF = "erf"
    ERFC = "erfc"
    SIN = "sin"
    COS = "cos"
    FLOOR = "floor"
    ROUND = "round"
    """To the nearest whole number, halves to even."""
    POW = "pow"
    LGAMMA = "lgamma"
    DIGAMMA = "digamma"
    REM = "rem"
    """What is left of a quotient rounded towards zero; of whole numbers by zero, anything."""
    LESS = "less"
    LESS_EQUAL = "less_equal"
    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    SELECT = "select"
    """The second operand where the first is not zero, else the third."""


def walk(value: Expression) -> Iterator[Expression]:
    """`value` and all expressions in it, operands after what takes them; a shared one as often as
    it is met.
    """
    yield value
    match value:
        case Apply():
            for argument in value.arguments:
                yield from walk(argument)
        case Round():
            yield from walk(value.value)
        case BoundedValue():
            yield from walk(value.value)
            yield from walk(value.otherwise)


def places(value: Expression) -> Iterator[Position]:
    """Every position in the expression `value`."""
    for part in walk(value):
        match part:
            case PositionValue():
                yield part.position
            case BufferLoad():
                yield from part.at
            case BoundedValue():
                yield from (at for at, _, _ in part.limits)


def used_indices(value: Expression) -> Iterator[LoopIndex]:
    """The indices that `value` depends on; some more than once."""
    for place in places(value):
        yield from indices(place)
