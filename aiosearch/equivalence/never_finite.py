"""Outputs that are finite on no input, such as a mean of no elements or a quotient by a literal 0.

Problem: where the original is nowhere finite, inputs say nothing, unless none can.

Method: interval arithmetic, one interval for each tensor. `log` of what is at most 0, a root of
what is below, a quotient by 0, and what is computed of such a value is never finite.

Example: `sqrt(minimum(x, -1))`: the radicand is in [-inf, -1].

Invariant: what is `never` finite is so for all inputs; the reverse is not claimed. A choice, a
comparison and a bound may make numbers of anything, and end it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ..tensor.algebra import Function
from ..tensor.analysis.abstract_interpretation import (
    FactAlgebra,
    joint,
    product_shape,
    reduced,
    run,
    sizes,
)
from ..tensor.errors import ShapeError
from ..tensor.terms import Program
from ..tensor.types import DType


@dataclass(frozen=True)
class _Interval:
    """Where the elements of a value are, if they are numbers."""

    shape: tuple[int, ...]
    low: float = -math.inf
    high: float = math.inf
    never: bool = False
    """Whether no element is finite on any input."""

    def at(self, shape: Sequence[int]) -> _Interval:
        return replace(self, shape=tuple(shape))


class Intervals(FactAlgebra[_Interval]):
    """Evaluates a program on `_Interval`s."""

    def constant(self, value: Fraction | float) -> _Interval:
        number = float(value)
        return _Interval((), number, number, not math.isfinite(number))

    def iota(self, shape: Sequence[int], axis: int) -> _Interval:
        return _Interval(tuple(shape), 0.0, float(max(shape[axis] - 1, 0)))

    def add(self, x: _Interval, y: _Interval) -> _Interval:
        low, high = x.low + y.low, x.high + y.high
        return _wide(self._spoiled(x, y), low, high)

    def subtract(self, x: _Interval, y: _Interval) -> _Interval:
        difference = self.add(x, self.negative(y))
        # The value of one term: what is taken from itself leaves 0, or no number.
        return replace(difference, low=0.0, high=0.0) if x is y else difference

    def multiply(self, x: _Interval, y: _Interval) -> _Interval:
        ends = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
        return _wide(self._spoiled(x, y), min(ends), max(ends))

    def divide(self, x: _Interval, y: _Interval) -> _Interval:
        """A quotient; by 0 it is infinite or no number, by an infinity it is 0."""
        never = x.never or y.low == y.high == 0
        quotient = _Interval(joint(x, y), never=never)
        if y.low != y.high or y.low == 0 or math.isinf(y.low):
            return quotient
        ends = (x.low / y.low, x.high / y.low)
        return _wide(quotient, min(ends), max(ends))

    def negative(self, x: _Interval) -> _Interval:
        return replace(x, low=-x.high, high=-x.low)

    def exp(self, x: _Interval) -> _Interval:
        # exp(-inf) is 0: what may be that is no obstacle.
        return _Interval(x.shape, 0.0, never=x.never and x.low > -math.inf)

    def log(self, x: _Interval) -> _Interval:
        return _Interval(x.shape, never=x.never or x.high <= 0)

    def sqrt(self, x: _Interval) -> _Interval:
        return _Interval(x.shape, 0.0, never=x.never or x.high < 0)

    def absolute(self, x: _Interval) -> _Interval:
        return replace(x, low=max(0.0, x.low, -x.high), high=max(-x.low, x.high))

    def maximum(self, x: _Interval, y: _Interval) -> _Interval:
        # +inf stays the larger one.
        lost = any(value.never and value.low == math.inf for value in (x, y))
        either = self._bounded(x, y)
        either = replace(either, never=either.never or lost)
        return _wide(either, max(x.low, y.low), max(x.high, y.high))

    def minimum(self, x: _Interval, y: _Interval) -> _Interval:
        lost = any(value.never and value.high == -math.inf for value in (x, y))
        either = self._bounded(x, y)
        either = replace(either, never=either.never or lost)
        return _wide(either, min(x.low, y.low), min(x.high, y.high))

    def compare(self, how: str, x: _Interval, y: _Interval) -> _Interval:
        return _Interval(joint(x, y), 0.0, 1.0)

    def select(self, where: _Interval, x: _Interval, y: _Interval) -> _Interval:
        return self.one_of([x, y]).at(joint(where, x, y))

    def function(self, function: Function, *arguments: _Interval) -> _Interval:
        first, shape = arguments[0], joint(*arguments)
        match function.name:
            case "rem":
                return self._remainder(first, arguments[1])
            case "log1p":
                return _Interval(shape, never=first.never or first.high <= -1)
            case "lgamma" | "digamma":
                is_pole = first.low == first.high <= 0 and first.low == math.floor(first.low)
                return _Interval(shape, never=first.never or is_pole)
        # The step of an infinity is one, and its sine no number, where a tangent is bounded.
        unbounded = function.integral or function.name in ("sin", "cos")
        never = unbounded and all(argument.never for argument in arguments)
        return _Interval(shape, never=never)

    def _remainder(self, x: _Interval, y: _Interval) -> _Interval:
        """What is left of an infinity is no number, and nothing of what divides itself."""
        never = x.never or y.low == y.high == 0
        reach = max(abs(y.low), abs(y.high))
        low, high = max(min(x.low, 0.0), -reach), min(max(x.high, 0.0), reach)
        return _Interval(joint(x, y), *((0.0, 0.0) if x is y else (low, high)), never)

    def sum(self, x: _Interval, axes: Sequence[int]) -> _Interval:
        count = math.prod(x.shape[axis] for axis in axes)
        if not count:
            return _Interval(reduced(x, axes), 0.0, 0.0)
        return _wide(x.at(reduced(x, axes)), x.low * count, x.high * count)

    def largest(self, x: _Interval, axes: Sequence[int]) -> _Interval:
        """The largest of nothing is an infinity."""
        if not math.prod(x.shape[axis] for axis in axes):
            return _Interval(reduced(x, axes), -math.inf, -math.inf, never=True)
        return x.at(reduced(x, axes))

    def matmul(self, x: _Interval, y: _Interval) -> _Interval:
        shape = product_shape(x, y)
        products = self.multiply(x.at(()), y.at(())).at((*shape, x.shape[-1]))
        return self.sum(products, (len(shape),)).at(shape)

    def cast(self, x: _Interval, dtype: str) -> _Interval:
        return _Interval(x.shape, never=x.never and dtype not in (DType.BOOL, DType.I32))

    def one_of(self, values: Sequence[_Interval]) -> _Interval:
        low, high = (min(x.low for x in values), max(x.high for x in values))
        return _Interval(values[0].shape, low, high, all(x.never for x in values))

    def _spoiled(self, *values: _Interval) -> _Interval:
        """What is computed of values of which one is never finite is not either."""
        return _Interval(joint(*values), never=any(value.never for value in values))

    def _bounded(self, *values: _Interval) -> _Interval:
        """What is one of several values."""
        return _Interval(joint(*values), never=all(value.never for value in values))


def _wide(x: _Interval, low: float, high: float) -> _Interval:
    """`x` between two ends; where those are no numbers, anywhere."""
    ends = (-math.inf, math.inf) if math.isnan(low) or math.isnan(high) else (low, high)
    return replace(x, low=ends[0], high=ends[1])


def never_finite(program: Program) -> tuple[bool, ...]:
    """For each output whether it is finite on no input."""
    try:
        inputs = [_Interval(sizes(term)) for term in program.inputs]
    except ShapeError:
        return (False,) * len(program.outputs)
    return tuple(fact.never for fact in run(program, Intervals(), inputs))
