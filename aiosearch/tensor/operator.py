"""The declaration of an operator: one place for its parameters, shape rule, meaning and cost."""

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

ParameterValue: TypeAlias = Any
"""A parameter as its `ParameterKind` has it: a size, axes, a number, a word, a `DType`."""

Parameters: TypeAlias = dict[str, ParameterValue]
"""Parameters of an operator by name."""


class ParameterKind(StrEnum):
    """The kind of a parameter: tells printers how to write it and `evaluate` how to shift it."""

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
    """A parameter that an operator takes, with its kind and default."""

    name: str
    kind: ParameterKind
    default: ParameterValue = None
    required: bool = True


class Dimensions(Protocol):
    """How shape rules compare and divide sizes: as `Numbers`, or as `Unknowns` to be solved for."""

    def same(self, a: Dim, b: Dim, why: str) -> Dim:
        """Demands that two sizes are equal; raises ShapeError with `why`."""

    def over(self, a: Dim, b: Dim, why: str) -> Dim:
        """The exact quotient; raises ShapeError."""

    def ordered(self, dims: Sequence[Dim], why: str) -> tuple[Dim, ...]:
        """Demands that each size is at least the one before, and the first at least zero."""

    def number(self, dim: Dim, why: str) -> int:
        """The number itself, where a rule counts with it; raises ShapeError for an unknown."""

    def value(self, dim: Dim) -> int:
        """A number to compare axes by."""


class Numbers:
    """The `Dimensions` in which named sizes are equal if they are for all values of the names."""

    def same(self, a: Dim, b: Dim, why: str) -> Dim:
        if a != b:
            raise ShapeError(f"{why}: {a} is not {b}")
        return a

    def over(self, a: Dim, b: Dim, why: str) -> Dim:
        exact = quotient(a, b)
        if exact is None:
            raise ShapeError(f"{why}: {b} does not divide {a}")
        return exact

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
        number = dim.at({name: _stand_in(name) for name in dim.names})
        assert isinstance(number, int)
        return number


@cache
def _stand_in(name: str) -> int:
    """A large number for a name, so that products and sums of names agree by no accident."""
    return (1 << 40) + crc32(name.encode())


NUMBERS = Numbers()
"""The `Dimensions` of ordinary programs."""

ShapeRule: TypeAlias = Callable[..., Shape]
Meaning: TypeAlias = Callable[..., Any]
TypeRule: TypeAlias = Callable[[Sequence[DType], Parameters], DType]


@dataclass(frozen=True)
class Operator:
    """An operator of the tensor language.

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
    """Whether it takes truth values as operands, where all operands are of one type."""
    fractions: bool = False
    """Whether integers would give it fractions, so that it takes none: cast them first."""
    flops: Callable[..., Dim] = lambda shapes, result, **_: product(result)
    dtype: TypeRule | None = None
    """The rule for the result's element type; by default it is that of the operands."""

    def __repr__(self) -> str:
        return self.name


OPERATORS: dict[str, Operator] = {}
"""All operators by name; `declare` adds to it."""


def declare(operator: Operator) -> Operator:
    """Adds an operator to `OPERATORS`."""
    if operator.name in OPERATORS:
        raise ValueError(f"operator {operator.name} is declared twice")
    OPERATORS[operator.name] = operator
    return operator


def find(name: str) -> Operator:
    """The operator of a name; raises UnknownOperator."""
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
            left if right == 1 else right if left == 1 else dims.same(left, right, f"axis {axis}")
            for axis, (left, right) in enumerate(zip(result, shape, strict=True))
        )
    return result


def pointwise_shape(dims: Dimensions, shapes: Sequence[Shape], **_: object) -> Shape:
    """The shape rule of pointwise operators: `broadcast_shapes`."""
    return broadcast_shapes(dims, shapes)


def axis_of(axis: int, rank: int) -> int:
    """`axis`, if a tensor of this rank has it; raises ShapeError."""
    if not 0 <= axis < rank:
        raise ShapeError(f"axis {axis} of a tensor of rank {rank}")
    return axis


Group: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Old axes and new axes of a reshape that hold the same elements."""


def window_count(dims: Dimensions, size: Dim, window: Dim, stride: int, dilation: int) -> Dim:
    """How many windows there are along an axis; a window's size has to be a known number."""
    reach = (dims.number(window, "a window's size") - 1) * dilation + 1
    if stride < 1 or dilation < 1 or not 1 <= reach <= dims.value(size):
        raise ShapeError(f"windows of {reach} places, {stride} apart, over {size}")
    # With stride 1 the count is a difference, which symbolic sizes can state; a larger stride needs
    # floor division.
    if stride == 1 and reach < dims.value(size):
        return size - (reach - 1)
    return (dims.number(size, "an axis with windows") - reach) // stride + 1


def regroup(dims: Dimensions, old: Shape, new: Shape) -> list[Group]:
    """Pairs the axes of a reshape: each group of old axes holds what a group of new ones holds.

    Groups are as small as can be; axes of size one stand alone, with nothing on the other side.
    Where there are no elements all axes are one group.
    """
    # Without elements, products on both sides are 0 and no finer grouping exists.
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
        # The smaller product takes in its next axis until both are equal: the finest common
        # grouping.
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
