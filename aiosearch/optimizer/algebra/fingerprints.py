"""Fingerprints: values at a random point of a finite field, equal however they are computed.

The program is evaluated once in a random prime field, at a small shape that stands in for all. Two
values of one type have one name when their elements are equal there, after their axes are brought
into one order. What is not equal has another name, but by a small chance, or where the small shape
hides the difference; a few quotients of sums of roots have another although they are equal. Who
uses a name verifies what comes of it.

What tells values of the field layer apart at little cost.

How often each input and each function takes part in a value: what a part cannot exceed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import groupby, permutations, product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ...equivalence.abstract_interpretation import FactAlgebra, joint, product_shape, reduced
from ...equivalence.finite_field import random_elements
from ...equivalence.finite_field.array_algebra import Array, Fields, array
from ...equivalence.finite_field.extension_field import (
    ExponentialSum,
    ExtensionField,
    FieldObstacle,
    Value,
)
from ...tensor import DType, ShapeError, Term
from ...tensor.algebra import Function
from ...tensor.evaluation.evaluate import step
from ...tensor.types import Shape
from .terms import sizes

Jet: TypeAlias = tuple[int, int, int]
"""The first coefficients of a power series."""

_WIDTH = 16
"""Bytes for a field element."""


class Series:
    """Takes an exponential for the power series of its exponent times a small number.

    Sums, products and inverses go over into those of series. A root and a logarithm are numbers of
    their own: in a normal form no root meets itself.
    """

    def __init__(self, field: ExtensionField) -> None:
        self._field = field
        self._half = pow(2, -1, field.prime)
        self._generators: dict[int, Jet] = {}

    def written(self, value: Value) -> bytes:
        """As bytes: equal values in normal form give equal ones."""
        return b"".join(one.to_bytes(_WIDTH, "little") for one in self.jet(value))

    def jet(self, value: Value) -> Jet:
        if isinstance(value, int):
            return value, 0, 0
        total, prime = (0, 0, 0), self._field.prime
        for (exponent, generators), coefficient in value.terms.items():
            own = self._exponential(exponent, coefficient)
            for generator in generators:
                own = self._times(own, self._generator(generator))
            total = (total[0] + own[0], total[1] + own[1], total[2] + own[2])
        return total[0] % prime, total[1] % prime, total[2] % prime

    def _exponential(self, exponent: int, factor: int) -> Jet:
        prime = self._field.prime
        once = exponent * factor % prime
        return factor, once, once * exponent * self._half % prime

    def _times(self, x: Jet, y: Jet) -> Jet:
        prime = self._field.prime
        return (
            x[0] * y[0] % prime,
            (x[0] * y[1] + x[1] * y[0]) % prime,
            (x[0] * y[2] + x[1] * y[1] + x[2] * y[0]) % prime,
        )

    def _generator(self, generator: int) -> Jet:
        if generator not in self._generators:
            below = self._field.factors.get(generator)
            found = self._inverse(below) if below is not None else None
            self._generators[generator] = found or (self._symbol(generator), 0, 0)
        return self._generators[generator]

    def _inverse(self, below: ExponentialSum) -> Jet | None:
        """One over a sum; None where the series has no inverse."""
        prime, (a, b, c) = self._field.prime, self.jet(below)
        if not a:
            return None
        one = pow(a, -1, prime)
        slope = -b * one * one % prime
        return one, slope, -(b * slope + c * one) * one % prime

    def _symbol(self, generator: int) -> int:
        return self._field.symbol("series", generator)


pass

_MOST_TERMS = 4_000
"""How many terms of sums of exponentials are put together for one value."""
_MOST_ELEMENTS = 1_024
_MOST_ORDERS = 24
"""How many orders of axes of one size are looked at."""


class Fingerprints:
    """The values of one program at one random point, and what is computed from them."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._field = ExtensionField(
            random_elements.prime(seed, 0), repr(seed).encode(), _MOST_TERMS
        )
        self.algebra: Any = Fields(self._field)
        self._series = Series(self._field)
        self._names: dict[bytes, bytes] = {}

    def computed(self, work: Callable[[], Array]) -> Array | None:
        """What is computed; None where the field cannot tell or has no value."""
        self._field.spent = 0
        try:
            return work()
        except (FieldObstacle, ZeroDivisionError, ShapeError):
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
        values = random_elements.elements(self._field.prime, count, "input", self._seed, index)
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


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of a tensor: the degree in each input and function, above and below a fraction together."""

    shape: tuple[int, ...]
    of: Counter[str]

    def at(self, shape: Sequence[int]) -> Amounts:
        return Amounts(tuple(shape), self.of)

    def within(self, whole: Amounts) -> bool:
        return self.of <= whole.of


class Ingredients(FactAlgebra[Amounts]):
    """The algebra of amounts: products add them, sums take the larger, functions count."""

    def constant(self, value: Fraction | float) -> Amounts:
        return Amounts((), Counter())

    def iota(self, shape: Sequence[int], axis: int) -> Amounts:
        return Amounts(tuple(shape), Counter())

    def one_of(self, values: Sequence[Amounts]) -> Amounts:
        return Amounts(values[0].shape, reduce(Counter.__or__, [value.of for value in values]))

    def add(self, x: Amounts, y: Amounts) -> Amounts:
        return Amounts(joint(x, y), x.of | y.of)

    subtract = add

    def multiply(self, x: Amounts, y: Amounts) -> Amounts:
        return Amounts(joint(x, y), x.of + y.of)

    divide = multiply

    def negative(self, x: Amounts) -> Amounts:
        return x

    def exp(self, x: Amounts) -> Amounts:
        return self._under("exp", x)

    def log(self, x: Amounts) -> Amounts:
        return self._under("log", x)

    def sqrt(self, x: Amounts) -> Amounts:
        return self._under("sqrt", x)

    def absolute(self, x: Amounts) -> Amounts:
        return self._under("absolute", x)

    def maximum(self, x: Amounts, y: Amounts) -> Amounts:
        return self._under("maximum", x, y)

    minimum = maximum

    def compare(self, how: str, x: Amounts, y: Amounts) -> Amounts:
        return self._under("compare", x, y)

    def select(self, where: Amounts, x: Amounts, y: Amounts) -> Amounts:
        return self._under("select", where, x, y)

    def function(self, function: Function, *arguments: Amounts) -> Amounts:
        if function.means is not None:
            found: Amounts = function.means(self, *arguments)
            return found
        return self._under(function.name, *arguments)

    def sum(self, x: Amounts, axes: Sequence[int]) -> Amounts:
        return x.at(reduced(x, axes))

    def largest(self, x: Amounts, axes: Sequence[int]) -> Amounts:
        return self._under("maximum", x).at(reduced(x, axes))

    def matmul(self, x: Amounts, y: Amounts) -> Amounts:
        return Amounts(product_shape(x, y), x.of + y.of)

    def cast(self, x: Amounts, dtype: str) -> Amounts:
        return x

    def _under(self, name: str, *xs: Amounts) -> Amounts:
        both = self.one_of(xs).of
        return Amounts(joint(*xs), both + Counter([f"{name}()"]))
