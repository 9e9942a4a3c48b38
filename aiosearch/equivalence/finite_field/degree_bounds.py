"""Bounds on polynomial degrees and coefficients, for the chance that different programs agree.

Problem: by the lemma of Schwartz and Zippel, a polynomial of degree d that is not zero vanishes at
a uniform point of a field of p elements with a chance of at most d/p. So the verifier has to know a
bound on the degree of everything that it compares, without writing the polynomials out.

Method: every element is a quotient of polynomials in the inputs, where each exponential, root and
value known by name counts as an unknown of its own. Four numbers bound all elements of a tensor
(`DegreeBound`): the degrees of numerator and denominator, and the bits of the sum of their absolute
coefficients. They add in products and, over a common denominator, in sums.

Example: `x` has degree 1 over 0; `div(x, y)` has 1 over 1; `add(div(x, y), div(z, w))` = (xw +
zy)/(yw) has 2 over 2, and its numerator, two terms of coefficient 1, has 1 bit.

Invariant: bounds only grow, and `Degrees` keeps the largest that was met. Cost: one step for each
term of the program, whatever the sizes. See docs/why/verdicts.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from ...tensor.algebra import Function
from ...tensor.analysis.abstract_interpretation import (
    FactAlgebra,
    joint,
    product_shape,
    reduced,
    run,
    sizes,
)
from ...tensor.terms import Program


@dataclass(frozen=True, slots=True)
class DegreeBound:
    """The shape of a tensor, and four bounds that hold for each of its elements."""

    shape: tuple[int, ...]
    above: float = 1.0
    """The degree of the numerator; an input is an unknown of degree 1."""
    below: float = 0.0
    """The degree of the denominator."""
    bits_above: float = 0.0
    """log2 of the sum of the numerator's absolute coefficients."""
    bits_below: float = 0.0
    """log2 of the sum of the denominator's absolute coefficients."""

    @property
    def degree(self) -> float:
        """The degree of the polynomial that two such elements, multiplied out, are compared by."""
        return self.above + self.below

    @property
    def bits(self) -> float:
        """Bits of the coefficients, `bits_above` and `bits_below` together."""
        return self.bits_above + self.bits_below

    def at(self, shape: Sequence[int]) -> DegreeBound:
        """The bounds for a tensor of another `shape`."""
        return DegreeBound(tuple(shape), self.above, self.below, self.bits_above, self.bits_below)


class Degrees(FactAlgebra[DegreeBound]):
    """Evaluates programs on `DegreeBound`, and keeps the largest that was met.

    `widest` is the most terms that a sum had whose exponents were moved by their mean
    (`ExponentialSum.normal`), and `released` the highest power of what is under logarithms that an
    exponential gave back (`Scalars.exp`).
    """

    def __init__(self, widest: int = 1, released: int = 0) -> None:
        self.widest = widest
        self.released = released
        self._largest = DegreeBound(())
        # The largest argument of an exponential, and of a logarithm: they enter exponents and
        # products apart from the values themselves.
        self._argument = DegreeBound((), 0.0, 0.0, 0.0, 0.0)
        self._logged = DegreeBound((), 0.0, 0.0, 0.0, 0.0)

    @property
    def degree(self) -> float:
        """Degree of everything that is compared: coefficients, keys, and sums of exponents."""
        argument = self._argument
        # Comparing a/b with c/d compares ad with cb: twice the degree. The key of a sum adds one
        # symbol (+1); an exponent is a sum of `_exponents` arguments over a common denominator.
        return 2 * self._largest.degree + 1 + argument.above + self._exponents * argument.below

    @property
    def bits(self) -> float:
        """Bits of the integer coefficients of everything that is compared; see `degree`."""
        argument, count = self._argument, self._exponents
        per_exponent = argument.bits_below + math.log2(1 + self.widest)
        return (
            2 * self._largest.bits
            + argument.bits_above
            + count * per_exponent
            + math.log2(1 + count)
        )

    @property
    def _exponents(self) -> float:
        """How many arguments of exponentials an exponent consists of, at most.

        A term is a product of no more exponentials than its degree, and `normal` moves each by a
        mean of `widest` exponents.
        """
        return 2 * self._largest.degree**2 * (1 + self.widest)

    def _met(self, value: DegreeBound) -> DegreeBound:
        """Takes `value` into the maximum, and returns it."""
        self._largest = _larger(self._largest, value)
        return value

    def constant(self, value: Fraction | float) -> DegreeBound:
        """A rational number: degree 0, and the bits of numerator and denominator."""
        if not isinstance(value, Fraction):
            return DegreeBound(())
        above, below = abs(value.numerator).bit_length(), value.denominator.bit_length()
        return DegreeBound((), 0.0, 0.0, float(above), float(below))

    def iota(self, shape: Sequence[int], axis: int) -> DegreeBound:
        """Positions are integers below the axis' size."""
        return DegreeBound(tuple(shape), 0.0, 0.0, float(max(shape[axis], 1).bit_length()))

    def add(self, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        """`a/b + c/d = (ad + cb)/(bd)`: the degree above is the larger of two."""
        return self._met(
            DegreeBound(
                joint(x, y),
                max(x.above + y.below, y.above + x.below),
                x.below + y.below,
                # +1: two sums of absolute coefficients add to at most twice the larger.
                max(x.bits_above + y.bits_below, y.bits_above + x.bits_below) + 1,
                x.bits_below + y.bits_below,
            )
        )

    subtract = add

    def multiply(self, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        """`a/b · c/d`: degrees and bits add."""
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
        """Multiplies by the reciprocal, which has the bounds above and below exchanged."""
        return self.multiply(x, DegreeBound(y.shape, y.below, y.above, y.bits_below, y.bits_above))

    def negative(self, x: DegreeBound) -> DegreeBound:
        return x

    def exp(self, x: DegreeBound) -> DegreeBound:
        """An unknown, times powers of what was under logarithms."""
        self._argument = _larger(self._argument, x)
        # exp(n·log x + y) = x^n·exp(y): the base of the logarithm comes back, to a power seen in
        # the run.
        degree = self.released * self._logged.degree
        bits = self.released * self._logged.bits
        return self._met(DegreeBound(x.shape, 1 + degree, degree, bits, bits))

    def log(self, x: DegreeBound) -> DegreeBound:
        """An unknown, plus a mean of exponents that `Scalars.log` takes out of a sum."""
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
        """`√(a/b) = √(a·b)/b`: an unknown whose square is `a·b`."""
        return self._met(
            # A root is an unknown of degree 1, but bounded by half its radicand where constants
            # leave it.
            DegreeBound(x.shape, max(1.0, x.degree / 2), x.below, x.bits / 2, x.bits_below)
        )

    def absolute(self, x: DegreeBound) -> DegreeBound:
        """`√(x²)`, as `Scalars.absolute` computes it."""
        return self.sqrt(self.multiply(x, x))

    def maximum(self, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        """One of the operands, or a symbol of their set."""
        return self.one_of([x, y]).at(joint(x, y))

    minimum = maximum

    def compare(self, how: str, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        """0, 1 or a symbol; the difference that is looked at counts towards `degree`."""
        return DegreeBound(self.subtract(x, y).shape)

    def select(self, where: DegreeBound, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        """One of the operands, a symbol of all three, or a product with the truth value."""
        either = self.one_of([x, y]).at(joint(where, x, y))
        return self.multiply(where.at(either.shape), either)

    def function(self, function: Function, *arguments: DegreeBound) -> DegreeBound:
        """A function by its definition, or a symbol: an unknown of degree 1."""
        if function.means is not None:
            composed: DegreeBound = function.means(self, *arguments)
            return composed
        return DegreeBound(joint(*arguments))

    def sum(self, x: DegreeBound, axes: Sequence[int]) -> DegreeBound:
        count = math.prod(x.shape[axis] for axis in axes)
        return self._total(x.at(reduced(x, axes)), count)

    def _total(self, x: DegreeBound, count: int) -> DegreeBound:
        """A sum of `count` quotients that need not share a denominator."""
        additions = max(count - 1, 0)
        return self._met(
            DegreeBound(
                x.shape,
                # n quotients over the product of their denominators: each numerator is multiplied
                # by n-1 others.
                x.above + additions * x.below,
                count * x.below,
                x.bits_above + additions * x.bits_below + math.log2(max(count, 1)),
                count * x.bits_below,
            )
        )

    def largest(self, x: DegreeBound, axes: Sequence[int]) -> DegreeBound:
        return self.one_of([x]).at(reduced(x, axes))

    def matmul(self, x: DegreeBound, y: DegreeBound) -> DegreeBound:
        product = self.multiply(x.at(()), y.at(()))
        return self._total(product.at(product_shape(x, y)), x.shape[-1])

    def cast(self, x: DegreeBound, dtype: str) -> DegreeBound:
        """The element itself, or a symbol of it."""
        return self.one_of([x])

    def one_of(self, values: Sequence[DegreeBound]) -> DegreeBound:
        """Elements that are one of `values`, or a symbol."""
        return reduce(_larger, [*values, DegreeBound(())])


def _larger(x: DegreeBound, y: DegreeBound) -> DegreeBound:
    """The larger of each bound, at the shape of `x`."""
    return DegreeBound(
        x.shape,
        max(x.above, y.above),
        max(x.below, y.below),
        max(x.bits_above, y.bits_above),
        max(x.bits_below, y.bits_below),
    )


def degree_bounds(*programs: Program, widest: int = 1, released: int = 0) -> Degrees:
    """The bounds of everything that `programs` compute, as one `Degrees`."""
    algebra = Degrees(widest, released)
    for program in programs:
        run(program, algebra, [DegreeBound(sizes(term)) for term in program.inputs])
    return algebra
