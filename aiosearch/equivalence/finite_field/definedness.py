"""Sign analysis of where a program may be undefined on more than a few points.

Problem: fields know nothing of domains. `sub(sqrt(x), sqrt(x))` is the constant 0 in a field and
undefined for every x < 0 in real numbers; a candidate that returns it in place of 0 must not be
accepted.

Method: abstract interpretation with one `ValueRange` for each tensor. `exp(x)` has `Sign.POSITIVE`;
therefore `sqrt(exp(x))` is defined everywhere, and `log(sub(x, y))`, whose sign is `Sign.ANY`, sets
`partial`.

A division by zero is left out of account here, since a divisor vanishes on few points (a set of
measure zero), except for divisors that vanish in whole regions because they are selected, such as
`max(x, 0)`: they are `rough`.

Invariant: what is reported defined is defined; `partial` may be a false alarm, which costs an
answer and never gives a wrong one. Cost: one step for each term, whatever the sizes. See
docs/why/verdicts.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from fractions import Fraction

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
from ...tensor.types import DType

PARTIAL = ("sqrt", "log", "a quotient")
"""Names of functions whose domain `Domains` tracks; others are taken at their name."""


class Sign(IntEnum):
    """What is certain of the sign of all elements; the order makes `min` the weaker claim."""

    ANY = 0
    NOT_NEGATIVE = 1
    POSITIVE = 2


@dataclass(frozen=True, slots=True)
class ValueRange:
    """What values the elements of one tensor may have: the fact that `Domains` computes with."""

    shape: tuple[int, ...]
    sign: Sign = Sign.ANY
    rough: bool = False
    """Whether it may be zero in whole regions, as `max(x, 0)` is for all x <= 0."""
    partial: bool = False
    """Whether it may be undefined in whole regions, as `sqrt(x)` is for all x < 0."""

    def at(self, shape: Sequence[int]) -> ValueRange:
        """The range of a tensor of another `shape` with elements from the same values."""
        return replace(self, shape=tuple(shape))


class Domains(FactAlgebra[ValueRange]):
    """Evaluates programs on `ValueRange`, and collects what may be applied outside its domain."""

    def __init__(self) -> None:
        self.partial: set[str] = set()
        """Functions of `PARTIAL` that were applied to what may lie outside their domain."""
        self.outputs: list[bool] = []
        """For each output whether it may be undefined in whole regions; set by `domains`."""
        self.swallowed = False
        """Whether a `compare` hides something that may be undefined: its result is a number."""

    def constant(self, value: Fraction | float) -> ValueRange:
        """The sign of a number: 0 is `NOT_NEGATIVE`, above it `POSITIVE`."""
        # Zero is zero everywhere: 0/0, as jax writes NaN, is undefined in the whole region.
        sign = Sign(1 + (value > 0)) if value >= 0 else Sign.ANY
        return ValueRange((), sign, rough=value == 0)

    def iota(self, shape: Sequence[int], axis: int) -> ValueRange:
        return ValueRange(tuple(shape), Sign.NOT_NEGATIVE)

    def add(self, x: ValueRange, y: ValueRange) -> ValueRange:
        """A sum is positive if both summands are not negative and one is positive."""
        # Sign.ANY is 0: min() is truthy exactly if neither operand may be negative.
        sign = max(x.sign, y.sign) if min(x.sign, y.sign) else Sign.ANY
        return replace(self._joined(x, y), sign=sign)

    def subtract(self, x: ValueRange, y: ValueRange) -> ValueRange:
        return replace(self._joined(x, y), sign=Sign.ANY)

    def multiply(self, x: ValueRange, y: ValueRange) -> ValueRange:
        """A product; only squares have a known sign, recognised by `x is y`."""
        product = self._joined(x, y)
        # x·x is not negative whatever x is. The test is for the same object: the evaluator passes
        # the value of a shared term, so that `mul(t, t)` is seen and two equal terms built apart
        # are not.
        return replace(product, sign=max(x.sign, Sign.NOT_NEGATIVE)) if x is y else product

    def divide(self, x: ValueRange, y: ValueRange) -> ValueRange:
        """A quotient, `partial` where the divisor may vanish in a whole region."""
        ratio = self._joined(x, y)
        if y.rough and y.sign is not Sign.POSITIVE:
            # A divisor such as x - y vanishes on a set of measure zero, which is allowed; max(x, 0)
            # vanishes on a half space.
            self.partial.add("a quotient")
            ratio = replace(ratio, partial=True)
        # Where y is known not to be negative, it is positive wherever the quotient is defined.
        return replace(ratio, sign=x.sign if y.sign else Sign.ANY)

    def negative(self, x: ValueRange) -> ValueRange:
        """`-x`, of which no sign is claimed."""
        return replace(x, sign=Sign.ANY)

    def exp(self, x: ValueRange) -> ValueRange:
        return replace(x, sign=Sign.POSITIVE)

    def log(self, x: ValueRange) -> ValueRange:
        """Defined for certain only where `x` is positive."""
        return self._demand("log", x.sign is Sign.POSITIVE, replace(x, sign=Sign.ANY))

    def sqrt(self, x: ValueRange) -> ValueRange:
        """Defined for certain where `x` is not negative."""
        root = replace(x, sign=max(x.sign, Sign.NOT_NEGATIVE))
        return self._demand("sqrt", bool(x.sign), root)

    def _demand(self, name: str, granted: bool, range_: ValueRange) -> ValueRange:
        """`range_` itself where its operand is `granted`.

        Else `partial`, and `name` is recorded.
        """
        if granted:
            return range_
        self.partial.add(name)
        return replace(range_, partial=True)

    def absolute(self, x: ValueRange) -> ValueRange:
        return replace(x, sign=max(x.sign, Sign.NOT_NEGATIVE))

    def maximum(self, x: ValueRange, y: ValueRange) -> ValueRange:
        # A maximum is at least each operand, so the stronger claim holds. It is rough: one operand
        # may be the constant 0.
        return replace(self._joined(x, y), sign=max(x.sign, y.sign), rough=True)

    def minimum(self, x: ValueRange, y: ValueRange) -> ValueRange:
        return replace(self._joined(x, y), rough=True)

    def compare(self, how: str, x: ValueRange, y: ValueRange) -> ValueRange:
        """Truth values: 0 or 1, constant on regions, and so `rough`."""
        # NaN < 1 is false, a number: the truth value is defined even where its operand is not.
        self.swallowed |= x.partial or y.partial
        return ValueRange(joint(x, y), Sign.NOT_NEGATIVE, rough=True)

    def select(self, where: ValueRange, x: ValueRange, y: ValueRange) -> ValueRange:
        return replace(self._joined(x, y), shape=joint(where, x, y), rough=True)

    def function(self, function: Function, *arguments: ValueRange) -> ValueRange:
        """A function by its definition, unless its declared `positive` says more than that."""
        if function.means is not None and not function.positive:
            composed: ValueRange = function.means(self, *arguments)
            return composed
        # Functions such as tanh are defined everywhere; one whose domain is smaller has to be
        # expressed by `means`.
        sign = Sign.POSITIVE if function.positive else Sign.ANY
        rough = function.integral or any(argument.rough for argument in arguments)
        return replace(self._joined(*arguments), sign=sign, rough=rough)

    def sum(self, x: ValueRange, axes: Sequence[int]) -> ValueRange:
        """Sums keep the sign of their summands."""
        count = math.prod(x.shape[axis] for axis in axes)
        return self._total(x.at(reduced(x, axes)), count)

    def largest(self, x: ValueRange, axes: Sequence[int]) -> ValueRange:
        return replace(x.at(reduced(x, axes)), rough=True)

    def matmul(self, x: ValueRange, y: ValueRange) -> ValueRange:
        product = self.multiply(x.at(()), y.at(()))
        return self._total(product.at(product_shape(x, y)), x.shape[-1])

    def _total(self, x: ValueRange, count: int) -> ValueRange:
        """A sum of `count` elements; of none it is zero everywhere."""
        return x if count else replace(x, sign=Sign.NOT_NEGATIVE, rough=True)

    def cast(self, x: ValueRange, dtype: str) -> ValueRange:
        """`bool` is a comparison with 0; `i32` truncates, and is zero between -1 and 1."""
        if dtype == DType.BOOL:
            return self.compare("!=", x, self.constant(Fraction(0)))
        return replace(x, rough=x.rough or dtype == DType.I32)

    def one_of(self, values: Sequence[ValueRange]) -> ValueRange:
        """The weakest claim that holds for each of `values`."""
        return ValueRange(
            values[0].shape,
            min(value.sign for value in values),
            any(value.rough for value in values),
            any(value.partial for value in values),
        )

    def _joined(self, *values: ValueRange) -> ValueRange:
        """Pointwise on broadcast operands: no more than what is certain of all of them."""
        return self.one_of(values).at(joint(*values))


def domains(program: Program) -> Domains:
    """Analyses a `program` whose inputs may have any sign; the result has `outputs` filled in."""
    algebra = Domains()
    outputs = run(program, algebra, [ValueRange(sizes(term)) for term in program.inputs])
    algebra.outputs = [value.partial for value in outputs]
    return algebra
