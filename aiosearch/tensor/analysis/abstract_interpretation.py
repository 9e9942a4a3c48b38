"""Abstract interpretation of programs with one fact for each whole tensor.

A fact is what an analysis knows of all elements of a tensor, such as a sign or a degree;
`FactAlgebra` evaluates a program on facts instead of numbers. `finite_field.definedness` and
`finite_field.degree_bounds` are the analyses.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ..errors import ShapeError
from ..evaluation import evaluate
from ..terms import Program, Term


class TensorFact(Protocol):
    """A fact about all elements of a tensor of known `shape`."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def at(self, shape: Sequence[int]) -> Any:
        """The fact for a tensor of another shape whose elements are from this one."""


K = TypeVar("K", bound=TensorFact)
"""The type of fact of one analysis."""


class FactAlgebra(Generic[K]):
    """The operators that move elements, which leave facts as they are.

    A subclass adds arithmetic.
    """

    def constant(self, value: Fraction | float) -> K:
        """The fact of a scalar `value`."""
        raise NotImplementedError

    def one_of(self, values: Sequence[K]) -> K:
        """What is true of elements that are each from one of `values`.

        It has the first one's shape.
        """
        raise NotImplementedError

    def size(self, x: K, axis: int) -> K:
        return self.constant(Fraction(x.shape[axis]))

    def broadcast(self, x: K, shape: Sequence[int]) -> K:
        return _at(x, shape)

    def reshape(self, x: K, shape: Sequence[int]) -> K:
        return _at(x, shape)

    def transpose(self, x: K, axes: Sequence[int]) -> K:
        return _at(x, [x.shape[axis] for axis in axes])

    def slice(self, x: K, axis: int, start: int, stop: int, step: int) -> K:
        return _at(x, (*x.shape[:axis], len(range(start, stop, step)), *x.shape[axis + 1 :]))

    def concatenate(self, xs: Sequence[K], axis: int) -> K:
        first = xs[0].shape
        size = sum(x.shape[axis] for x in xs)
        # An element of the result is from some operand: only what all operands share is true of it.
        return _at(self.one_of(xs), (*first[:axis], size, *first[axis + 1 :]))

    def pad(self, x: K, axis: int, low: int, high: int, value: Fraction) -> K:
        shape = (*x.shape[:axis], low + x.shape[axis] + high, *x.shape[axis + 1 :])
        return _at(self.one_of([x, self.constant(value)]), shape)

    def diagonal(self, x: K) -> K:
        return _at(x, x.shape[:-1])

    def windows(self, x: K, axis: int, window: int, stride: int, dilation: int) -> K:
        """Overlapping windows repeat elements, of which the fact of `x` is true."""
        # The elements that one window spans; a window starts wherever that fits.
        reach = (window - 1) * dilation + 1
        places = (x.shape[axis] - reach) // stride + 1
        return _at(x, (*x.shape[:axis], places, window, *x.shape[axis + 1 :]))

    def shape(self, x: K) -> tuple[int, ...]:
        return x.shape


def _at(x: K, shape: Sequence[int]) -> K:
    """The `fact.at` of a shape, with its type."""
    moved: K = x.at(tuple(shape))
    return moved


def joint(*values: TensorFact) -> tuple[int, ...]:
    """The shape of a pointwise result: NumPy's broadcasting."""
    return np.broadcast_shapes(*(value.shape for value in values))


def reduced(x: TensorFact, axes: Sequence[int]) -> tuple[int, ...]:
    """The shape of `x` with size one along `axes`."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))


def product_shape(x: TensorFact, y: TensorFact) -> tuple[int, ...]:
    """The shape of the matrix product of `x` and `y`."""
    return (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])


def run(program: Program, algebra: Any, inputs: Sequence[K]) -> list[K]:
    """Facts of the outputs of `program`, after `algebra` has seen every term on the way."""
    return evaluate(program, algebra, inputs)


def sizes(term: Term) -> tuple[int, ...]:
    """The shape of `term` in plain numbers; raises ShapeError where a size is symbolic."""
    numbers = tuple(size for size in term.shape if isinstance(size, int))
    if len(numbers) != len(term.shape):
        raise ShapeError(f"{term.type} has sizes that are not known")
    return numbers
