"""Sign analysis of where a program may be undefined on more than a few points.

Fields know nothing of domains: a root less itself is zero there, also where there is no root. A
division by zero is left out of account here, since that happens on few points, but for divisors
that are zero in whole regions because they are chosen, such as a maximum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from fractions import Fraction

from ...tensor.algebra import Function
from ...tensor.terms import Program
from ...tensor.types import DType
from ..abstract_interpretation import FactAlgebra, joint, product_shape, reduced, run, sizes

PARTIAL = ("sqrt", "log", "a quotient")
"""What is known of where it is defined."""


class Sign(IntEnum):
    ANY = 0
    NOT_NEGATIVE = 1
    POSITIVE = 2


@dataclass(frozen=True, slots=True)
class ValueRange:
    """What values a tensor may have."""

    shape: tuple[int, ...]
    sign: Sign = Sign.ANY
    rough: bool = False
    """Whether it may be zero in whole regions."""
    partial: bool = False
    """Whether it may be undefined in whole regions."""

    def at(self, shape: Sequence[int]) -> ValueRange:
        return replace(self, shape=tuple(shape))


class Domains(FactAlgebra[ValueRange]):
    """Evaluates programs in ranges, and keeps what may be applied outside its domain."""

    def __init__(self) -> None:
        self.partial: set[str] = set()
        self.outputs: list[bool] = []
        """For each output whether it may be undefined in whole regions."""
        self.swallowed = False
        """Whether something that may be undefined is compared, which then says nothing."""

    def constant(self, value: Fraction | float) -> ValueRange:
        return ValueRange((), Sign(1 + (value > 0)) if value >= 0 else Sign.ANY)

    def iota(self, shape: Sequence[int], axis: int) -> ValueRange:
        return ValueRange(tuple(shape), Sign.NOT_NEGATIVE)

    def add(self, x: ValueRange, y: ValueRange) -> ValueRange:
        sign = max(x.sign, y.sign) if min(x.sign, y.sign) else Sign.ANY
        return replace(self._joined(x, y), sign=sign)

    def subtract(self, x: ValueRange, y: ValueRange) -> ValueRange:
        return replace(self._joined(x, y), sign=Sign.ANY)

    def multiply(self, x: ValueRange, y: ValueRange) -> ValueRange:
        found = self._joined(x, y)
        return replace(found, sign=max(x.sign, Sign.NOT_NEGATIVE)) if x is y else found

    def divide(self, x: ValueRange, y: ValueRange) -> ValueRange:
        found = self._joined(x, y)
        if y.rough and y.sign is not Sign.POSITIVE:
            self.partial.add("a quotient")
            found = replace(found, partial=True)
        return replace(found, sign=x.sign if y.sign else Sign.ANY)

    def negative(self, x: ValueRange) -> ValueRange:
        return replace(x, sign=Sign.ANY)

    def exp(self, x: ValueRange) -> ValueRange:
        return replace(x, sign=Sign.POSITIVE)

    def log(self, x: ValueRange) -> ValueRange:
        return self._demand("log", x.sign is Sign.POSITIVE, replace(x, sign=Sign.ANY))

    def sqrt(self, x: ValueRange) -> ValueRange:
        found = replace(x, sign=max(x.sign, Sign.NOT_NEGATIVE))
        return self._demand("sqrt", bool(x.sign), found)

    def _demand(self, name: str, granted: bool, found: ValueRange) -> ValueRange:
        if granted:
            return found
        self.partial.add(name)
        return replace(found, partial=True)

    def absolute(self, x: ValueRange) -> ValueRange:
        return replace(x, sign=max(x.sign, Sign.NOT_NEGATIVE))

    def maximum(self, x: ValueRange, y: ValueRange) -> ValueRange:
        return replace(self._joined(x, y), sign=max(x.sign, y.sign), rough=True)

    def minimum(self, x: ValueRange, y: ValueRange) -> ValueRange:
        return replace(self._joined(x, y), rough=True)

    def compare(self, how: str, x: ValueRange, y: ValueRange) -> ValueRange:
        self.swallowed |= x.partial or y.partial
        return ValueRange(joint(x, y), Sign.NOT_NEGATIVE, rough=True)

    def select(self, where: ValueRange, x: ValueRange, y: ValueRange) -> ValueRange:
        return replace(self._joined(x, y), shape=joint(where, x, y), rough=True)

    def function(self, function: Function, *arguments: ValueRange) -> ValueRange:
        if function.means is not None and not function.positive:
            found: ValueRange = function.means(self, *arguments)
            return found
        sign = Sign.POSITIVE if function.positive else Sign.ANY
        rough = function.integral or any(argument.rough for argument in arguments)
        return replace(self._joined(*arguments), sign=sign, rough=rough)

    def sum(self, x: ValueRange, axes: Sequence[int]) -> ValueRange:
        count = math.prod(x.shape[axis] for axis in axes)
        return self._total(x.at(reduced(x, axes)), count)

    def largest(self, x: ValueRange, axes: Sequence[int]) -> ValueRange:
        return replace(x.at(reduced(x, axes)), rough=True)

    def matmul(self, x: ValueRange, y: ValueRange) -> ValueRange:
        product = self.multiply(x.at(()), y.at(()))
        return self._total(product.at(product_shape(x, y)), x.shape[-1])

    def _total(self, x: ValueRange, count: int) -> ValueRange:
        return x if count else replace(x, sign=Sign.NOT_NEGATIVE, rough=True)

    def cast(self, x: ValueRange, dtype: str) -> ValueRange:
        if dtype == DType.BOOL:
            return self.compare("!=", x, self.constant(Fraction(0)))
        return replace(x, rough=x.rough or dtype == DType.I32)

    def one_of(self, values: Sequence[ValueRange]) -> ValueRange:
        return ValueRange(
            values[0].shape,
            min(value.sign for value in values),
            any(value.rough for value in values),
            any(value.partial for value in values),
        )

    def _joined(self, *values: ValueRange) -> ValueRange:
        """Pointwise: no more than what is known of all."""
        return self.one_of(values).at(joint(*values))


def domains(program: Program) -> Domains:
    """Where a program may be undefined."""
    found = Domains()
    outputs = run(program, found, [ValueRange(sizes(term)) for term in program.inputs])
    found.outputs = [value.partial for value in outputs]
    return found
