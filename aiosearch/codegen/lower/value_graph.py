"""The value graph of a program, and the algebra that builds it by evaluating the program
symbolically.

Problem: operators are not translated one by one, or every slice and transpose would be a copy.
Evaluating the program with `ValueAlgebra`, whose values record how they came about in place of
elements, makes the operators a graph of few kinds of definitions.

Worked example: `matmul(X, W)` becomes a `Reshape` of X to [rows, 1, inner], a `Transpose` and a
`Reshape` of W to [1, columns, inner], their `MatmulProduct`, and a `ReductionValue` of SUM over the
last axis. A mean is such a sum, divided by a `LiteralValue`.

Invariant: equal descriptions are one object (`ValueAlgebra.make`), so a value that two operators
need is seen to be shared. A value knows the custom kernel it belongs to, its `owner`, and is not
shared with another kernel.

Cost: linear in the operators.

See docs/why/kernels.md, "The tile IR".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from ...tensor.algebra import Function
from ...tensor.errors import TensorError
from ...tensor.mugraph import Kernel
from ...tensor.operators.indexing import (
    argmax_by_comparison,
    cumulative_by_comparison,
    scatter_add_by_comparison,
    take_by_comparison,
)
from ...tensor.sizes import Dim
from ...tensor.types import DType
from ..ir import Buffer, Operation, ReductionKind
from ..ir.index_maps import Broadcast, Diagonal, Move, Reshape, Slice, Transpose, Windows

MOST_COMPARED = 32
"""Places of an axis that a kernel compares each of several indices with, at most: it has no other
way to read or add at a computed place, nor to begin a sum anew."""


class LoweringError(TensorError):
    """A program that no kernel of ours computes; the message says what of it."""


@dataclass(frozen=True, slots=True)
class InputValue:
    """An input of the program."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """A number."""

    value: float


@dataclass(frozen=True, slots=True)
class Ramp:
    """The position along `axis`."""

    axis: int


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A scalar function; operands' axes of size one, and operands without axes, are repeated."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class MatmulProduct:
    """What a matmul adds up: pointwise, and worth preparing the operands for."""


@dataclass(frozen=True, slots=True)
class Cast:
    """The argument in the element type that the value has."""


@dataclass(frozen=True, slots=True)
class Padding:
    """The argument with `fill` around it along `axis`; `low` elements are before it."""

    axis: int
    low: int
    fill: float


@dataclass(frozen=True, slots=True)
class Concatenation:
    """The arguments one after the other along `axis`."""

    axis: int


@dataclass(frozen=True, slots=True)
class ReductionValue:
    """A reduction over `axes`, which stay with size one."""

    reduction: ReductionKind
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredValue:
    """What a custom kernel stores."""


ValueDefinition: TypeAlias = (
    InputValue
    | LiteralValue
    | Ramp
    | Pointwise
    | MatmulProduct
    | Cast
    | Padding
    | Concatenation
    | ReductionValue
    | StoredValue
    | Move
)
"""How a value comes about from its arguments."""


@dataclass(frozen=True, eq=False, slots=True)
class TensorValue:
    """A tensor by its definition; `ValueAlgebra` makes equal ones one object, so they compare by
    identity.
    """

    what: ValueDefinition
    arguments: tuple[TensorValue, ...]
    shape: tuple[int, ...]
    dtype: DType
    owner: Kernel | None
    """The custom kernel that the value belongs to."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def values_below(roots: Sequence[TensorValue]) -> Iterator[TensorValue]:
    """Every value that `roots` are made of, once, operands first."""
    seen: set[TensorValue] = set()
    # A stack in place of recursion: programs may be thousands of operators deep.
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
        stack.extend((argument, False) for argument in reversed(value.arguments))


_COMPARISONS = {
    "<": Operation.LESS,
    "<=": Operation.LESS_EQUAL,
    "==": Operation.EQUAL,
    "!=": Operation.NOT_EQUAL,
}


@dataclass
class ValueAlgebra:
    """The algebra whose values are `TensorValue`s; what is made belongs to `owner`."""

    owner: Kernel | None = None
    _values: dict[tuple[object, ...], TensorValue] = field(default_factory=dict)

    def make(
        self,
        what: ValueDefinition,
        arguments: Sequence[TensorValue],
        shape: Sequence[Dim],
        dtype: DType,
    ) -> TensorValue:
        """The one value of this description."""
        sizes = tuple(map(known_shape, shape))
        # Arguments are unique objects that the table keeps alive, so their ids name them; comparing
        # them by content would be quadratic in the depth.
        key = (what, *map(id, arguments), sizes, dtype, id(self.owner))
        if key not in self._values:
            self._values[key] = TensorValue(what, tuple(arguments), sizes, dtype, self.owner)
        return self._values[key]

    def complementing(self) -> ValueAlgebra:
        """This algebra, where the negative of a whole number is its complement `-1 - x`.

        That reverses the order of whole numbers as well, and the least of them, which has no
        negative in 32 bits, has a complement. So `min(x)` is `-1 - max(-1 - x)`.
        """
        return _ComplementAlgebra(self.owner, self._values)

    def constant(self, value: Fraction | float) -> TensorValue:
        return self.make(LiteralValue(float(value)), (), (), DType.WEAK)

    def iota(self, shape: Sequence[Dim], axis: int) -> TensorValue:
        return self.make(Ramp(axis), (), shape, DType.I32)

    def add(self, x: TensorValue, y: TensorValue) -> TensorValue:
        return self._pointwise(Operation.ADD, x, y)

    def subtract(self, x: TensorValue, y: TensorValue) -> TensorValue:
        return self._pointwise(Operation.SUBTRACT, x, y)

    def multiply(self, x: TensorValue, y: TensorValue) -> TensorValue:
        return self._pointwise(Operation.MULTIPLY, x, y)

    def divide(self, x: TensorValue, y: TensorValue) -> TensorValue:
        return self._pointwise(Operation.DIVIDE, x, y)

    def negative(self, x: TensorValue) -> TensorValue:
        return self._pointwise(Operation.NEGATIVE, x)

    def exp(self, x: TensorValue) -> TensorValue:
        return self._pointwise(Operation.EXP, x)

    def log(self, x: TensorValue) -> TensorValue:
        return self._pointwise(Operation.LOG, x)

    def sqrt(self, x: TensorValue) -> TensorValue:
        return self._pointwise(Operation.SQRT, x)

    def absolute(self, x: TensorValue) -> TensorValue:
        return self._pointwise(Operation.ABSOLUTE, x)

    def maximum(self, x: TensorValue, y: TensorValue) -> TensorValue:
        return self._pointwise(Operation.MAXIMUM, x, y)

    def minimum(self, x: TensorValue, y: TensorValue) -> TensorValue:
        return self._pointwise(Operation.MINIMUM, x, y)

    def compare(self, how: str, x: TensorValue, y: TensorValue) -> TensorValue:
        return self._pointwise(_COMPARISONS[how], x, y, dtype=DType.BOOL)

    def select(self, where: TensorValue, x: TensorValue, y: TensorValue) -> TensorValue:
        return self._pointwise(Operation.SELECT, where, x, y, dtype=_broadcast_shape((x, y)))

    def function(self, function: Function, *arguments: TensorValue) -> TensorValue:
        # Members of an enumeration by value, as there is no other table of names.
        if function.name not in Operation.__members__.values():
            raise LoweringError(f"no kernel computes {function.name}")
        return self._pointwise(Operation(function.name), *arguments)

    def sum(self, x: TensorValue, axes: Sequence[int]) -> TensorValue:
        return self._reduced(ReductionKind.SUM, x, axes)

    def largest(self, x: TensorValue, axes: Sequence[int]) -> TensorValue:
        return self._reduced(ReductionKind.MAX, x, axes)

    def matmul(self, x: TensorValue, y: TensorValue) -> TensorValue:
        lead, rows, inner, columns = x.shape[:-2], x.shape[-2], x.shape[-1], y.shape[-1]
        axes = range(len(y.shape))
        transposed = self.transpose(y, (*axes[:-2], axes[-1], axes[-2]))
        # Both operands get the reduced index last, so the product is pointwise on [rows, columns,
        # inner]: all that is special about a matmul is then the hint that `MatmulProduct` gives.
        left = self.reshape(x, (*lead, rows, 1, inner))
        right = self.reshape(transposed, (*y.shape[:-2], 1, columns, inner))
        product = self.make(
            MatmulProduct(), (left, right), _common_rank((left, right)), _broadcast_shape((x, y))
        )
        folded = self.sum(product, (len(product.shape) - 1,))
        return self.reshape(folded, folded.shape[:-1])

    def take(self, x: TensorValue, indices: TensorValue, axis: int) -> TensorValue:
        """By comparison: a sum over the axis, which is read once for a single index."""
        _demand_few(x.shape[axis], indices.shape[axis])
        return take_by_comparison(self, x, indices, axis)

    def scatter_add(
        self, x: TensorValue, indices: TensorValue, updates: TensorValue, axis: int
    ) -> TensorValue:
        _demand_few(x.shape[axis], indices.shape[axis])
        return scatter_add_by_comparison(self, x, indices, updates, axis)

    def argmax(self, x: TensorValue, axis: int) -> TensorValue:
        return argmax_by_comparison(self, x, axis)

    def cumulative(self, x: TensorValue, axis: int, reduction: str, reverse: bool) -> TensorValue:
        _demand_few(x.shape[axis], x.shape[axis])
        return cumulative_by_comparison(self, x, axis, reduction, reverse)

    def size(self, x: TensorValue, axis: int) -> TensorValue:
        return self.constant(x.shape[axis])

    def broadcast(self, x: TensorValue, shape: Sequence[Dim]) -> TensorValue:
        return self._moved(Broadcast(x.shape), x, shape)

    def reshape(self, x: TensorValue, shape: Sequence[Dim]) -> TensorValue:
        return self._moved(Reshape(x.shape, tuple(map(known_shape, shape))), x, shape)

    def transpose(self, x: TensorValue, axes: Sequence[int]) -> TensorValue:
        return self._moved(Transpose(tuple(axes)), x, [x.shape[axis] for axis in axes])

    def slice(self, x: TensorValue, axis: int, start: Dim, stop: Dim, step: int) -> TensorValue:
        count = len(range(known_shape(start), known_shape(stop), step))
        return self._moved(
            Slice(axis, known_shape(start), step), x, _with_axis(x.shape, axis, count)
        )

    def concatenate(self, xs: Sequence[TensorValue], axis: int) -> TensorValue:
        if len(xs) == 1:
            return xs[0]
        count = sum(x.shape[axis] for x in xs)
        return self.make(
            Concatenation(axis), xs, _with_axis(xs[0].shape, axis, count), _broadcast_shape(xs)
        )

    def pad(self, x: TensorValue, axis: int, low: Dim, high: Dim, value: Fraction) -> TensorValue:
        shape = _with_axis(x.shape, axis, known_shape(low) + x.shape[axis] + known_shape(high))
        return self.make(Padding(axis, known_shape(low), float(value)), (x,), shape, x.dtype)

    def diagonal(self, x: TensorValue) -> TensorValue:
        return self._moved(Diagonal(), x, x.shape[:-1])

    def windows(
        self, x: TensorValue, axis: int, window: Dim, stride: int, dilation: int
    ) -> TensorValue:
        reach = (known_shape(window) - 1) * dilation + 1
        # As many windows as fit whole: the last begins at most `reach` elements before the end.
        count = len(range(0, x.shape[axis] - reach + 1, stride))
        shape = (*x.shape[:axis], count, window, *x.shape[axis + 1 :])
        return self._moved(Windows(axis, stride, dilation), x, shape)

    def cast(self, x: TensorValue, dtype: str) -> TensorValue:
        if x.dtype == dtype:
            return x
        return self.make(Cast(), (x,), x.shape, DType(dtype))

    def shape(self, x: TensorValue) -> tuple[Dim, ...]:
        return x.shape

    def _pointwise(
        self, operation: Operation, *xs: TensorValue, dtype: DType | None = None
    ) -> TensorValue:
        return self.make(Pointwise(operation), xs, _common_rank(xs), dtype or _broadcast_shape(xs))

    def _moved(self, move: Move, x: TensorValue, shape: Sequence[Dim]) -> TensorValue:
        # A transposition of a square and a slice of full length keep the shape and still move
        # elements; a reshape or broadcast to the same shape does not.
        moved = tuple(shape) != x.shape or isinstance(move, Transpose | Slice)
        return self.make(move, (x,), shape, x.dtype) if moved else x

    def _reduced(
        self, reduction: ReductionKind, x: TensorValue, axes: Sequence[int]
    ) -> TensorValue:
        # A reduction over a single element is that element.
        several = tuple(axis for axis in axes if x.shape[axis] != 1)
        shape = [1 if axis in several else size for axis, size in enumerate(x.shape)]
        if not several:
            return x
        # A reduction over nothing is its neutral element, which no stage has to compute.
        if 0 in (x.shape[axis] for axis in several):
            return self.broadcast(
                self.make(LiteralValue(reduction.neutral), (), (), x.dtype), shape
            )
        return self.make(ReductionValue(reduction, several), (x,), shape, x.dtype)


class _ComplementAlgebra(ValueAlgebra):
    """The algebra in which `negative` of a whole number is its complement."""

    def negative(self, x: TensorValue) -> TensorValue:
        return self.subtract(self.constant(-1), x)


def _demand_few(places: int, indices: int) -> None:
    """Refuses to compare many indices with many places."""
    if indices > 1 and places > MOST_COMPARED:
        raise LoweringError(f"no kernel goes through {places} places for each of {indices}")


def known_shape(size: Dim) -> int:
    """`size` as a number; raises TypeError where it has names."""
    if not isinstance(size, int):
        raise TypeError(f"size {size} is not known: code is made for numbers")
    return size


def _with_axis(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    """`shape` with another size along `axis`."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def _common_rank(xs: Sequence[TensorValue]) -> tuple[int, ...]:
    """The shape that operands meet in."""
    shapes = [x.shape for x in xs if x.shape]
    if not shapes:
        return ()
    return tuple(
        next((size for size in sizes if size != 1), 1) for sizes in zip(*shapes, strict=True)
    )


def _broadcast_shape(xs: Sequence[TensorValue]) -> DType:
    """The element type of what operands give: the first that is not WEAK."""
    return next((x.dtype for x in xs if x.dtype is not DType.WEAK), DType.WEAK)
