"""The `Algebra` of NumPy arrays, each result rounded to a working type.

`evaluate(program, Floats(np.float32), arrays)` runs a program as NumPy would;
`equivalence.rounding.machine` adds the rounding of stored values.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .algebra import Function
from .types import DType

Array: TypeAlias = NDArray[Any]
"""A NumPy array of any element type."""
Number: TypeAlias = Any
"""A size or bound, which is an int here and never a symbol."""

_COMPARE = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal}
"""NumPy's comparison for each name."""


class Floats:
    """NumPy's arithmetic in one `working` type; casts round to the type they name."""

    def __init__(self, working: type[np.floating[Any]] = np.float64) -> None:
        self.working = working

    def constant(self, value: Fraction | float) -> Array:
        return np.asarray(float(value), dtype=self.working)

    def iota(self, shape: Sequence[Number], axis: int) -> Array:
        column = [-1 if dimension == axis else 1 for dimension in range(len(shape))]
        index = np.arange(shape[axis], dtype=self.working).reshape(column)
        return np.broadcast_to(index, shape)

    def add(self, x: Array, y: Array) -> Array:
        return np.add(x, y)

    def subtract(self, x: Array, y: Array) -> Array:
        return np.subtract(x, y)

    def multiply(self, x: Array, y: Array) -> Array:
        return np.multiply(x, y)

    def divide(self, x: Array, y: Array) -> Array:
        return np.divide(x, y)

    def negative(self, x: Array) -> Array:
        return np.negative(x)

    def exp(self, x: Array) -> Array:
        return np.exp(x)

    def log(self, x: Array) -> Array:
        return np.log(x)

    def sqrt(self, x: Array) -> Array:
        return np.sqrt(x)

    def absolute(self, x: Array) -> Array:
        return np.abs(x)

    def maximum(self, x: Array, y: Array) -> Array:
        return np.maximum(x, y)

    def minimum(self, x: Array, y: Array) -> Array:
        return np.minimum(x, y)

    def compare(self, how: str, x: Array, y: Array) -> Array:
        return _COMPARE[how](x, y)

    def select(self, where: Array, x: Array, y: Array) -> Array:
        return np.where(where, x, y)

    def function(self, function: Function, *arguments: Array) -> Array:
        return np.asarray(function.floats(*arguments))

    def sum(self, x: Array, axes: Sequence[int]) -> Array:
        return np.asarray(np.sum(x, axis=tuple(axes), keepdims=True))

    def largest(self, x: Array, axes: Sequence[int]) -> Array:
        # `initial` is the neutral element: the maximum of nothing is -inf, where np.max would
        # raise.
        return np.asarray(np.max(x, axis=tuple(axes), keepdims=True, initial=-np.inf))

    def matmul(self, x: Array, y: Array) -> Array:
        return np.asarray(np.matmul(x, y))

    def size(self, x: Array, axis: int) -> Array:
        return np.asarray(x.shape[axis], dtype=self.working)

    def broadcast(self, x: Array, shape: Sequence[Number]) -> Array:
        return np.broadcast_to(x, tuple(shape))

    def reshape(self, x: Array, shape: Sequence[Number]) -> Array:
        return np.reshape(x, tuple(shape))

    def transpose(self, x: Array, axes: Sequence[int]) -> Array:
        return np.transpose(x, tuple(axes))

    def slice(self, x: Array, axis: int, start: Number, stop: Number, step: int) -> Array:
        return x[(slice(None),) * axis + (slice(start, stop, step),)]

    def concatenate(self, xs: Sequence[Array], axis: int) -> Array:
        return np.concatenate(xs, axis=axis)

    def pad(self, x: Array, axis: int, low: Number, high: Number, value: Fraction) -> Array:
        widths = [(low, high) if dimension == axis else (0, 0) for dimension in range(x.ndim)]
        return np.pad(x, widths, constant_values=float(value))

    def diagonal(self, x: Array) -> Array:
        return np.diagonal(x, axis1=-2, axis2=-1)

    def take(self, x: Array, indices: Array, axis: int) -> Array:
        places = np.clip(np.nan_to_num(indices), 0, x.shape[axis] - 1).astype(np.int64)
        shape = list(np.broadcast_shapes(_flat(x, axis), _flat(places, axis)))
        shape[axis] = x.shape[axis]
        whole = np.broadcast_to(x, shape)
        shape[axis] = places.shape[axis]
        return np.asarray(np.take_along_axis(whole, np.broadcast_to(places, shape), axis))

    def scatter_add(self, x: Array, indices: Array, updates: Array, axis: int) -> Array:
        size, shape = x.shape[axis], list(x.shape)
        shape[axis] = updates.shape[axis]
        places = np.broadcast_to(np.nan_to_num(indices, nan=-1.0), shape)
        inside = (places >= 0) & (places < size)
        grid = list(np.indices(shape))
        grid[axis] = np.where(inside, places, 0).astype(np.int64)
        total = np.array(x)
        np.add.at(total, tuple(grid), np.where(inside, np.broadcast_to(updates, shape), 0))
        return total

    def argmax(self, x: Array, axis: int) -> Array:
        return np.asarray(np.argmax(x, axis=axis, keepdims=True), dtype=self.working)

    def cumulative(self, x: Array, axis: int, reduction: str, reverse: bool) -> Array:
        turned = np.flip(x, axis) if reverse else x
        total = (
            np.cumsum(turned, axis, dtype=turned.dtype)
            if reduction == "sum"
            else np.maximum.accumulate(turned, axis)
        )
        return np.asarray(np.flip(total, axis) if reverse else total)

    def windows(self, x: Array, axis: int, window: Number, stride: int, dilation: int) -> Array:
        reach = (window - 1) * dilation + 1
        seen = np.lib.stride_tricks.sliding_window_view(x, reach, axis)
        # sliding_window_view appends the window's axis; here it follows its place.
        seen = np.moveaxis(seen, -1, axis + 1)
        index: list[Any] = [slice(None)] * seen.ndim
        index[axis], index[axis + 1] = slice(None, None, stride), slice(None, None, dilation)
        return np.asarray(seen[tuple(index)])

    def cast(self, x: Array, dtype: str) -> Array:
        """Truncates for `i32`, tests for `bool`, else converts to the working type."""
        if dtype == DType.BOOL:
            return np.asarray(x != 0)
        if dtype == DType.I32:
            # Integers stay in the working type; equal values compare equal there up to 2^53.
            return np.trunc(x).astype(self.working)
        return x.astype(self.working)

    def shape(self, x: Array) -> tuple[int, ...]:
        return x.shape


def _flat(x: Array, axis: int) -> tuple[int, ...]:
    """The shape with size one along `axis`."""
    return (*x.shape[:axis], 1, *x.shape[axis + 1 :])
