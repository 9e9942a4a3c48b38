"""Rules for JAX primitives that move elements: reshape, transpose, slice, pad, concatenate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ...tensor import DType, Term, apply
from ...tensor.types import NARROW
from ..values import TracedValue, element_type, reshaped, uniform, whole
from .registry import demand, reads


@reads("copy", "copy_p", "stop_gradient", "device_put", "optimization_barrier", "name",
       "sharding_constraint", "layout_constraint", "reshard", "pvary")  # fmt: skip
def _same(*operands: TracedValue, **params: object) -> Sequence[TracedValue]:
    return operands


@reads("broadcast_in_dim")
def _broadcast_in_dim(
    x: TracedValue, shape: Sequence[int], broadcast_dimensions: Sequence[int], **params: object
) -> TracedValue:
    sizes = tuple(shape)
    if not x.term.shape:
        return replace(x, shape=sizes)
    at = dict(zip(broadcast_dimensions, x.term.shape, strict=True))
    return x.reshaped(tuple(at.get(axis, 1) for axis in range(len(sizes))), sizes)


@reads("reshape")
def _reshape(
    x: TracedValue,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    **params: object,
) -> TracedValue:
    if dimensions is not None:
        x = transposed(x, dimensions)
    sizes = tuple(new_sizes)
    if [size for size in sizes if size != 1] == [size for size in x.shape if size != 1]:
        return x.over(sizes)
    if not x.term.shape:
        return replace(x, shape=sizes)
    return whole(reshaped(x.full(), sizes), x.dtype)


@reads("squeeze")
def _squeeze(x: TracedValue, dimensions: Sequence[int], **params: object) -> TracedValue:
    return x.over(size for axis, size in enumerate(x.shape) if axis not in dimensions)


@reads("expand_dims")
def _expand_dims(x: TracedValue, dimensions: Sequence[int], **params: object) -> TracedValue:
    sizes = iter(x.shape)
    rank = x.rank + len(dimensions)
    return x.over(1 if axis in dimensions else next(sizes) for axis in range(rank))


@reads("transpose")
def _transpose(x: TracedValue, permutation: Sequence[int], **params: object) -> TracedValue:
    return transposed(x, permutation)


def transposed(x: TracedValue, order: Sequence[int]) -> TracedValue:
    """The value with its axes in this order."""
    shape = tuple(x.shape[axis] for axis in order)
    if not x.term.shape:
        return replace(x, shape=shape)
    return TracedValue(_ordered(x.term, tuple(order)), shape, x.dtype)


def _ordered(term: Term, order: tuple[int, ...]) -> Term:
    """A transpose, a single one for several."""
    if order == tuple(range(len(order))):
        return term
    if term.operator.name == "transpose":
        before = term.parameter("axes")
        return _ordered(term.arguments[0], tuple(before[axis] for axis in order))
    return apply("transpose", term, axes=order)


@reads("slice")
def _slice(
    x: TracedValue,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
    **params: object,
) -> TracedValue:
    steps = strides or (1,) * x.rank
    for axis, (start, stop, step) in enumerate(
        zip(start_indices, limit_indices, steps, strict=True)
    ):
        x = sliced(x, axis, start, stop, step)
    return x


def sliced(x: TracedValue, axis: int, start: int, stop: int, step: int = 1) -> TracedValue:
    """Every `step`-th element from `start` on; the term is cut only where it is not repeated."""
    size = max(0, -(-(stop - start) // step))
    if size == x.shape[axis]:
        return x
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    if not x.term.shape or (x.term.shape[axis] == 1 and size):
        return replace(x, shape=shape)
    term = apply("slice", x.wide([axis]).term, axis=axis, start=start, stop=stop, step=step)
    return TracedValue(term, shape, x.dtype)


@reads("split")
def _split(
    x: TracedValue, sizes: Sequence[int], axis: int, **params: object
) -> Sequence[TracedValue]:
    ends = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
    return [sliced(x, axis, start, stop) for start, stop in pairwise(ends)]


@reads("unstack")
def _unstack(x: TracedValue, axis: int, **params: object) -> Sequence[TracedValue]:
    return [row(x, at, axis) for at in range(x.shape[axis])]


def row(x: TracedValue, at: int, axis: int = 0) -> TracedValue:
    """The elements at one place of an axis, without that axis."""
    return sliced(x, axis, at, at + 1).over((*x.shape[:axis], *x.shape[axis + 1 :]))


@reads("concatenate")
def _concatenate(*operands: TracedValue, dimension: int, **params: object) -> TracedValue:
    return joined(operands, dimension)


def joined(parts: Sequence[TracedValue], axis: int) -> TracedValue:
    """Values side by side along an axis; empty ones fall away."""
    filled = [part for part in parts if part.shape[axis]] or list(parts[:1])
    if len(filled) == 1:
        return filled[0]
    term = apply("concatenate", *(part.full() for part in filled), axis=axis)
    return whole(term, parts[0].dtype)


@reads("stack")
def _stack(*operands: TracedValue, axis: int, **params: object) -> TracedValue:
    return stacked(operands, axis)


def stacked(parts: Sequence[TracedValue], axis: int = 0) -> TracedValue:
    """Values along a new axis."""
    return whole(apply("stack", *(part.full() for part in parts), axis=axis), parts[0].dtype)


@reads("tile")
def _tile(x: TracedValue, reps: Sequence[int], **params: object) -> TracedValue:
    demand(len(reps) == x.rank, "with more repeats than axes")
    shape = tuple(size * times for size, times in zip(x.shape, reps, strict=True))
    if not x.term.shape:
        return replace(x, shape=shape)
    for axis, times in enumerate(reps):
        if times > 1 and x.shape[axis] != 1:
            x = joined([x] * times, axis)
    return replace(x, shape=shape)


@reads("pad")
def _pad(
    x: TracedValue,
    filler: TracedValue,
    padding_config: Sequence[tuple[int, int, int]],
    **params: object,
) -> TracedValue:
    for axis, (low, high, inner) in enumerate(padding_config):
        x = spread(x, filler, axis, inner)
        x = sliced(x, axis, max(0, -low), x.shape[axis] - max(0, -high))
        x = padded(x, filler, axis, max(0, low), max(0, high))
    return x


def spread(x: TracedValue, filler: TracedValue, axis: int, inner: int) -> TracedValue:
    """Puts `inner` fillers between neighbours along an axis."""
    size = x.shape[axis]
    if not inner or size < 2:
        return x
    # Each element is padded along an axis of its own, which is then merged with the first: [a, b]
    # is [[a, 0], [b, 0]] is [a, 0, b, 0], less the last filler.
    column = x.over((*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    rows = padded(column, filler, axis + 1, 0, inner).full()
    shape = (*x.shape[:axis], size * (inner + 1), *x.shape[axis + 1 :])
    return sliced(whole(reshaped(rows, shape), x.dtype), axis, 0, size * (inner + 1) - inner)


def padded(x: TracedValue, filler: TracedValue, axis: int, low: int, high: int) -> TracedValue:
    """Puts `low` fillers before and `high` behind an axis."""
    if not low and not high:
        return x
    # `pad` takes literals that are finite alone; anything else is put beside as arrays.
    if filler.number is not None and math.isfinite(filler.number):
        term = apply("pad", x.full(), axis=axis, low=low, high=high, value=filler.number)
        return whole(term, x.dtype)

    def edge(size: int) -> TracedValue:
        return replace(filler, shape=(*x.shape[:axis], size, *x.shape[axis + 1 :]))

    return joined([edge(low), x, edge(high)], axis)


@reads("rev")
def _rev(x: TracedValue, dimensions: Sequence[int], **params: object) -> TracedValue:
    for axis in dimensions:
        size = x.shape[axis]
        demand(size <= 32, f"of {size} elements")
        x = joined([sliced(x, axis, at, at + 1) for at in reversed(range(size))], axis)
    return x


@reads("platform_index")
def _platform_index(platforms: Sequence[Sequence[str] | None], **params: object) -> TracedValue:
    """The branch for any platform: all of them compute the same."""
    demand(None in platforms, "without a way for any platform")
    return uniform(platforms.index(None), (), DType.I32)


@reads("iota")
def _iota(dtype: object, shape: Sequence[int], dimension: int, **params: object) -> TracedValue:
    element = DType.I32 if dtype == np.uint32 else element_type(dtype)
    demand(element not in NARROW, f"counts in {element}")
    row = tuple(size if axis == dimension else 1 for axis, size in enumerate(shape))
    return TracedValue(
        apply("iota", shape=row, axis=dimension, dtype=element), tuple(shape), element
    )
