"""The `Algebra` that evaluates a tensor program on arrays of field elements.

`evaluate(program, Fields(ExtensionField(7)), inputs)` computes every operator exactly, modulo 7:
`add(5, 4)` is 2, `div(1, 3)` is 5 because 3·5 = 15 = 1. An element is an `int` until a program
takes an exponential, a root or a logarithm of it; from there on it is an `ExponentialSum`, and the
array holds objects of both kinds.

Invariant: every `int` in an array is reduced, 0 <= n < prime, so that `==` on elements is equality
in the field. Cost: one Python operation for each element, and as many as there are terms for a sum
of exponentials, which is why programs are first brought to a small shape by `generalise`. See
docs/why/verdicts.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ...tensor.algebra import Function
from ...tensor.floats import Array, Floats, Number
from ...tensor.operators.indexing import (
    argmax_by_comparison,
    cumulative_by_comparison,
)
from ...tensor.types import DType
from .extension_field import ExponentialSum, ExtensionField, FieldObstacle, Value
from .scalar_functions import Scalars

MOST_PRODUCTS = 1 << 22
"""Of elements and places: each is a number of Python's, some hundred bytes."""


class Fields(Floats):
    """The `Algebra` of arrays of field elements; data movement is inherited from `Floats`."""

    def __init__(self, field: ExtensionField, strict: bool = False) -> None:
        """With `strict`, what is undefined in the original is asked of a candidate too."""
        super().__init__()
        self.field = field
        self.scalars = Scalars(field, strict)

    def constant(self, value: Fraction | float) -> Array:
        """A rational number as numerator times inverse denominator.

        Infinity is a symbol of `Scalars`.
        """
        if not isinstance(value, Fraction):
            return array(self.scalars.infinity(negative=value < 0))
        return array(self.scalars.constants.element(value))

    def iota(self, shape: Sequence[Number], axis: int) -> Array:
        column = [-1 if dimension == axis else 1 for dimension in range(len(shape))]
        # Positions are taken modulo the prime: two of one axis are equal only where it is longer
        # than that.
        index = np.array([n % self.field.prime for n in range(shape[axis])], dtype=object)
        return np.broadcast_to(index.reshape(column), shape)

    def add(self, x: Array, y: Array) -> Array:
        return array((x + y) % self.field.prime)

    def subtract(self, x: Array, y: Array) -> Array:
        return array((x - y) % self.field.prime)

    def multiply(self, x: Array, y: Array) -> Array:
        return array(x * y % self.field.prime)

    def divide(self, x: Array, y: Array) -> Array:
        """`x` times the inverse of `y`; `UNDEFINED` where both are zero.

        Raises ZeroDivisionError, after which a draw is repeated.
        """
        try:
            return self.multiply(x, _each(self.scalars.invert, y))
        except ZeroDivisionError:
            return _each(self.scalars.quotient, x, y)

    def negative(self, x: Array) -> Array:
        return array(-x % self.field.prime)

    def exp(self, x: Array) -> Array:
        return _each(self.scalars.exp, x)

    def log(self, x: Array) -> Array:
        return _each(self.scalars.log, x)

    def sqrt(self, x: Array) -> Array:
        return _each(self.scalars.sqrt, x)

    def absolute(self, x: Array) -> Array:
        return _each(self.scalars.absolute, x)

    def maximum(self, x: Array, y: Array) -> Array:
        return _each(lambda a, b: self.scalars.maximum((a, b)), x, y)

    def minimum(self, x: Array, y: Array) -> Array:
        """`-max(-x, -y)`, so that minima and maxima share one set of symbols."""
        return self.negative(self.maximum(self.negative(x), self.negative(y)))

    def compare(self, how: str, x: Array, y: Array) -> Array:
        return _each(lambda a, b: self.scalars.compare(how, a, b), x, y)

    def select(self, where: Array, x: Array, y: Array) -> Array:
        return _each(self.scalars.select, where, x, y)

    def function(self, function: Function, *arguments: Array) -> Array:
        """A function by its definition in other operators (`function.means`), or by its name."""
        if function.means is not None:
            composed: Array = function.means(self, *arguments)
            return composed
        return _each(partial(self.scalars.named, function), *arguments)

    def sum(self, x: Array, axes: Sequence[int]) -> Array:
        """The sum modulo the prime; integers alone take the fast path through NumPy."""
        if _plain(x):
            # Python integers do not overflow: one reduction at the end is exact, and cheaper than
            # one for each addition.
            return array(np.sum(x, axis=tuple(axes), keepdims=True) % self.field.prime)
        return _reduce(self.field.total, x, axes)

    def largest(self, x: Array, axes: Sequence[int]) -> Array:
        """The maximum along `axes`; raises `FieldObstacle` where there is no element."""
        if not all(x.shape[axis] for axis in axes):
            raise FieldObstacle("the largest of no elements is infinite")
        return _reduce(self.scalars.maximum, x, axes)

    def matmul(self, x: Array, y: Array) -> Array:
        """The matrix product modulo the prime.

        `ExtensionField.dot` where exponentials are among it.
        """
        if _plain(x) and _plain(y):
            # np.matmul on object arrays multiplies Python integers, again with one reduction per
            # element.
            return array(np.matmul(x, y) % self.field.prime)
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        # Lists, not arrays, in the inner loop: indexing an object array costs more than the product
        # does.
        rows = np.broadcast_to(x, (*lead, *x.shape[-2:]))
        columns = np.swapaxes(np.broadcast_to(y, (*lead, *y.shape[-2:])), -1, -2)
        products = np.empty((*lead, x.shape[-2], y.shape[-1]), dtype=object)
        for at in np.ndindex(lead):
            left, right = rows[at].tolist(), columns[at].tolist()
            for i, row in enumerate(left):
                for j, column in enumerate(right):
                    products[(*at, i, j)] = self.field.dot(zip(row, column, strict=True))
        return products

    def take(self, x: Array, indices: Array, axis: int) -> Array:
        """The sum over all places of the element there times whether the index is that place.

        An element of a field is no place: each comparison is an unknown, 1 or 0 in real numbers.
        Programs that agree for all values of unknowns that add up to 1 agree where one of them is
        1. So `take(x - c, i)` is `take(x, i) - c`.
        """
        size = x.shape[axis]
        inside = self.minimum(self.maximum(indices, array(0)), array(size - 1))
        chosen = self.compare("==", inside[..., None], self._places(x.ndim + 1, size, x.ndim))
        # The index is moved inside, so that it is the last place where it is no other.
        others = self.sum(chosen[..., :-1], (x.ndim,))
        chosen = np.concatenate([chosen[..., :-1], self.subtract(array(1), others)], axis=x.ndim)
        return self._over_places(chosen, x, axis)

    def scatter_add(self, x: Array, indices: Array, updates: Array, axis: int) -> Array:
        """`x` plus the sum over all updates of each times whether its index is the place."""
        meets = self.compare(
            "==", _last(indices, axis), self._places(x.ndim + 1, x.shape[axis], axis)
        )
        return self.add(x, self._over_places(meets, updates, axis))

    def _places(self, rank: int, size: int, axis: int) -> Array:
        return self.iota([size if at == axis else 1 for at in range(rank)], axis)

    def _over_places(self, chosen: Array, x: Array, axis: int) -> Array:
        """The sum along `axis` of elements that are `chosen` along an axis behind all others."""
        count = math.prod(np.broadcast_shapes(chosen.shape, _last(x, axis).shape))
        if count > MOST_PRODUCTS:
            raise FieldObstacle(f"{count:,} products of elements and the places that they are at")
        return self.sum(self.multiply(chosen, _last(x, axis)), (x.ndim,))[..., 0]

    def argmax(self, x: Array, axis: int) -> Array:
        return argmax_by_comparison(self, x, axis)

    def cumulative(self, x: Array, axis: int, reduction: str, reverse: bool) -> Array:
        return cumulative_by_comparison(self, x, axis, reduction, reverse)

    def size(self, x: Array, axis: int) -> Array:
        return array(x.shape[axis] % self.field.prime)

    def pad(self, x: Array, axis: int, low: Number, high: Number, value: Fraction) -> Array:
        """Pads with the field element of the rational number `value`."""
        shape = list(x.shape)
        sides = []
        for size in (low, high):
            shape[axis] = size
            # np.pad would read `value` as a float; full keeps the exact element.
            sides.append(np.full(shape, self.scalars.constants.element(value), dtype=object))
        return np.concatenate([sides[0], x, sides[1]], axis=axis)

    def cast(self, x: Array, dtype: str) -> Array:
        """Casts that real numbers see: to `bool` by comparison with 0, to `i32` by truncation."""
        if dtype == DType.BOOL:
            return self.compare("!=", x, array(0))
        if dtype == DType.I32:
            # Truncation is a symbol of its argument, but for constants that are integers already.
            return _each(self.scalars.whole, x)
        return x


def array(values: Any) -> Array:
    """An object array, which NumPy neither converts nor rounds."""
    return np.asarray(values, dtype=object)


def _each(function: Callable[..., Value], *arrays: Array) -> Array:
    """Applies a scalar `function` to each element of broadcast `arrays`."""
    return array(np.frompyfunc(function, len(arrays), 1)(*arrays))


def _last(x: Array, axis: int) -> Array:
    """The elements with `axis` behind all others, and an axis of size one in its place."""
    return np.expand_dims(np.moveaxis(x, axis, -1), axis)


def _plain(x: Array) -> bool:
    """Whether all elements are plain integers, so that NumPy's own arithmetic is right."""
    return not any(type(value) is ExponentialSum for value in x.flat)


def _reduce(function: Callable[[list[Value]], Value], x: Array, axes: Sequence[int]) -> Array:
    """Applies `function` to the elements along `axes`, which stay with size one."""
    remaining = [axis for axis in range(x.ndim) if axis not in axes]
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    count, length = math.prod(shape), math.prod(x.shape[axis] for axis in axes)
    rows = x.transpose([*remaining, *axes]).reshape(count, length)
    # Assigned one by one: np.array on a list of sums would ask each for its length and iterate over
    # it.
    reduced = np.empty(count, dtype=object)
    for at, row in enumerate(rows.tolist()):
        reduced[at] = function(row)
    return reduced.reshape(shape)


__all__ = ["Array", "Fields", "array"]
