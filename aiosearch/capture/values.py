"""`TracedValue`: an array of a trace, as a term and the shape that the term is repeated to.

jax writes every broadcast out: `x * 2` is a broadcast of 2 to the shape of x, then a product. A
value keeps the scalar, and repeats it only where an operator needs it whole, so that programs have
no broadcasts that say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from ..tensor import DType, Program, Term, apply, literal
from ..tensor.referee import run
from ..tensor.sizes import Dim
from ..tensor.terms import INPUT, LITERAL, walk
from ..tensor.types import ARRAY_NAMES, EXACT, NARROW, WHOLE
from .errors import CaptureError
from .jax_types import NumpyArray
from .literals import meant

Number: TypeAlias = "int | float"

_DTYPES = {**{name: dtype for dtype, name in ARRAY_NAMES.items()}, "int64": DType.I32}


@dataclass(frozen=True)
class TracedValue:
    """An array that is only repeated along its axes when an operator needs it whole.

    The term is of rank 0, or of the array's rank with size one where it is yet to be repeated.
    """

    term: Term
    shape: tuple[int, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def number(self) -> Number | None:
        """The number that it holds everywhere, where the term is a literal; else `None`."""
        if self.term.operator is not LITERAL:
            return None
        return self.term.parameter("value")  # type: ignore[no-any-return]  # of a literal

    @property
    def held(self) -> Number | None:
        """`number` as the array has it, whose element type may have less digits."""
        number = self.number
        if number is None or self.dtype in EXACT:
            return number
        return float(np.asarray(number).astype(jnp.dtype(ARRAY_NAMES[self.dtype])))

    def full(self) -> Term:
        """The whole array as a term, in its own element type."""
        return self.wide(range(self.rank)).typed()

    def typed(self) -> Term:
        """The term in the array's element type; literals are weak until then."""
        if self.term.dtype is self.dtype:
            return self.term
        return apply("cast", self.term, dtype=self.dtype)

    def wide(self, axes: Iterable[int]) -> TracedValue:
        """The value with these axes repeated to their size."""
        whole = set(axes)
        shape = tuple(
            size if axis in whole else 1 if not self.term.shape else self.term.shape[axis]
            for axis, size in enumerate(self.shape)
        )
        if shape == self.term.shape:
            return self
        return replace(self, term=apply("broadcast", self.term, shape=shape))

    def over(self, shape: Iterable[int]) -> TracedValue:
        """A reshape to `shape` that only adds or removes axes of size one."""
        sizes = tuple(shape)
        if not self.term.shape:
            return replace(self, shape=sizes)
        term_sizes = iter(
            term for term, size in zip(self.term.shape, self.shape, strict=True) if size != 1
        )
        return self.reshaped(tuple(1 if size == 1 else next(term_sizes) for size in sizes), sizes)

    def reshaped(self, term: tuple[Dim, ...], shape: tuple[int, ...]) -> TracedValue:
        """The term in the shape `term`, for an array of the shape `shape`."""
        return TracedValue(reshaped(self.term, term), shape, self.dtype)


def reshaped(term: Term, shape: tuple[Dim, ...]) -> Term:
    """A reshape, a single one for several; a reduction may keep its axes in place of one."""
    if term.shape == shape:
        return term
    if term.operator.name == "reshape":
        return reshaped(term.arguments[0], shape)
    parameters = dict(term.parameters)
    # The reduction with its axes kept needs no reshape at all.
    if parameters.get("keep") is False:
        keeping = apply(term.operator, *term.arguments, **{**parameters, "keep": True})
        if keeping.shape == shape:
            return keeping
    return apply("reshape", term, shape=shape)


def whole(term: Term, dtype: DType) -> TracedValue:
    """A value that is nowhere repeated."""
    shape = tuple(int(size) for size in term.shape)  # type: ignore[arg-type]  # all are known
    return TracedValue(term, shape, dtype)


def uniform(number: Number, shape: tuple[int, ...], dtype: DType) -> TracedValue:
    """A value that is one number everywhere; raises `CaptureError` for -0.0."""
    # NaN: the language has no literal for it, but 0 / 0 is NaN.
    if number != number:
        return TracedValue(apply("div", literal(0), literal(0)), shape, dtype)
    # The language has no literal of truth values: 0 = 0 is true, 0 = 1 is false.
    if dtype is DType.BOOL:
        return TracedValue(apply("equal", literal(0), literal(0 if number else 1)), shape, dtype)
    if number == 0 and math.copysign(1, number) < 0:
        raise CaptureError("", "a zero below zero, which the language has not")
    return TracedValue(literal(number) if dtype in WHOLE else meant(number, dtype), shape, dtype)


def truth(value: TracedValue) -> bool | None:
    """The truth value that it holds everywhere, where that is written down; else `None`."""
    for candidate in (True, False):
        if value.term is uniform(candidate, (), DType.BOOL).term:
            return candidate
    return None


def pointwise(
    operator: str, *values: TracedValue, dtype: DType | None = None, **parameters: Any
) -> TracedValue:
    """A pointwise operator on values; operands of rank 0 meet any."""
    shape = tuple(np.broadcast_shapes(*(value.shape for value in values)))
    element = dtype or values[-1].dtype
    # Eight-bit arithmetic wraps around, and the language's integers do not.
    if element in NARROW and operator != "select":
        raise CaptureError(
            "", "", f"arithmetic in {element}, which wraps around: cast to more bits first"
        )
    return TracedValue(
        apply(operator, *(value.term for value in values), **parameters), shape, element
    )


def element_type(dtype: object) -> DType:
    """The language's `DType` of a NumPy or JAX element type; raises `CaptureError` where it has
    none."""
    element = _DTYPES.get(str(dtype))
    if element is None:
        raise CaptureError("", f"no element type {dtype} in the tensor language")
    return element


def known_array(value: TracedValue) -> NumpyArray | None:
    """The array itself, where it depends on no input; else `None`."""
    if any(term.operator is INPUT for term in walk([value.term])):
        return None
    (array,) = run(Program("known", (), (value.term,)), ())
    return np.broadcast_to(array, value.shape)
