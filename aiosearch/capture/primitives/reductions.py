"""Primitives that reduce axes: sums, maxima, and pooling over windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce

from ...tensor import DType, Term, apply, literal
from ...tensor.types import FLOATING
from ..values import TracedValue, element_type, pointwise, uniform, whole
from .data_movement import joined, padded, sliced, transposed
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


LONGEST = 32
"""Elements of an axis that are multiplied, put in order or added up as logarithms: each becomes a
part of the program, and nobody searches long ones."""


def _demand_short(x: TracedValue, axis: int) -> None:
    demand(x.shape[axis] <= LONGEST, f"of {x.shape[axis]} elements")


@reads("reduce_prod")
def _reduce_prod(x: TracedValue, axes: Sequence[int], **params: object) -> TracedValue:
    """Axis by axis, half of the elements times the other half."""
    for axis in axes:
        _demand_short(x, axis)
        while (size := x.shape[axis]) > 1:
            half = size // 2
            products = pointwise("mul", sliced(x, axis, 0, half), sliced(x, axis, half, 2 * half))
            x = joined([products, sliced(x, axis, 2 * half, size)], axis)
        demand(size == 1, "of nothing")
    return x.over(size for axis, size in enumerate(x.shape) if axis not in axes)


def _declare_scan(primitive: str, combine: Callable[..., TracedValue]) -> None:
    @reads(primitive)
    def rule(x: TracedValue, axis: int, reverse: bool, **params: object) -> TracedValue:
        """In steps that double how many elements each place has taken in."""
        _demand_short(x, axis)
        demand(x.dtype in FLOATING, "of whole numbers")
        size, step = x.shape[axis], 1
        while step < size:
            first, last = sliced(x, axis, 0, size - step), sliced(x, axis, step, size)
            combined = combine(first, last)
            kept = (size - step, size) if reverse else (0, step)
            ends = sliced(x, axis, *kept)
            x = joined([combined, ends] if reverse else [ends, combined], axis)
            step *= 2
        return x


def _log_of_sum(x: TracedValue, y: TracedValue) -> TracedValue:
    """log(exp x + exp y), also where both are infinite and their difference is none."""
    less = pointwise("sub", x, y)
    falling = pointwise("exp", pointwise("neg", pointwise("abs", less)))
    plain = pointwise("add", pointwise("maximum", x, y), pointwise("log1p", falling))
    is_none = pointwise("not_equal", less, less, dtype=DType.BOOL)
    return pointwise("select", is_none, pointwise("add", x, y), plain)


_declare_scan("cumprod", partial(pointwise, "mul"))
_declare_scan("cumlogsumexp", _log_of_sum)


@reads("top_k")
def _top_k(
    x: TracedValue, k: int, axis: int = -1, **params: object
) -> tuple[TracedValue, TracedValue]:
    """The largest elements and their places; of equal ones the first comes first."""
    axis %= x.rank
    places = whole(apply("iota", shape=x.shape, axis=axis, dtype=DType.I32), DType.I32)
    values, chosen = _ordered(x, (x, places), axis, k, descending=True)
    return values, chosen


@reads("sort")
def _sort(
    keys: TracedValue, *values: TracedValue, dimension: int, num_keys: int = 1, **params: object
) -> tuple[TracedValue, ...]:
    """The elements in rising order, and what is beside them in the same one. Equal ones stay as
    they are, which an order that need not be stable may do too."""
    demand(num_keys == 1, "by several keys")
    return _ordered(keys, (keys, *values), dimension, keys.shape[dimension], descending=False)


def _ordered(
    keys: TracedValue, values: Sequence[TracedValue], axis: int, count: int, descending: bool
) -> tuple[TracedValue, ...]:
    """The first `count` of all `values` along an axis, in the order of their `keys`, by how many
    keys come before each: those that are less, or larger, and of equal ones the first. NaN is the
    largest, and zeros are equal whatever their signs."""
    _demand_short(keys, axis)
    for value in (keys, *values):
        demand(value.dtype in (*FLOATING, DType.I32), f"of {value.dtype}")
    size, last = keys.shape[axis], keys.rank
    order = [at for at in range(last) if at != axis] + [axis]
    lead = tuple(keys.shape[at] for at in order[:-1])

    def beside(value: TracedValue) -> TracedValue:
        return transposed(value, order).over((*lead, 1, size))

    here, there = transposed(keys, order).over((*lead, size, 1)), beside(keys)
    first, second = (here, there) if descending else (there, here)
    at, of = _places(last + 1, size, last - 1), _places(last + 1, size, last)
    at_most, less = _less(first, second)
    # No element is compared with itself, which rounding would seem to decide.
    itself = pointwise("equal", of, at, dtype=DType.BOOL)
    less = pointwise("select", itself, uniform(0, (), DType.BOOL), less)
    earlier = pointwise("less", of, at, dtype=DType.BOOL)
    before = pointwise("select", earlier, at_most, less)
    unit, zero = uniform(1, (), DType.I32), uniform(0, (), DType.I32)
    rank = _reduced("sum", pointwise("select", before, unit, zero), (last,))
    number = _places(last + 1, count, last - 1)
    chosen = pointwise("equal", rank.over((*lead, 1, size)), number, dtype=DType.BOOL)
    back = [order.index(at) for at in range(last)]

    def moved(value: TracedValue) -> TracedValue:
        nothing = uniform(0, (), value.dtype)
        picked = _reduced("sum", pointwise("select", chosen, beside(value), nothing), (last,))
        return transposed(picked, back)

    return tuple(map(moved, values))


def _less(x: TracedValue, y: TracedValue) -> tuple[TracedValue, TracedValue]:
    """Whether `x` is at most `y`, and whether it is less, where NaN is the largest and equal to
    itself."""
    at_most = pointwise("less_equal", x, y, dtype=DType.BOOL)
    less = pointwise("less", x, y, dtype=DType.BOOL)
    if x.dtype not in FLOATING:
        return at_most, less
    x_none, y_none = (pointwise("not_equal", side, side, dtype=DType.BOOL) for side in (x, y))
    only = pointwise("minimum", _not(x_none), y_none)
    return pointwise("maximum", at_most, y_none), pointwise("maximum", less, only)


def _places(rank: int, size: int, axis: int) -> TracedValue:
    """The index along one of so many axes, the others of which have size one."""
    shape = tuple(size if at == axis else 1 for at in range(rank))
    return whole(apply("iota", shape=shape, axis=axis, dtype=DType.I32), DType.I32)


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
