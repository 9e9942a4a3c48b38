"""Primitives that reduce axes: sums, maxima, and pooling over windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from ...tensor import DType, Term, apply, literal
from ...tensor.types import FLOATING
from ..values import TracedValue, element_type, pointwise, uniform, whole
from .data_movement import padded, sliced, transposed
from .registry import demand, reads


def _reduced(operator: str, x: TracedValue, axes: Sequence[int]) -> TracedValue:
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    if not axes:
        return x
    if operator == "sum":
        # `jnp.trace` and `jnp.einsum("ii", x)` are traced as a mask and a sum.
        x, axes = _diagonal(x, tuple(axes))
        if not axes:
            return x
    term = apply(operator, x.wide(axes).typed(), axes=tuple(sorted(axes)), keep=False)
    return TracedValue(term, shape, x.dtype)


def _declare_reduction(primitive: str, operator: str) -> None:
    @reads(primitive)
    def rule(x: TracedValue, axes: Sequence[int], **params: object) -> TracedValue:
        return _reduced(operator, x, axes)


for _primitive, _operator in {
    "reduce_sum": "sum",
    "reduce_max": "max",
    "reduce_min": "min",
}.items():
    _declare_reduction(_primitive, _operator)


@reads("reduce_or")
def _reduce_or(x: TracedValue, axes: Sequence[int], **params: object) -> TracedValue:
    return _any(x, axes)


@reads("reduce_and")
def _reduce_and(x: TracedValue, axes: Sequence[int], **params: object) -> TracedValue:
    return _not(_any(_not(x), axes))


def _any(x: TracedValue, axes: Sequence[int]) -> TracedValue:
    """Counts true values, so that nothing but numbers is ever reduced."""
    demand(x.dtype is DType.BOOL, "on the bits of a number")
    unit, zero = uniform(1, (), DType.I32), uniform(0, (), DType.I32)
    count = _reduced("sum", pointwise("select", x, unit, zero), axes)
    return pointwise("less", zero, count, dtype=DType.BOOL)


def _not(x: TracedValue) -> TracedValue:
    return replace(x, term=apply("equal", x.term, literal(0)))


def _declare_place(primitive: str) -> None:
    @reads(primitive)
    def rule(
        x: TracedValue, axes: Sequence[int], index_dtype: object, **params: object
    ) -> TracedValue:
        demand(element_type(index_dtype) is DType.I32, f"places in {index_dtype}")
        demand(x.dtype in (*FLOATING, DType.I32), f"of {x.dtype}")
        (axis,) = axes
        shape = tuple(size for place, size in enumerate(x.shape) if place != axis)
        term = apply(primitive, x.wide(axes).full(), axis=axis)
        return TracedValue(term, shape, DType.I32)


def _declare_cumulative(primitive: str) -> None:
    @reads(primitive)
    def rule(x: TracedValue, axis: int, reverse: bool, **params: object) -> TracedValue:
        demand(x.dtype in FLOATING or primitive == "cumsum", "of whole numbers")
        demand(x.dtype is not DType.BOOL, "of truth values")
        return whole(apply(primitive, x.full(), axis=axis, reverse=bool(reverse)), x.dtype)


for _primitive in ("argmax", "argmin"):
    _declare_place(_primitive)
for _primitive in ("cumsum", "cummax", "cummin"):
    _declare_cumulative(_primitive)


_POOLED = {
    "reduce_window_sum": ("add", 0),
    "reduce_window_max": ("maximum", -math.inf),
    "reduce_window_min": ("minimum", math.inf),
}


def _declare_pooling(primitive: str, name: str, outside: int | float) -> None:
    @reads(primitive)
    def rule(
        x: TracedValue,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        base_dilation: Sequence[int],
        window_dilation: Sequence[int],
        **params: object,
    ) -> TracedValue:
        """Axis by axis: every place of the window is a slice of its own."""
        demand(all(step == 1 for step in base_dilation), "with steps between elements")
        # Each place of a window becomes a slice: large windows would make programs that nobody
        # searches.
        demand(sum(window_dimensions) <= 32 + x.rank, "over large windows")
        for axis, (window, stride, (low, high), dilation) in enumerate(
            zip(window_dimensions, window_strides, padding, window_dilation, strict=True)
        ):
            x = padded(x, uniform(outside, (), x.dtype), axis, low, high)
            last = x.shape[axis] - (window - 1) * dilation
            starts = range(0, window * dilation, dilation)
            parts = [sliced(x, axis, start, start + last, stride) for start in starts]
            x = reduce(partial(pointwise, name), parts)
        return x


for _primitive, (_name, _outside) in _POOLED.items():
    _declare_pooling(_primitive, _name, _outside)


def _diagonal(x: TracedValue, axes: tuple[int, ...]) -> tuple[TracedValue, tuple[int, ...]]:
    """A sum of what is masked by the identity is the sum of a diagonal: gives that,
    and its axes."""
    if x.term.operator.name != "select":
        return x, axes
    mask, entries, elsewhere = x.term.arguments
    pair = sorted(_counted(mask))
    if len(pair) != 2 or elsewhere is not literal(0) or not set(pair) & set(axes):
        return x, axes
    first, second = pair
    if x.shape[first] != x.shape[second] or not entries.shape:
        return x, axes
    leading = [axis for axis in range(x.rank) if axis not in pair]
    square = transposed(TracedValue(entries, x.shape, x.dtype), [*leading, *pair]).full()
    row = whole(apply("diagonal", square), x.dtype)
    gone = first if first in axes else second
    stays = second if gone == first else first
    places = [axis for axis in range(x.rank) if axis != gone]
    held = [*leading, stays]
    turned = transposed(row, [held.index(axis) for axis in places])
    return turned, tuple(places.index(axis) for axis in axes if axis != gone)


def _counted(mask: Term) -> set[int]:
    """The axes whose places a mask compares for equality."""
    if mask.operator.name != "equal":
        return set()
    return {side.parameter("axis") for side in mask.arguments if side.operator.name == "iota"}
