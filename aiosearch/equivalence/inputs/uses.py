"""What a program does with its inputs, as far as it says how they are to be drawn.

A weight is the operand of a product that sums over many: `x @ w` with 256 rows of `w` has elements
of size one where those of `w` are divided by 16. A label is a whole number that is compared with
places: `labels == iota(10)` wants labels from 0 to 9. `input_uses(program)` finds both by abstract
interpretation, whatever operators the program is written in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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

_NO_INPUTS: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _Origin:
    """Where the elements of a value are from."""

    shape: tuple[int, ...]
    inputs: frozenset[int] = _NO_INPUTS
    """Inputs whose elements these are, up to a constant factor."""
    factors: frozenset[int] = _NO_INPUTS
    """Inputs of which each element is a multiple."""
    ramp: int = 0
    """How many places there are, if the value counts them."""
    literal: Fraction | float | None = None

    def at(self, shape: Sequence[int]) -> _Origin:
        return replace(self, shape=tuple(shape))


class InputUses(FactAlgebra[_Origin]):
    """Evaluates a program on `_Origin`s, and collects how its inputs are used."""

    def __init__(self) -> None:
        self.fan_in: dict[int, int] = {}
        """How many products with an input's elements are summed up, by position."""
        self.places: dict[int, int] = {}
        """With how many whole numbers from 0 an input's elements are compared, by position."""

    def constant(self, value: Fraction | float) -> _Origin:
        return _Origin((), literal=value)

    def iota(self, shape: Sequence[int], axis: int) -> _Origin:
        return _Origin(tuple(shape), ramp=shape[axis])

    def add(self, x: _Origin, y: _Origin) -> _Origin:
        return _Origin(joint(x, y))

    subtract = maximum = minimum = add

    def multiply(self, x: _Origin, y: _Origin) -> _Origin:
        """A product; of two inputs the right one counts as the weight, as in `x @ w`."""
        shape = joint(x, y)
        for constant, other in ((x, y), (y, x)):
            if constant.literal is not None:
                return replace(other.at(shape), ramp=0, literal=None)
        # A square is no product with a weight.
        factors = _NO_INPUTS if x.inputs == y.inputs else y.inputs or x.inputs
        return _Origin(shape, factors=factors | x.factors | y.factors)

    def divide(self, x: _Origin, y: _Origin) -> _Origin:
        shape = joint(x, y)
        if y.literal is not None:
            return replace(x.at(shape), ramp=0, literal=None)
        return _Origin(shape, factors=x.inputs | x.factors)

    def negative(self, x: _Origin) -> _Origin:
        return replace(x, ramp=0, literal=None)

    def exp(self, x: _Origin) -> _Origin:
        return _Origin(x.shape)

    log = sqrt = absolute = exp

    def compare(self, how: str, x: _Origin, y: _Origin) -> _Origin:
        """Truth values; a comparison for equality with places says what an input counts."""
        if how in ("==", "!="):
            for value, places in ((x, y), (y, x)):
                # What is compared with 0 or 1 is a truth value in whole numbers.
                count = 2 if places.literal in (0, 1) else places.ramp
                for position in value.inputs if count else ():
                    self.places[position] = max(count, self.places.get(position, 0))
        return _Origin(joint(x, y))

    def select(self, where: _Origin, x: _Origin, y: _Origin) -> _Origin:
        return self.one_of([x, y]).at(joint(where, x, y))

    def function(self, function: Function, *arguments: _Origin) -> _Origin:
        return _Origin(joint(*arguments))

    def sum(self, x: _Origin, axes: Sequence[int]) -> _Origin:
        self._contracted(x.factors, math.prod(x.shape[axis] for axis in axes))
        return _Origin(reduced(x, axes))

    def largest(self, x: _Origin, axes: Sequence[int]) -> _Origin:
        return x.at(reduced(x, axes))

    def matmul(self, x: _Origin, y: _Origin) -> _Origin:
        self._contracted(y.inputs or x.inputs, x.shape[-1])
        return _Origin(product_shape(x, y))

    def cast(self, x: _Origin, dtype: str) -> _Origin:
        return x

    def one_of(self, values: Sequence[_Origin]) -> _Origin:
        """Elements of any of the inputs that `values` are from, if none is computed."""
        alike = all(value.inputs or value.literal is not None for value in values)
        inputs = frozenset[int]().union(*(value.inputs for value in values))
        return _Origin(values[0].shape, inputs if alike else _NO_INPUTS)

    def _contracted(self, positions: frozenset[int], count: int) -> None:
        """Notes that products with these inputs are summed up, `count` of them."""
        for position in positions:
            self.fan_in[position] = max(count, self.fan_in.get(position, 1))


def input_uses(program: Program) -> InputUses:
    """How `program` uses its inputs, by position."""
    algebra = InputUses()
    origins = [
        _Origin(sizes(term), frozenset([position])) for position, term in enumerate(program.inputs)
    ]
    run(program, algebra, origins)
    return algebra
