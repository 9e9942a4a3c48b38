"""Bounds on polynomial degrees, for the chance that two different programs agree
(Schwartz-Zippel).

Every element is a quotient of polynomials in the inputs, where each exponential, root and value
known by name counts as an unknown of its own. Four numbers bound them for a whole tensor: the
degrees above and below, and the bits of the sum of the absolute coefficients above and below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from ...tensor.algebra import Function
from ...tensor.terms import Program
from ..abstract_interpretation import FactAlgebra, joint, product_shape, reduced, run, sizes


@dataclass(frozen=True, slots=True)
class DegreeBound:
    """A tensor of which the shape and four bounds are known."""

    shape: tuple[int, ...]
    above: float = 1.0
    below: float = 0.0
    bits_above: float = 0.0
    bits_below: float = 0.0

    @property
    def degree(self) -> float:
        return self.above + self.below

    @property
    def bits(self) -> float:
        return self.bits_above + self.bits_below

    def at(self, shape: Sequence[int]) -> DegreeBound:
        return DegreeBound(tuple(shape), self.above, self.below, self.bits_above, self.bits_below)


class Degrees(FactAlgebra[DegreeBound]):
    """Evaluates programs in bounds, and keeps the largest met.

    `widest` is the most terms that a sum had whose exponents were moved by their mean, and
    `released` the highest power of what is under logarithms that an exponential gave back.
    """

    def __init__(self, widest: int = 1, released: int = 0) -> None:
        self.widest = widest
        self.released = released
        self._largest = DegreeBound(())
        self._argument = DegreeBound((), 0.0, 0.0, 0.0, 0.0)
        self._logged = DegreeBound((), 0.0, 0.0, 0.0, 0.0)

    @property
    def degree(self) -> float:
        """Of everything that is compared: coefficients, keys, and sums of exponents."""
        argument = self._argument
        return 2 * self._largest.degree + 1 + argument.above + self._exponents * argument.below

    @property
    def bits(self) -> float:
        """Of the integer coefficients of what is compared."""
        argument, count = self._argument, self._exponents
        each = argument.bits_below + math.log2(1 + self.widest)
        return 2 * self._largest.bits + argument.bits_above + count * each + math.log2(1 + count)

    @property
    def _exponents(self) -> float:
        """How many arguments of exponentials an exponent is made of, at most.

        A term is a product of no more exponentials than its degree, each moved by a mean.
        """
        return 2 * self._largest.degree**2 * (1 + self.widest)

    def _met(self, value: DegreeBound) -> DegreeBound:
        self._largest = _larger(self._largest, value)
        return value

    def constant(self, value: Fraction | float) -> DegreeBound:
        if not isinstance(value, Fraction):
            return DegreeBound(())
        above, below = abs(value.numerator).bit_length(), value.denominator.bit_length()
        return DegreeBound((), 0.0, 0.0, float(above), float(below))

    def iota(self, shape: Sequence[int], axis: int) -> DegreeBound:
        return DegreeBound(tuple(shape), 0.0, 0.0, float(max(shape[axis], 1).bit_length()))

    def add(self, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        return self._met(
            DegreeBound(
                joint(x, y),
                max(x.above + y.below, y.above + x.below),
                x.below + y.below,
                max(x.bits_above + y.bits_below, y.bits_above + x.bits_below) + 1,
                x.bits_below + y.bits_below,
            )
        )

    subtract = add

    def multiply(self, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        return self._met(
            DegreeBound(
                joint(x, y),
                x.above + y.above,
                x.below + y.below,
                x.bits_above + y.bits_above,
                x.bits_below + y.bits_below,
            )
        )

    def divide(self, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        return self.multiply(x, DegreeBound(y.shape, y.below, y.above, y.bits_below, y.bits_above))

    def negative(self, x: DegreeBound) -> DegreeBound:
        return x

    def exp(self, x: DegreeBound) -> DegreeBound:
        """An unknown, times powers of what was under logarithms."""
        self._argument = _larger(self._argument, x)
        degree = self.released * self._logged.degree
        bits = self.released * self._logged.bits
        return self._met(DegreeBound(x.shape, 1 + degree, degree, bits, bits))

    def log(self, x: DegreeBound) -> DegreeBound:
        """An unknown, plus a mean of exponents."""
        self._logged = _larger(self._logged, x)
        argument, count = self._argument, self.widest * x.degree
        return self._met(
            DegreeBound(
                x.shape,
                1 + argument.above + count * argument.below,
                count * argument.below,
                1 + argument.bits_above + count * (argument.bits_below + math.log2(self.widest)),
                count * (argument.bits_below + math.log2(self.widest)),
            )
        )

    def sqrt(self, x: DegreeBound) -> DegreeBound:
        """The root of a quotient is the root of above times below, over below."""
        return self._met(
            DegreeBound(x.shape, max(1.0, x.degree / 2), x.below, x.bits / 2, x.bits_below)
        )

    def absolute(self, x: DegreeBound) -> DegreeBound:
        return self.sqrt(self.multiply(x, x))

    def maximum(self, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        return self.one_of([x, y]).at(joint(x, y))

    minimum = maximum

    def compare(self, how: str, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        return DegreeBound(self.subtract(x, y).shape)

    def select(self, where: DegreeBound, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        return self.one_of([x, y]).at(joint(where, x, y))

    def function(self, function: Function, *arguments: DegreeBound) -> DegreeBound:
        if function.means is not None:
            found: DegreeBound = function.means(self, *arguments)
            return found
        return DegreeBound(joint(*arguments))

    def sum(self, x: DegreeBound, axes: Sequence[int]) -> DegreeBound:
        count = math.prod(x.shape[axis] for axis in axes)
        return self._total(x.at(reduced(x, axes)), count)

    def _total(self, x: DegreeBound, count: int) -> DegreeBound:
        rest = max(count - 1, 0)
        return self._met(
            DegreeBound(
                x.shape,
                x.above + rest * x.below,
                count * x.below,
                x.bits_above + rest * x.bits_below + math.log2(max(count, 1)),
                count * x.bits_below,
            )
        )

    def largest(self, x: DegreeBound, axes: Sequence[int]) -> DegreeBound:
        return self.one_of([x]).at(reduced(x, axes))

    def matmul(self, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        product = self.multiply(x.at(()), y.at(()))
        return self._total(product.at(product_shape(x, y)), x.shape[-1])

    def cast(self, x: DegreeBound, dtype: str) -> DegreeBound:
        return self.one_of([x])

    def one_of(self, values: Sequence[DegreeBound]) -> DegreeBound:
        """Elements that are one of these, or known by name."""
        return reduce(_larger, [*values, DegreeBound(())])


def _larger(x: DegreeBound, y: DegreeBound) -> DegreeBound:
    return DegreeBound(
        x.shape,
        max(x.above, y.above),
        max(x.below, y.below),
        max(x.bits_above, y.bits_above),
        max(x.bits_below, y.bits_below),
    )


def degree_bounds(*programs: Program, widest: int = 1, released: int = 0) -> Degrees:
    """The bounds of everything that some programs compute."""
    found = Degrees(widest, released)
    for program in programs:
        run(program, found, [DegreeBound(sizes(term)) for term in program.inputs])
    return found
