"""Arrays that a function closed over, which become numbers or ramps if they can, else inputs.

Example: `np.arange(8)` is `iota` of 8, `np.full((3,), 2.0)` is the literal 2, and a table of
weights is an input named `constant_` and a digest of its elements.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from ..tensor import DType, Term, apply, literal, tensor, walk
from .jax_types import AbstractArray, Leaf, NumpyArray
from .values import TracedValue, element_type, uniform, whole


class ClosedOverConstants:
    """Turns arrays into `TracedValue`s, and keeps those that stay arrays."""

    def __init__(self) -> None:
        self._arrays: dict[Term, NumpyArray] = {}

    def value(self, held: Leaf, aval: AbstractArray | None = None) -> TracedValue:
        """The value of an array, whose type is that of `aval` where that is given."""
        like = held if aval is None else aval
        dtype = element_type(like.dtype if hasattr(like, "dtype") else np.asarray(like).dtype)
        array = np.asarray(held)  # numpy has no type for random keys
        if _is_uniform(array):
            return uniform(array.flat[0].item(), array.shape, dtype)
        return _counted(array, dtype) or self._kept(array, dtype)

    def used(self, outputs: Iterable[Term]) -> dict[Term, NumpyArray]:
        """The arrays that these terms need, by their input terms."""
        return {term: self._arrays[term] for term in walk(outputs) if term in self._arrays}

    def _kept(self, array: NumpyArray, dtype: DType) -> TracedValue:
        """An input for an array, named by its elements: equal arrays of two functions are one
        input."""
        content = f"{dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
        digest = hashlib.blake2b(content, digest_size=4).hexdigest()
        term = tensor(f"constant_{digest}", dtype, array.shape)
        self._arrays[term] = array
        return whole(term, dtype)


def _is_uniform(array: NumpyArray) -> bool:
    """Whether an array is one number everywhere; -0.0 is not 0.0, and neither is a literal as an
    array."""
    if not array.ndim or not array.size:
        return not array.ndim
    first = array.flat[0]
    alike = (array == first) & (np.signbit(array) == np.signbit(first))
    return bool(alike.all() and (first != 0 or not np.signbit(first)))


def _counted(array: NumpyArray, dtype: DType) -> TracedValue | None:
    """Integers in even steps along one axis as a ramp of `iota`: they may be places, as of a
    gather.

    Example: [[3], [5], [7]] is 3 + 2 · iota along axis 0; `None` for other arrays.
    """
    if dtype is not DType.I32 or array.size < 2:
        return None
    for axis in range(array.ndim):
        row = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)[:, 0]
        sizes = [-1 if dimension == axis else 1 for dimension in range(array.ndim)]
        step = int(row[1] - row[0]) if len(row) > 1 else 0
        steps = int(row[0]) + step * np.arange(len(row))
        if step and np.array_equal(np.broadcast_to(steps.reshape(sizes), array.shape), array):
            shape = tuple(len(row) if dimension == axis else 1 for dimension in range(array.ndim))
            places = apply("iota", shape=shape, axis=axis, dtype=dtype)
            return TracedValue(places * literal(step) + literal(int(row[0])), array.shape, dtype)
    return None
