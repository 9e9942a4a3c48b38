"""Abstract terms: what is computed, without which elements meet.

Moving elements is nothing; a sum keeps how many elements it adds up but not along which axis.
Programs that compute the same function have abstract terms that are equal under the axioms of
arithmetic; the reverse is not so. `matmul(X, W)` with an inner size of 64 is `sum(64, (X·W))`, and
so is its transpose. The superoptimizer prunes by them; see docs/why/superoptimizer.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from weakref import WeakValueDictionary

from .algebra import Function
from .evaluation import evaluate
from .operator import NUMBERS, window_count
from .sizes import Dim, Size, product
from .terms import Program
from .types import Shape

_made: WeakValueDictionary[tuple[object, ...], Abstract] = WeakValueDictionary()
"""All terms by symbol, arguments and size, as long as something holds them."""
INFIX = {"add": " + ", "subtract": " - ", "multiply": "·", "divide": " / "}
"""Symbols that are printed between their arguments."""


class Abstract:
    """A first-order term. Equal terms are one object, so that `is` compares them."""

    __slots__ = ("__weakref__", "arguments", "size", "symbol")

    symbol: str
    arguments: tuple[Abstract, ...]
    size: Dim | Fraction | float
    """How many elements a sum or maximum reduces; the value of a constant; else 1."""

    @classmethod
    def of(cls, symbol: str, *arguments: Abstract, size: Any = 1) -> Abstract:
        """The term of a symbol and arguments, created unless it exists."""
        key = (symbol, *map(id, arguments), size)
        term = _made.get(key)
        if term is None:
            term = object.__new__(cls)
            term.symbol, term.arguments, term.size = symbol, arguments, size
            # Two threads may build the same term; the first one stored is the one.
            term = _made.setdefault(key, term)
        return term

    def __str__(self) -> str:
        inner = [str(argument) for argument in self.arguments]
        if self.symbol in INFIX:
            return f"({INFIX[self.symbol].join(inner)})"
        if self.symbol == "constant":
            return str(self.size)
        if self.symbol in ("sum", "max over"):
            inner.insert(0, str(self.size))
        return f"{self.symbol}({', '.join(inner)})" if inner else self.symbol

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Shaped:
    """A term, and the shape that decides how many elements its sums reduce."""

    term: Abstract
    shape: Shape


def abstract(program: Program) -> list[Abstract]:
    """The term of each output of `program`."""
    inputs = [
        Shaped(Abstract.of(input_.parameter("name")), input_.shape) for input_ in program.inputs
    ]
    return [output.term for output in evaluate(program, Abstracts(), inputs)]


class Abstracts:
    """The `Algebra` of abstract terms."""

    def constant(self, value: Fraction | float) -> Shaped:
        whole = isinstance(value, Fraction) and value.denominator == 1
        return Shaped(Abstract.of("constant", size=int(value) if whole else value), ())

    def iota(self, shape: Sequence[Dim], axis: int) -> Shaped:
        return Shaped(Abstract.of("iota"), tuple(shape))

    def _pointwise(self, symbol: str, *xs: Shaped) -> Shaped:
        """`symbol` applied to the terms, at the broadcast shape."""
        shape: Shape = ()
        for x in xs:
            if not shape or not x.shape:
                shape = shape or x.shape
                continue
            shape = tuple(b if a == 1 else a for a, b in zip(shape, x.shape, strict=True))
        return Shaped(Abstract.of(symbol, *(x.term for x in xs)), shape)

    def add(self, x: Shaped, y: Shaped) -> Shaped:
        return self._pointwise("add", x, y)

    def subtract(self, x: Shaped, y: Shaped) -> Shaped:
        return self._pointwise("subtract", x, y)

    def multiply(self, x: Shaped, y: Shaped) -> Shaped:
        return self._pointwise("multiply", x, y)

    def divide(self, x: Shaped, y: Shaped) -> Shaped:
        """A quotient; divisors that are numbers are multiplied: a mean divides by one count."""
        if x.term.symbol == "divide" and _is_number(y.term) and _is_number(x.term.arguments[1]):
            inner, by = x.term.arguments
            joint: Any = by.size * y.term.size  # type: ignore[operator]  # sizes, by _is_number
            return Shaped(
                Abstract.of("divide", inner, Abstract.of("constant", size=joint)), x.shape
            )
        return self._pointwise("divide", x, y)

    def negative(self, x: Shaped) -> Shaped:
        return self._pointwise("negative", x)

    def exp(self, x: Shaped) -> Shaped:
        return self._pointwise("exp", x)

    def log(self, x: Shaped) -> Shaped:
        return self._pointwise("log", x)

    def sqrt(self, x: Shaped) -> Shaped:
        return self._pointwise("sqrt", x)

    def absolute(self, x: Shaped) -> Shaped:
        return self._pointwise("absolute", x)

    def maximum(self, x: Shaped, y: Shaped) -> Shaped:
        return self._pointwise("maximum", x, y)

    def minimum(self, x: Shaped, y: Shaped) -> Shaped:
        return self._pointwise("minimum", x, y)

    def compare(self, how: str, x: Shaped, y: Shaped) -> Shaped:
        return self._pointwise(how, x, y)

    def select(self, where: Shaped, x: Shaped, y: Shaped) -> Shaped:
        return self._pointwise("select", where, x, y)

    def function(self, function: Function, *arguments: Shaped) -> Shaped:
        if function.means is not None:
            composed: Shaped = function.means(self, *arguments)
            return composed
        return self._pointwise(function.name, *arguments)

    def _over(self, symbol: str, x: Shaped, axes: Sequence[int]) -> Shaped:
        """One reduction over all axes, joined with a reduction that it is applied to."""
        inner, count = x.term, product(x.shape[axis] for axis in axes)
        shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
        if count == 1:
            return Shaped(inner, shape)
        if inner.symbol == symbol and isinstance(inner.size, (int, Size)):
            # Σ over n of Σ over m is one sum of n·m elements, whichever axes these are.
            count = count * inner.size
            (inner,) = inner.arguments
        return Shaped(Abstract.of(symbol, inner, size=count), shape)

    def sum(self, x: Shaped, axes: Sequence[int]) -> Shaped:
        return self._over("sum", x, axes)

    def largest(self, x: Shaped, axes: Sequence[int]) -> Shaped:
        return self._over("max over", x, axes)

    def matmul(self, x: Shaped, y: Shaped) -> Shaped:
        """The sum of a product: `sum(k, (x·y))`."""
        left = Shaped(x.term, (*x.shape, 1))
        right = Shaped(y.term, (*y.shape[:-2], 1, *y.shape[-2:]))
        added = self.sum(self.multiply(left, right), (len(x.shape) - 1,))
        return Shaped(added.term, (*added.shape[:-2], added.shape[-1]))

    def size(self, x: Shaped, axis: int) -> Shaped:
        return Shaped(Abstract.of("constant", size=x.shape[axis]), ())

    def broadcast(self, x: Shaped, shape: Sequence[Dim]) -> Shaped:
        return Shaped(x.term, tuple(shape))

    reshape = broadcast

    def transpose(self, x: Shaped, axes: Sequence[int]) -> Shaped:
        return Shaped(x.term, tuple(x.shape[axis] for axis in axes))

    def slice(self, x: Shaped, axis: int, start: Dim, stop: Dim, step: int) -> Shaped:
        length = stop - start
        if step > 1:
            length = NUMBERS.over(length + (-NUMBERS.value(length) % step), step, "slice")
        return _with_axis(x, axis, length)

    def concatenate(self, xs: Sequence[Shaped], axis: int) -> Shaped:
        """The operands' terms, each once; order and lengths do not count."""
        length: Dim = 0
        for x in xs:
            length = length + x.shape[axis]
        terms = tuple(dict.fromkeys(x.term for x in xs))
        joined = terms[0] if len(terms) == 1 else Abstract.of("concatenate", *terms)
        return _with_axis(Shaped(joined, xs[0].shape), axis, length)

    def pad(self, x: Shaped, axis: int, low: Dim, high: Dim, value: Fraction) -> Shaped:
        return _with_axis(x, axis, low + x.shape[axis] + high)

    def diagonal(self, x: Shaped) -> Shaped:
        return Shaped(x.term, x.shape[:-1])

    def windows(self, x: Shaped, axis: int, window: Dim, stride: int, dilation: int) -> Shaped:
        places = window_count(NUMBERS, x.shape[axis], window, stride, dilation)
        return Shaped(x.term, (*x.shape[:axis], places, window, *x.shape[axis + 1 :]))

    def cast(self, x: Shaped, dtype: str) -> Shaped:
        return x

    def shape(self, x: Shaped) -> Shape:
        return x.shape


def _is_number(term: Abstract) -> bool:
    """Whether a term is a constant integer or size."""
    return term.symbol == "constant" and isinstance(term.size, (int, Size))


def _with_axis(x: Shaped, axis: int, size: Dim) -> Shaped:
    """The term with another size along `axis`."""
    return Shaped(x.term, (*x.shape[:axis], size, *x.shape[axis + 1 :]))
