"""Fingerprints: values at a random point of a finite field, equal however they are computed.

Problem: tell in microseconds whether two expressions are equal as functions. Both are evaluated at
one random point modulo a prime; equal functions have equal values, others differ but by a small
chance.

Example: with x = 5, y = 9 modulo 101, `(x + y)²` and `x² + 2xy + y²` are both 95; `x² + y²` is 5. A
value of 16 by 16 elements is 256 such numbers.

Exponentials are not in a field: `exp` of a value stays a symbol of `ExponentialSum`, and `Series`
maps it to a truncated power series, which keeps `exp(a) exp(b) = exp(a + b)`.

A name belongs to a type: values of one type have one name when their elements are equal at the
point, after their axes are brought into one order. A small shape stands in for all shapes.

Not promised: that values of one name are equal. A coincidence, or a difference that the small shape
hides, gives one name to two values; a few quotients of sums of roots have two names although they
are equal. Who uses a name verifies what comes of it (`equivalence.verify`).

`Amounts` and `Ingredients` say how often each input and each function takes part in a value: what a
part of it cannot exceed. docs/why/verdicts.md explains the field.
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

from ...equivalence.finite_field import (
    UNDEFINED,
    Array,
    ExponentialSum,
    ExtensionField,
    FieldObstacle,
    Fields,
    Value,
    array,
    random_elements,
    random_prime,
)
from ...tensor import DType, ShapeError, Term
from ...tensor.algebra import Function
from ...tensor.analysis.abstract_interpretation import FactAlgebra, joint, product_shape, reduced
from ...tensor.evaluation import step
from ...tensor.types import Shape
from .terms import sizes

Jet: TypeAlias = tuple[int, int, int]
"""The first three coefficients of a power series: of 1, t and t²."""

_WIDTH = 16
"""Bytes for a field element."""


class Series:
    """Maps a value with exponentials to a power series in t: `exp(e)` becomes 1 + e t + e² t² / 2.

    That is exp(e t), so that products of exponentials become products of series, and sums become
    sums. Distinct sums of exponentials have distinct series but by chance; three coefficients are
    enough for the sums that occur here, and cost nine multiplications a product.

    A root and a logarithm become random numbers of their own: in a normal form no root meets
    itself.
    """

    def __init__(self, field: ExtensionField) -> None:
        self._field = field
        # Division by two of the second coefficient, as an inverse: the field has no fractions.
        self._half = pow(2, -1, field.prime)
        self._generators: dict[int, Jet] = {}

    def written(self, value: Value) -> bytes:
        """A value as bytes: equal values in normal form give equal bytes."""
        return b"".join(coefficient.to_bytes(_WIDTH, "little") for coefficient in self.jet(value))

    def jet(self, value: Value) -> Jet:
        """The series of a value, modulo the prime."""
        if isinstance(value, int):
            return value, 0, 0
        total, prime = (0, 0, 0), self._field.prime
        for (exponent, generators), coefficient in value.terms.items():
            summand = self._exponential(exponent, coefficient)
            for generator in generators:
                summand = self._times(summand, self._generator(generator))
            total = (total[0] + summand[0], total[1] + summand[1], total[2] + summand[2])
        return total[0] % prime, total[1] % prime, total[2] % prime

    def _exponential(self, exponent: int, factor: int) -> Jet:
        """The series of `factor * exp(exponent * t)`."""
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
        """The series of what a normal form has beside exponentials: an inverse of a sum, a root, a
        logarithm."""
        if generator not in self._generators:
            below = self._field.factors.get(generator)
            inverse = self._inverse(below) if below is not None else None
            # Where the series begins with zero it has no inverse: a random number stands for the
            # quotient, equal only for the very same sum.
            self._generators[generator] = inverse or (self._symbol(generator), 0, 0)
        return self._generators[generator]

    def _inverse(self, below: ExponentialSum) -> Jet | None:
        """The series of one over a sum; `None` where it begins with zero.

        By the product with the sum being 1: with a, b, c the sum's coefficients and r = 1/a, they
        are r, -b r², -(b s + c r) r for s = -b r².
        """
        prime, (a, b, c) = self._field.prime, self.jet(below)
        if not a:
            return None
        reciprocal = pow(a, -1, prime)
        slope = -b * reciprocal * reciprocal % prime
        return reciprocal, slope, -(b * slope + c * reciprocal) * reciprocal % prime

    def _symbol(self, generator: int) -> int:
        return self._field.symbol("series", generator)


_MOST_TERMS = 4_000
"""Terms of sums of exponentials that are put together for one value; a value beyond that has no
name."""
_MOST_ELEMENTS = 1_024
"""Elements of a value at the small sizes; a larger one has no name."""
_MOST_ORDERS = 24
"""Orders of axes of equal sizes that are compared for the least text; beyond that one order stands
for all."""


class Fingerprints:
    """The values of one program at one random point, and the names of what is computed
    from them."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._field = ExtensionField(random_prime(seed, 0), repr(seed).encode(), _MOST_TERMS)
        self.algebra: Any = Fields(self._field)
        """Evaluates operators on arrays of field elements, for `tensor.evaluation`."""
        self._series = Series(self._field)
        self._names: dict[bytes, bytes] = {}

    def computed(self, work: Callable[[], Array]) -> Array | None:
        """The result of `work`; `None` where the field cannot tell, divides by zero, or shapes do
        not fit."""
        return _defined(self._result(work))

    def _result(self, work: Callable[[], Array]) -> Array | None:
        """The result of `work`, in which what 0/0 gives may be undefined."""
        # The budget of terms is for one value: what was spent for earlier ones does not count.
        self._field.spent = 0
        try:
            return work()
        except (FieldObstacle, ZeroDivisionError, ShapeError):
            return None

    def evaluated(self, inputs: Sequence[Term], terms: Sequence[Term]) -> list[Array | None]:
        """The value of each term, operands first; `None` where it has none, and above
        such a term."""
        values = {term: self._drawn(index, sizes(term)) for index, term in enumerate(inputs)}
        for term in terms:
            if term not in values:
                values[term] = self._value(term, [values[operand] for operand in term.arguments])
        return [_defined(values[term]) for term in terms]

    def _drawn(self, index: int, shape: Sequence[int]) -> Array | None:
        """The random elements of input number `index`."""
        count = prod(shape)
        if count > _MOST_ELEMENTS:
            return None
        # By position and not by name: equal programs whose inputs are called otherwise have equal
        # values.
        values = random_elements(self._field.prime, count, "input", self._seed, index)
        return array(values).reshape(shape)

    def _value(self, term: Term, operands: list[Array | None]) -> Array | None:
        arrays = [operand for operand in operands if operand is not None]
        # What is computed from a value that the field does not have has none either.
        if len(arrays) < len(operands) or prod(sizes(term)) > _MOST_ELEMENTS:
            return None
        return self._result(lambda: step(term, self.algebra, arrays))

    def name(self, value: Array, shape: Shape, dtype: DType, origin: bytes) -> bytes:
        """The name of a value of a type: the digest `origin` of the first term that had an equal
        value."""
        named = [str(size) for size in shape]
        kind = f"{dtype}[{','.join(sorted(named))}]".encode()
        written = self._written(value)
        # A value and its transpose have one name: the least text among all orders that sort the
        # sizes stands for both.
        orders = (written.transpose(order) for order in _orders(named))
        print_ = _digest(kind, min(b"".join(arranged.flat) for arranged in orders))
        return self._names.setdefault(print_, origin)

    def order(self, value: Array, shape: Shape, target: Array, target_shape: Shape) -> list[int]:
        """The order of axes in which `value` equals `target`, which has the same name and the shape
        `target_shape`."""
        ours, theirs = self._written(value), self._written(target)
        for order in permutations(range(len(shape))):
            fits = tuple(shape[axis] for axis in order) == target_shape
            if fits and np.array_equal(ours.transpose(order), theirs):
                return list(order)
        raise ValueError("values of different names")

    def _written(self, value: Array) -> Array:
        return array([self._series.written(element) for element in value.flat]).reshape(value.shape)


def _defined(value: Array | None) -> Array | None:
    """The value; `None` where an element of it is undefined."""
    undefined = value is not None and any(element is UNDEFINED for element in value.flat)
    return None if undefined else value


def _orders(sizes: Sequence[str]) -> Iterator[list[int]]:
    """The orders of axes that sort them by size, first the one that keeps axes of one size as they
    are."""
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
    """How often each input and function takes part in a tensor, above and below a fraction alike.

    Example: of `x * y / x` it is x 2, y 1. In a derivation of `x * y` no step may make it, though
    it is equal to y.
    """

    shape: tuple[int, ...]
    of: Counter[str]

    def at(self, shape: Sequence[int]) -> Amounts:
        """These counts, for another shape."""
        return Amounts(tuple(shape), self.of)

    def within(self, whole: Amounts) -> bool:
        """Whether no count exceeds that of `whole`."""
        return self.of <= whole.of


class Ingredients(FactAlgebra[Amounts]):
    """The algebra of `Amounts`: products and quotients add counts, sums take the larger count of
    each, functions count themselves."""

    def constant(self, value: Fraction | float) -> Amounts:
        return Amounts((), Counter())

    def iota(self, shape: Sequence[int], axis: int) -> Amounts:
        return Amounts(tuple(shape), Counter())

    def one_of(self, values: Sequence[Amounts]) -> Amounts:
        return Amounts(values[0].shape, reduce(Counter.__or__, [value.of for value in values]))

    def add(self, x: Amounts, y: Amounts) -> Amounts:
        return Amounts(joint(x, y), x.of | y.of)

    # A sum of two terms is of the degree of the larger one, as of polynomials; so is a difference,
    # as nothing is known of what cancels.
    subtract = add

    def multiply(self, x: Amounts, y: Amounts) -> Amounts:
        return Amounts(joint(x, y), x.of + y.of)

    # Degrees above and below a fraction add up: a quotient that is reduced later would else be
    # allowed on the way to anything.
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
            amounts: Amounts = function.means(self, *arguments)
            return amounts
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
        """The counts of a function of `xs`: the larger of theirs, and one more for `name`."""
        both = self.one_of(xs).of
        return Amounts(joint(*xs), both + Counter([f"{name}()"]))
