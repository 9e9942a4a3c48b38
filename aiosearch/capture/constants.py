"""Arrays that a function closed over: numbers where they can be, else further inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from ..tensor import DType, Term, apply, literal, tensor, walk
from .jax_types import AbstractArray, Leaf, NumpyArray
from .values import TracedValue, element_type, uniform, whole


class ClosedOverConstants:
    """Turns arrays into values, and keeps those that stay arrays."""

    def __init__(self) -> None:
        self._arrays: dict[Term, NumpyArray] = {}

    def value(self, held: Leaf, aval: AbstractArray | None = None) -> TracedValue:
        like = held if aval is None else aval
        dtype = element_type(like.dtype if hasattr(like, "dtype") else np.asarray(like).dtype)
        array = np.asarray(held)  # numpy has no type for random keys
        if _is_uniform(array):
            return uniform(array.flat[0].item(), array.shape, dtype)
        return _counted(array, dtype) or self._kept(array, dtype)

    def used(self, outputs: Iterable[Term]) -> dict[Term, NumpyArray]:
        """The arrays that these terms need."""
        return {term: self._arrays[term] for term in walk(outputs) if term in self._arrays}

    def _kept(self, array: NumpyArray, dtype: DType) -> TracedValue:
        content = f"{dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
        digest = hashlib.blake2b(content, digest_size=4).hexdigest()
        term = tensor(f"constant_{digest}", dtype, array.shape)
        self._arrays[term] = array
        return whole(term, dtype)


def _is_uniform(array: NumpyArray) -> bool:
    """Whether it is one number; zeros below zero are not those above, and no literals."""
    if not array.ndim or not array.size:
        return not array.ndim
    first = array.flat[0]
    alike = (array == first) & (np.signbit(array) == np.signbit(first))
    return bool(alike.all() and (first != 0 or not np.signbit(first)))


def _counted(array: NumpyArray, dtype: DType) -> TracedValue | None:
    """Whole numbers in even steps along one axis, written as such: they may be places."""
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
