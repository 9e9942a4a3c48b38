"""What an element is: a number, another buffer's element, a function of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ...tensor.types import DType
from .positions import Affine, LoopIndex, Position, indices


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array in row-major order: of the kernel's caller, or only for as long as it runs."""

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
    """A position, as a value."""

    position: Position

    def __str__(self) -> str:
        return f"value({self.position})"


@dataclass(frozen=True, slots=True)
class BufferLoad:
    """An element of a buffer, as a value of the buffer's type widened to the working type."""

    buffer: Buffer
    at: tuple[Position, ...]

    @property
    def moving(self) -> tuple[int, ...]:
        """The axes along which it moves; of the others it reads the first place alone."""
        return tuple(axis for axis, position in enumerate(self.at) if position != Affine())

    def __str__(self) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self.at))}]"


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar function of values."""

    operation: Operation
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.operation}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Round:
    """A value rounded to an element type, and widened again: to a half type, to whole numbers."""

    value: Expression
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}({self.value})"


@dataclass(frozen=True, slots=True)
class BoundedValue:
    """A value where every position is inside its limits, and another one elsewhere.

    Each is computed only where it counts: what it loads may lie outside of its buffer elsewhere.
    """

    limits: tuple[tuple[Position, int, int], ...]
    """Positions, each with the first place inside and the first one behind."""
    value: Expression
    otherwise: Expression

    def __str__(self) -> str:
        inside = " and ".join(f"{low} <= {at} < {high}" for at, low, high in self.limits)
        return f"({self.value} if {inside} else {self.otherwise})"


Expression: TypeAlias = Constant | PositionValue | BufferLoad | Apply | Round | BoundedValue


class Operation(StrEnum):
    """The scalar functions. Truth values are one and zero."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    MAXIMUM = "maximum"
    """Not a number where an operand is none, like jax's."""
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
    LESS = "less"
    LESS_EQUAL = "less_equal"
    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    SELECT = "select"
    """The second where the first is not zero, else the third."""


def walk(value: Expression) -> Iterator[Expression]:
    """An expression and all in it, operands after what takes them; shared ones as often as met."""
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
    """Every position in an expression."""
    for one in walk(value):
        match one:
            case PositionValue():
                yield one.position
            case BufferLoad():
                yield from one.at
            case BoundedValue():
                yield from (at for at, _, _ in one.limits)


def used_indices(value: Expression) -> Iterator[LoopIndex]:
    """The indices that a value depends on; some more than once."""
    for place in places(value):
        yield from indices(place)
