"""Names for values: equal ones, whatever way they are computed, have one name.

The program is evaluated once in a random prime field, at a small shape that stands in for all. Two
values of one type have one name when their elements are equal there, after their axes are brought
into one order. What is not equal has another name, but by a small chance, or where the small shape
hides the difference; a few quotients of sums of roots have another although they are equal. Who
uses a name verifies what comes of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, permutations, product
from math import prod
from typing import Any

import numpy as np

from ...equivalence import draws
from ...equivalence.field import Field, Obstacle
from ...equivalence.field_algebra import Array, Fields, array
from ...tensor import DType, ShapeError, Term
from ...tensor.evaluate import step
from ...tensor.types import Shape
from .building import sizes
from .series import Series

_MOST_TERMS = 4_000
"""How many terms of sums of exponentials are put together for one value."""
_MOST_ELEMENTS = 1_024
_MOST_ORDERS = 24
"""How many orders of axes of one size are looked at."""


class Fingerprints:
    """The values of one program at one random point, and what is computed from them."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._field = Field(draws.prime(seed, 0), repr(seed).encode(), _MOST_TERMS)
        self.algebra: Any = Fields(self._field)
        self._series = Series(self._field)
        self._names: dict[bytes, bytes] = {}

    def computed(self, work: Callable[[], Array]) -> Array | None:
        """What is computed; None where the field cannot tell or has no value."""
        self._field.spent = 0
        try:
            return work()
        except (Obstacle, ZeroDivisionError, ShapeError):
            return None

    def evaluated(self, inputs: Sequence[Term], terms: Sequence[Term]) -> list[Array | None]:
        """The value of each term, operands first; None also above what has no value."""
        values = {term: self._drawn(index, sizes(term)) for index, term in enumerate(inputs)}
        for term in terms:
            if term not in values:
                values[term] = self._value(term, [values[one] for one in term.arguments])
        return [values[term] for term in terms]

    def _drawn(self, index: int, shape: Sequence[int]) -> Array | None:
        """The random value of an input."""
        count = prod(shape)
        if count > _MOST_ELEMENTS:
            return None
        values = draws.elements(self._field.prime, count, "input", self._seed, index)
        return array(values).reshape(shape)

    def _value(self, term: Term, operands: list[Array | None]) -> Array | None:
        known = [one for one in operands if one is not None]
        if len(known) < len(operands) or prod(sizes(term)) > _MOST_ELEMENTS:
            return None
        return self.computed(lambda: step(term, self.algebra, known))

    def name(self, value: Array, shape: Shape, dtype: DType, origin: bytes) -> bytes:
        """The name of a value of this type: the `origin` of the first that was equal."""
        named = [str(size) for size in shape]
        kind = f"{dtype}[{','.join(sorted(named))}]".encode()
        written = self._written(value)
        orders = (written.transpose(order) for order in _orders(named))
        print_ = _digest(kind, min(b"".join(one.flat) for one in orders))
        return self._names.setdefault(print_, origin)

    def order(self, value: Array, shape: Shape, other: Array, wanted: Shape) -> list[int]:
        """The order of axes in which a value is one of the same name and the wanted shape."""
        ours, theirs = self._written(value), self._written(other)
        for order in permutations(range(len(shape))):
            fits = tuple(shape[axis] for axis in order) == wanted
            if fits and np.array_equal(ours.transpose(order), theirs):
                return list(order)
        raise ValueError("values of different names")

    def _written(self, value: Array) -> Array:
        return array([self._series.written(one) for one in value.flat]).reshape(value.shape)


def _orders(sizes: Sequence[str]) -> Iterator[list[int]]:
    """The orders of axes by their sizes, first the one that keeps those of one size as they are."""
    first = sorted(range(len(sizes)), key=lambda axis: sizes[axis])
    groups = [list(group) for _, group in groupby(first, key=lambda axis: sizes[axis])]
    several = prod(len(list(permutations(group))) for group in groups)
    if several > _MOST_ORDERS:
        yield first
        return
    for chosen in product(*(permutations(group) for group in groups)):
        yield [axis for group in chosen for axis in group]


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()
