"""The `Algebra` of arrays of field values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ...tensor.algebra import Function
from ...tensor.floats import Array, Floats
from ...tensor.types import DType
from .extension_field import ExponentialSum, ExtensionField, FieldObstacle, Value
from .scalar_functions import Scalars


class Fields(Floats):
    """Arrays of field values; elements are moved about as those of floats are."""

    def __init__(self, field: ExtensionField) -> None:
        super().__init__()
        self.field = field
        self.scalars = Scalars(field)

    def constant(self, value: Fraction | float) -> Array:
        if not isinstance(value, Fraction):
            return array(self.scalars.infinity(negative=value < 0))
        return array(self.scalars.constants.element(value))

    def iota(self, shape: Sequence[int], axis: int) -> Array:
        column = [-1 if own == axis else 1 for own in range(len(shape))]
        index = np.array([n % self.field.prime for n in range(shape[axis])], dtype=object)
        return np.broadcast_to(index.reshape(column), shape)

    def add(self, x: Array, y: Array) -> Array:
        return array((x + y) % self.field.prime)

    def subtract(self, x: Array, y: Array) -> Array:
        return array((x - y) % self.field.prime)

    def multiply(self, x: Array, y: Array) -> Array:
        return array(x * y % self.field.prime)

    def divide(self, x: Array, y: Array) -> Array:
        return self.multiply(x, _each(self.scalars.invert, y))

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
        return self.negative(self.maximum(self.negative(x), self.negative(y)))

    def compare(self, how: str, x: Array, y: Array) -> Array:
        return _each(lambda a, b: self.scalars.compare(how, a, b), x, y)

    def select(self, where: Array, x: Array, y: Array) -> Array:
        return _each(self.scalars.select, where, x, y)

    def function(self, function: Function, *arguments: Array) -> Array:
        if function.means is not None:
            found: Array = function.means(self, *arguments)
            return found
        return _each(partial(self.scalars.named, function), *arguments)

    def sum(self, x: Array, axes: Sequence[int]) -> Array:
        if _plain(x):
            return array(np.sum(x, axis=tuple(axes), keepdims=True) % self.field.prime)
        return _reduce(self.field.total, x, axes)

    def largest(self, x: Array, axes: Sequence[int]) -> Array:
        if not all(x.shape[axis] for axis in axes):
            raise FieldObstacle("the largest of no elements is infinite")
        return _reduce(self.scalars.maximum, x, axes)

    def matmul(self, x: Array, y: Array) -> Array:
        if _plain(x) and _plain(y):
            return array(np.matmul(x, y) % self.field.prime)
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        rows = np.broadcast_to(x, (*lead, *x.shape[-2:]))
        columns = np.swapaxes(np.broadcast_to(y, (*lead, *y.shape[-2:])), -1, -2)
        found = np.empty((*lead, x.shape[-2], y.shape[-1]), dtype=object)
        for at in np.ndindex(lead):
            left, right = rows[at].tolist(), columns[at].tolist()
            for i, row in enumerate(left):
                for j, column in enumerate(right):
                    found[(*at, i, j)] = self.field.dot(zip(row, column, strict=True))
        return found

    def size(self, x: Array, axis: int) -> Array:
        return array(x.shape[axis] % self.field.prime)

    def pad(self, x: Array, axis: int, low: int, high: int, value: Fraction) -> Array:
        shape = list(x.shape)
        sides = []
        for size in (low, high):
            shape[axis] = size
            sides.append(np.full(shape, self.scalars.constants.element(value), dtype=object))
        return np.concatenate([sides[0], x, sides[1]], axis=axis)

    def cast(self, x: Array, dtype: str) -> Array:
        if dtype == DType.BOOL:
            return self.compare("!=", x, array(0))
        if dtype == DType.I32:
            return _each(self.scalars.whole, x)
        return x


def array(values: Any) -> Array:
    return np.asarray(values, dtype=object)


def _each(function: Callable[..., Value], *arrays: Array) -> Array:
    return array(np.frompyfunc(function, len(arrays), 1)(*arrays))


def _plain(x: Array) -> bool:
    return not any(type(value) is ExponentialSum for value in x.flat)


def _reduce(function: Callable[[list[Value]], Value], x: Array, axes: Sequence[int]) -> Array:
    """Applies a function to the elements along axes, which stay with size one."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    count, length = math.prod(shape), math.prod(x.shape[axis] for axis in axes)
    rows = x.transpose([*kept, *axes]).reshape(count, length)
    found = np.empty(count, dtype=object)
    for at, row in enumerate(rows.tolist()):
        found[at] = function(row)
    return found.reshape(shape)


__all__ = ["Array", "Fields", "array"]
