"""An algebra whose values remember how they came, instead of being computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from ..tensor.algebra import Function
from ..tensor.mugraph import Kernel
from ..tensor.sizes import Dim
from ..tensor.types import DType
from .ir import Fold, Operation
from .moves import Broadcast, Diagonal, Move, Reshape, Slice, Transpose, Windows
from .values import Cast, Folding, Joining, Number, Padding, Pointwise, Product, Ramp, Value, What

_COMPARISONS = {
    "<": Operation.LESS,
    "<=": Operation.LESS_EQUAL,
    "==": Operation.EQUAL,
    "!=": Operation.NOT_EQUAL,
}


@dataclass
class Values:
    """The algebra. Equal values are one; what is made belongs to `owner`."""

    owner: Kernel | None = None
    _made: dict[tuple[object, ...], Value] = field(default_factory=dict)

    def make(
        self, what: What, arguments: Sequence[Value], shape: Sequence[Dim], dtype: DType
    ) -> Value:
        """The one value of this description."""
        sizes = tuple(map(known, shape))
        key = (what, *map(id, arguments), sizes, dtype, id(self.owner))
        if key not in self._made:
            self._made[key] = Value(what, tuple(arguments), sizes, dtype, self.owner)
        return self._made[key]

    def complementing(self) -> Values:
        """The same algebra, where what stands for the negative of a whole number is its complement.

        It turns the order of whole numbers as well, and the least of them, which has no negative,
        has one.
        """
        return _Complements(self.owner, self._made)

    def constant(self, value: Fraction | float) -> Value:
        return self.make(Number(float(value)), (), (), DType.WEAK)

    def iota(self, shape: Sequence[Dim], axis: int) -> Value:
        return self.make(Ramp(axis), (), shape, DType.I32)

    def add(self, x: Value, y: Value) -> Value:
        return self._pointwise(Operation.ADD, x, y)

    def subtract(self, x: Value, y: Value) -> Value:
        return self._pointwise(Operation.SUBTRACT, x, y)

    def multiply(self, x: Value, y: Value) -> Value:
        return self._pointwise(Operation.MULTIPLY, x, y)

    def divide(self, x: Value, y: Value) -> Value:
        return self._pointwise(Operation.DIVIDE, x, y)

    def negative(self, x: Value) -> Value:
        return self._pointwise(Operation.NEGATIVE, x)

    def exp(self, x: Value) -> Value:
        return self._pointwise(Operation.EXP, x)

    def log(self, x: Value) -> Value:
        return self._pointwise(Operation.LOG, x)

    def sqrt(self, x: Value) -> Value:
        return self._pointwise(Operation.SQRT, x)

    def absolute(self, x: Value) -> Value:
        return self._pointwise(Operation.ABSOLUTE, x)

    def maximum(self, x: Value, y: Value) -> Value:
        return self._pointwise(Operation.MAXIMUM, x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        return self._pointwise(Operation.MINIMUM, x, y)

    def compare(self, how: str, x: Value, y: Value) -> Value:
        return self._pointwise(_COMPARISONS[how], x, y, dtype=DType.BOOL)

    def select(self, where: Value, x: Value, y: Value) -> Value:
        return self._pointwise(Operation.SELECT, where, x, y, dtype=_met((x, y)))

    def function(self, function: Function, *arguments: Value) -> Value:
        return self._pointwise(Operation(function.name), *arguments)

    def sum(self, x: Value, axes: Sequence[int]) -> Value:
        return self._folded(Fold.SUM, x, axes)

    def largest(self, x: Value, axes: Sequence[int]) -> Value:
        return self._folded(Fold.MAX, x, axes)

    def matmul(self, x: Value, y: Value) -> Value:
        lead, rows, inner, columns = x.shape[:-2], x.shape[-2], x.shape[-1], y.shape[-1]
        axes = range(len(y.shape))
        turned = self.transpose(y, (*axes[:-2], axes[-1], axes[-2]))
        left = self.reshape(x, (*lead, rows, 1, inner))
        right = self.reshape(turned, (*y.shape[:-2], 1, columns, inner))
        product = self.make(Product(), (left, right), _wide((left, right)), _met((x, y)))
        folded = self.sum(product, (len(product.shape) - 1,))
        return self.reshape(folded, folded.shape[:-1])

    def size(self, x: Value, axis: int) -> Value:
        return self.constant(x.shape[axis])

    def broadcast(self, x: Value, shape: Sequence[Dim]) -> Value:
        return self._moved(Broadcast(x.shape), x, shape)

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        return self._moved(Reshape(x.shape, tuple(map(known, shape))), x, shape)

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return self._moved(Transpose(tuple(axes)), x, [x.shape[axis] for axis in axes])

    def slice(self, x: Value, axis: int, start: Dim, stop: Dim, step: int) -> Value:
        count = len(range(known(start), known(stop), step))
        return self._moved(Slice(axis, known(start), step), x, _with(x.shape, axis, count))

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        if len(xs) == 1:
            return xs[0]
        count = sum(x.shape[axis] for x in xs)
        return self.make(Joining(axis), xs, _with(xs[0].shape, axis, count), _met(xs))

    def pad(self, x: Value, axis: int, low: Dim, high: Dim, value: Fraction) -> Value:
        shape = _with(x.shape, axis, known(low) + x.shape[axis] + known(high))
        return self.make(Padding(axis, known(low), float(value)), (x,), shape, x.dtype)

    def diagonal(self, x: Value) -> Value:
        return self._moved(Diagonal(), x, x.shape[:-1])

    def windows(self, x: Value, axis: int, window: Dim, stride: int, dilation: int) -> Value:
        reach = (known(window) - 1) * dilation + 1
        count = len(range(0, x.shape[axis] - reach + 1, stride))
        shape = (*x.shape[:axis], count, window, *x.shape[axis + 1 :])
        return self._moved(Windows(axis, stride, dilation), x, shape)

    def cast(self, x: Value, dtype: str) -> Value:
        if x.dtype == dtype:
            return x
        return self.make(Cast(), (x,), x.shape, DType(dtype))

    def shape(self, x: Value) -> tuple[Dim, ...]:
        return x.shape

    def _pointwise(self, operation: Operation, *xs: Value, dtype: DType | None = None) -> Value:
        return self.make(Pointwise(operation), xs, _wide(xs), dtype or _met(xs))

    def _moved(self, move: Move, x: Value, shape: Sequence[Dim]) -> Value:
        moved = tuple(shape) != x.shape or isinstance(move, Transpose | Slice)
        return self.make(move, (x,), shape, x.dtype) if moved else x

    def _folded(self, fold: Fold, x: Value, axes: Sequence[int]) -> Value:
        several = tuple(axis for axis in axes if x.shape[axis] != 1)
        shape = [1 if axis in several else size for axis, size in enumerate(x.shape)]
        if not several:
            return x
        if 0 in (x.shape[axis] for axis in several):
            return self.broadcast(self.make(Number(fold.neutral), (), (), x.dtype), shape)
        return self.make(Folding(fold, several), (x,), shape, x.dtype)


class _Complements(Values):
    def negative(self, x: Value) -> Value:
        return self.subtract(self.constant(-1), x)


def known(size: Dim) -> int:
    if not isinstance(size, int):
        raise TypeError(f"size {size} is not known: code is made for numbers")
    return size


def _with(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _wide(xs: Sequence[Value]) -> tuple[int, ...]:
    """The shape that operands meet in."""
    shapes = [x.shape for x in xs if x.shape]
    if not shapes:
        return ()
    return tuple(
        next((size for size in sizes if size != 1), 1) for sizes in zip(*shapes, strict=True)
    )


def _met(xs: Sequence[Value]) -> DType:
    return next((x.dtype for x in xs if x.dtype is not DType.WEAK), DType.WEAK)
