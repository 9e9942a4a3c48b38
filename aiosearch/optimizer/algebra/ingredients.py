"""How often each input and each function takes part in a value: what a part cannot exceed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from ...equivalence.uniform import Uniform, joint, product_shape, reduced
from ...tensor.algebra import Function


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of a tensor: the degree in each input and function, above and below a fraction together."""

    shape: tuple[int, ...]
    of: Counter[str]

    def at(self, shape: Sequence[int]) -> Amounts:
        return Amounts(tuple(shape), self.of)

    def within(self, whole: Amounts) -> bool:
        return self.of <= whole.of


class Ingredients(Uniform[Amounts]):
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
