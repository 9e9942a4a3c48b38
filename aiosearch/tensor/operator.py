"""What an operator declares: one place for its parameters, shape, meaning and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Any, Protocol, TypeAlias
from zlib import crc32

from .algebra import Algebra
from .errors import ShapeError, UnknownOperator
from .sizes import Dim, product, quotient
from .types import DType, Shape

Parameters: TypeAlias = dict[str, Any]


class ParameterKind(StrEnum):
    """What a parameter is: tells printers how to write it and evaluators how to shift it."""

    SIZE = "size"
    SHAPE = "shape"
    AXIS = "axis"
    AXES = "axes"
    PERMUTATION = "permutation"
    COUNT = "count"
    COUNTS = "counts"
    NUMBER = "number"
    WORD = "word"
    FLAG = "flag"
    DTYPE = "dtype"


@dataclass(frozen=True)
class OperatorParameter:
    name: str
    kind: ParameterKind
    default: Any = None
    required: bool = True


class Dimensions(Protocol):
    """How sizes are compared and divided: as numbers, or as unknowns yet to be found."""

    def same(self, a: Dim, b: Dim, why: str) -> Dim:
        """Demands that two sizes are one; raises ShapeError."""

    def over(self, a: Dim, b: Dim, why: str) -> Dim:
        """The exact quotient; raises ShapeError."""

    def ordered(self, dims: Sequence[Dim], why: str) -> tuple[Dim, ...]:
        """The same sizes; demands that each is at least the one before, the first at least zero."""

    def number(self, dim: Dim, why: str) -> int:
        """The number itself, where a rule counts with it; raises ShapeError for an unknown."""

    def value(self, dim: Dim) -> int:
        """A number to tell axes apart by."""


class Numbers:
    """Sizes are what they are; named ones are equal where they are for all values of the names."""

    def same(self, a: Dim, b: Dim, why: str) -> Dim:
        if a != b:
            raise ShapeError(f"{why}: {a} is not {b}")
        return a

    def over(self, a: Dim, b: Dim, why: str) -> Dim:
        found = quotient(a, b)
        if found is None:
            raise ShapeError(f"{why}: {b} does not divide {a}")
        return found

    def ordered(self, dims: Sequence[Dim], why: str) -> tuple[Dim, ...]:
        if any(self.value(b) < self.value(a) for a, b in pairwise((0, *dims))):
            raise ShapeError(f"{why}: {', '.join(map(str, dims))} is no rising order")
        return tuple(dims)

    def number(self, dim: Dim, why: str) -> int:
        if isinstance(dim, int):
            return dim
        raise ShapeError(f"{why}: {dim} is no known number")

    def value(self, dim: Dim) -> int:
        if isinstance(dim, int):
            return dim
        found = dim.at({name: _stand_in(name) for name in dim.names})
        assert isinstance(found, int)
        return found


@cache
def _stand_in(name: str) -> int:
    """A large number for a name: products and sums of such agree by no accident."""
    return (1 << 40) + crc32(name.encode())


NUMBERS = Numbers()

ShapeRule: TypeAlias = Callable[..., Shape]
Meaning: TypeAlias = Callable[..., Any]
TypeRule: TypeAlias = Callable[[Sequence[DType], Parameters], DType]


@dataclass(frozen=True)
class Operator:
    """One operator of the tensor language.

    `shape(dims, shapes, **parameters)` gives the result's shape or raises ShapeError;
    `meaning(algebra, *operands, **parameters)` says what it computes, for every evaluator;
    `flops(shapes, result, **parameters)` counts its arithmetic.
    """

    name: str
    arity: int | None
    shape: ShapeRule
    meaning: Meaning
    parameters: tuple[OperatorParameter, ...] = ()
    pointwise: bool = False
    commutative: bool = False
    truths: bool = False
    """Whether it takes truth values as they are, where all operands are of one type."""
    fractions: bool = False
    """Whether it may give fractions of whole numbers, and so takes none: cast them first."""
    flops: Callable[..., Dim] = lambda shapes, result, **_: product(result)
    dtype: TypeRule | None = None
    """How the result's element type follows from the operands'; by default all are one."""

    def __repr__(self) -> str:
        return self.name


OPERATORS: dict[str, Operator] = {}


def declare(operator: Operator) -> Operator:
    """Adds an operator to the language."""
    if operator.name in OPERATORS:
        raise ValueError(f"operator {operator.name} is declared twice")
    OPERATORS[operator.name] = operator
    return operator


def find(name: str) -> Operator:
    operator = OPERATORS.get(name)
    if operator is None:
        raise UnknownOperator(name)
    return operator


def broadcast_shapes(dims: Dimensions, shapes: Sequence[Shape]) -> Shape:
    """The shape of a pointwise result: equal ranks, axes of size one repeated, scalars anywhere."""
    result: Shape = ()
    for shape in shapes:
        if not shape:
            continue
        if not result:
            result = shape
            continue
        if len(shape) != len(result):
            raise ShapeError(f"operands of rank {len(result)} and {len(shape)}: reshape one first")
        result = tuple(
            one if two == 1 else two if one == 1 else dims.same(one, two, f"axis {axis}")
            for axis, (one, two) in enumerate(zip(result, shape, strict=True))
        )
    return result


def pointwise_shape(dims: Dimensions, shapes: Sequence[Shape], **_: Any) -> Shape:
    return broadcast_shapes(dims, shapes)


def axis_of(axis: int, rank: int) -> int:
    """A checked axis."""
    if not 0 <= axis < rank:
        raise ShapeError(f"axis {axis} of a tensor of rank {rank}")
    return axis


Group: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


def window_count(dims: Dimensions, size: Dim, window: Dim, stride: int, dilation: int) -> Dim:
    """How many windows there are along an axis; a window's size has to be a known number."""
    reach = (dims.number(window, "a window's size") - 1) * dilation + 1
    if stride < 1 or dilation < 1 or not 1 <= reach <= dims.value(size):
        raise ShapeError(f"windows of {reach} places, {stride} apart, over {size}")
    if stride == 1 and reach < dims.value(size):
        return size - (reach - 1)
    return (dims.number(size, "an axis with windows") - reach) // stride + 1


def regroup(dims: Dimensions, old: Shape, new: Shape) -> list[Group]:
    """Pairs the axes of a reshape: each group of old axes holds what a group of new ones holds.

    Groups are as small as can be; axes of size one stand alone, with nothing on the other side.
    Where there are no elements all axes are one group.
    """
    if 0 in old and 0 in new:
        return [(tuple(range(len(old))), tuple(range(len(new))))]
    groups: list[Group] = []
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and old[i] == 1:
            groups.append(((i,), ()))
            i += 1
            continue
        if j < len(new) and new[j] == 1:
            groups.append(((), (j,)))
            j += 1
            continue
        if i == len(old) or j == len(new):
            raise ShapeError(f"{_text(old)} has other elements than {_text(new)}")
        left, right = [i], [j]
        a, b = dims.value(old[i]), dims.value(new[j])
        i, j = i + 1, j + 1
        while a != b:
            if a < b and i < len(old):
                left.append(i)
                a *= dims.value(old[i])
                i += 1
            elif b < a and j < len(new):
                right.append(j)
                b *= dims.value(new[j])
                j += 1
            else:
                raise ShapeError(f"{_text(old)} has other elements than {_text(new)}")
        groups.append((tuple(left), tuple(right)))
    return groups


def _text(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


__all__ = [
    "NUMBERS",
    "OPERATORS",
    "Algebra",
    "Dimensions",
    "Numbers",
    "Operator",
    "OperatorParameter",
    "ParameterKind",
    "Parameters",
    "axis_of",
    "broadcast_shapes",
    "declare",
    "find",
    "pointwise_shape",
    "regroup",
    "window_count",
]
