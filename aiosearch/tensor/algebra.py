"""The operations that operators are defined in, and that evaluators implement.

An operator states its meaning once, in these few operations (`Algebra`); each evaluator is a set of
values and an implementation: floats, field elements, expressions over index variables, labels,
abstract terms. `silu` is x / (1 + exp(-x)) to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeVar, runtime_checkable

from .sizes import Dim

V = TypeVar("V")
"""The values of an algebra."""


@dataclass(frozen=True)
class Function:
    """A scalar function of which an algebra knows nothing beyond these attributes."""

    name: str
    floats: Callable[..., Any]
    """Computes the function of NumPy arrays, in the precision of the arguments."""
    positive: bool = False
    """Never zero or below where it is finite, as `exp` of a base is."""
    even: bool = False
    """f(-x) = f(x)."""
    odd: bool = False
    """f(-x) = -f(x)."""
    integral: bool = False
    """A step function, such as `floor`: small changes of its argument matter."""
    means: Callable[..., Any] | None = None
    """Defines the function by other operations, for an algebra that does not round.

    Floats lose digits by it.
    """

    def __repr__(self) -> str:
        return self.name


class Algebra(Protocol[V]):
    """The operations. Pointwise ones broadcast axes of size one between operands of equal rank."""

    def constant(self, value: Fraction | float) -> V:
        """A value of rank 0, which meets any rank; a float where it is infinite."""

    def iota(self, shape: Sequence[Dim], axis: int) -> V:
        """The index along an axis."""

    def add(self, x: V, y: V) -> V: ...
    def subtract(self, x: V, y: V) -> V: ...
    def multiply(self, x: V, y: V) -> V: ...
    def divide(self, x: V, y: V) -> V: ...
    def negative(self, x: V) -> V: ...
    def exp(self, x: V) -> V: ...
    def log(self, x: V) -> V: ...
    def sqrt(self, x: V) -> V: ...
    def absolute(self, x: V) -> V: ...
    # Kept beside select(x < y, y, x): a maximum is associative and shifts with its operands, which
    # a choice hides.
    def maximum(self, x: V, y: V) -> V: ...
    def minimum(self, x: V, y: V) -> V: ...

    def compare(self, how: str, x: V, y: V) -> V:
        """A truth value; `how` is one of `<`, `<=`, `==`, `!=`."""

    def select(self, where: V, x: V, y: V) -> V:
        """`x` where `where` is true, else `y`."""

    def function(self, function: Function, *arguments: V) -> V:
        """Applies a named `function`, or its definition `means` where it has one."""

    def sum(self, x: V, axes: Sequence[int]) -> V:
        """Adds up over axes, which stay with size one."""

    def largest(self, x: V, axes: Sequence[int]) -> V:
        """The largest over axes, which stay with size one."""

    def matmul(self, x: V, y: V) -> V:
        """`[..., m, k]` by `[..., k, n]`; leading axes broadcast."""

    def size(self, x: V, axis: int) -> V:
        """The number of elements along an axis, as a value of rank 0."""

    def broadcast(self, x: V, shape: Sequence[Dim]) -> V:
        """Repeats axes of size one."""

    def reshape(self, x: V, shape: Sequence[Dim]) -> V:
        """The elements in row-major order, in another shape."""

    def transpose(self, x: V, axes: Sequence[int]) -> V: ...

    def slice(self, x: V, axis: int, start: Dim, stop: Dim, step: int) -> V: ...

    # Data movement: every algebra may reorder elements without computing any.
    def concatenate(self, xs: Sequence[V], axis: int) -> V: ...

    def pad(self, x: V, axis: int, low: Dim, high: Dim, value: Fraction) -> V: ...

    def diagonal(self, x: V) -> V:
        """`[..., n, n]` to `[..., n]`."""

    def windows(self, x: V, axis: int, window: Dim, stride: int, dilation: int) -> V:
        """`[..., n, ...]` to `[..., places, window, ...]`: every window along an axis."""

    def cast(self, x: V, dtype: str) -> V:
        """The value in another element type; `dtype` is one of `DType`."""

    def shape(self, x: V) -> tuple[Dim, ...]: ...


@runtime_checkable
class DirectAlgebra(Protocol):
    """Words that an algebra of numbers has beside those of `Algebra`.

    `operators.indexing` defines them in these, with an element for each pair of a place and an
    index; who computes numbers needs none.
    """

    def take(self, x: Any, indices: Any, axis: int) -> Any:
        """The elements at `indices` along an axis; other axes meet, and an index outside is moved
        to the nearest end."""

    def scatter_add(self, x: Any, indices: Any, updates: Any, axis: int) -> Any:
        """`x` with each update added at its index along an axis; one outside is dropped."""

    def argmax(self, x: Any, axis: int) -> Any:
        """The first place of the largest element, or of the first NaN; the axis stays with size
        one."""

    def cumulative(self, x: Any, axis: int, reduction: str, reverse: bool) -> Any:
        """The `sum` or `max` of all elements up to each place, or from it on."""
