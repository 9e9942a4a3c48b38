"""Indexing by what is known beforehand: slices, single rows, diagonals.

Example: `x[:, 1]` is a `gather` whose indices are a constant: a slice of one column. `x[i, i]` over
an `iota` is a diagonal. Indices that are computed from an input are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tensor import apply
from ..jax_types import NumpyArray
from ..values import TracedValue, known_array, whole
from .data_movement import joined, sliced, transposed
from .registry import demand, reads


@dataclass(frozen=True)
class PickedIndices:
    """What is read of one axis, and the axis of the result that counts it."""

    start: int
    step: int
    size: int
    by: int | None
    """The axis of the result; `None` where one place is read."""


@reads("dynamic_slice")
def _dynamic_slice(
    x: TracedValue, *starts: TracedValue, slice_sizes: Sequence[int], **params: object
) -> TracedValue:
    firsts = _firsts(x, starts, slice_sizes)
    picks = [
        PickedIndices(first, 1, size, axis)
        for axis, (first, size) in enumerate(zip(firsts, slice_sizes, strict=True))
    ]
    return picked(x, picks, slice_sizes)


def _firsts(x: TracedValue, starts: Sequence[TracedValue], sizes: Sequence[int]) -> list[int]:
    """The place where a window starts, moved so that the window is inside, as jax does."""
    return [
        min(max(int(_index(start)), 0), room - size)
        for start, size, room in zip(starts, sizes, x.shape, strict=True)
    ]


@reads("dynamic_update_slice")
def _dynamic_update_slice(
    x: TracedValue, new: TracedValue, *starts: TracedValue, **params: object
) -> TracedValue:
    """The old array with a window replaced: along each axis what is before and behind it is put
    beside the new one."""
    firsts, sizes = _firsts(x, starts, new.shape), new.shape
    for axis in reversed(range(x.rank)):
        surrounding = x
        for earlier in range(axis):
            surrounding = sliced(
                surrounding, earlier, firsts[earlier], firsts[earlier] + sizes[earlier]
            )
        before = sliced(surrounding, axis, 0, firsts[axis])
        after = sliced(surrounding, axis, firsts[axis] + sizes[axis], x.shape[axis])
        new = joined([before, new, after], axis)
    return new


def _index(value: TracedValue) -> NumpyArray:
    array = known_array(value)
    demand(array is not None, "at a place that is computed")
    assert array is not None
    return array


@reads("gather")
def _gather(
    x: TracedValue,
    indices: TracedValue,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    **params: object,
) -> TracedValue:
    numbers = dimension_numbers
    table = _index(indices)
    inside = set(numbers.offset_dims)
    rank = len(inside) + table.ndim - 1
    counts = [axis for axis in range(rank) if axis not in inside]
    gone = {*numbers.collapsed_slice_dims, *getattr(numbers, "operand_batching_dims", ())}
    offsets = iter(numbers.offset_dims)
    shape = [0] * rank
    for axis, size in zip(counts, table.shape, strict=False):
        shape[axis] = size
    picks = []
    for axis, size in enumerate(slice_sizes):
        start, step, by = _start(numbers, table, axis)
        if axis not in gone:
            counted_axis = next(offsets)
            shape[counted_axis] = size
            demand(step == 0, "of windows that move")
            pick = PickedIndices(start, 1, size, counted_axis)
        elif by is None or step == 0:
            pick = PickedIndices(start, 1, 1, None)
        else:
            pick = PickedIndices(start, step, table.shape[by], counts[by])
        # jax clamps or fills such indices, by a mode that the language does not have.
        last = pick.start + (pick.size - 1) * pick.step
        demand(pick.start >= 0 and last < x.shape[axis], "outside of the array")
        picks.append(pick)
    return picked(x, picks, shape)


def _start(numbers: Any, table: NumpyArray, axis: int) -> tuple[int, int, int | None]:
    """Where reading an axis starts: a place, and a step along one axis of the indices."""
    batching = getattr(numbers, "operand_batching_dims", ())
    if axis in batching:
        return 0, 1, numbers.start_indices_batching_dims[batching.index(axis)]
    if axis not in numbers.start_index_map:
        return 0, 0, None
    column = table[..., numbers.start_index_map.index(axis)]
    demand(column.size > 0, "of nothing")
    first = int(column.flat[0])
    for by in range(column.ndim):
        if column.shape[by] > 1:
            step = int(np.take(column, 1, by).flat[0]) - first
            steps = first + step * np.arange(column.shape[by])
            # Even steps along one axis of the indices are a slice; anything else is a true gather.
            if step > 0 and np.array_equal(_along(steps, by, column.shape), column):
                return first, step, by
    demand(bool((column == first).all()), "at places that are no slice")
    return first, 0, None


def _along(row: NumpyArray, axis: int, shape: Sequence[int]) -> NumpyArray:
    sizes = [-1 if dimension == axis else 1 for dimension in range(len(shape))]
    return np.broadcast_to(row.reshape(sizes), shape)


def picked(x: TracedValue, picks: Sequence[PickedIndices], shape: Sequence[int]) -> TracedValue:
    """Cuts each axis, takes diagonals where one axis counts two, and puts them in order."""
    for axis, pick in enumerate(picks):
        stop = pick.start + (pick.size - 1) * pick.step + 1
        x = sliced(x, axis, pick.start, max(stop, pick.start), pick.step)
    x = x.over(size for size, pick in zip(x.shape, picks, strict=True) if pick.by is not None)
    counts = [pick.by for pick in picks if pick.by is not None]
    for by in sorted({by for by in counts if counts.count(by) > 1}):
        x, counts = _diagonal(x, counts, by)
    x = transposed(x, sorted(range(len(counts)), key=counts.__getitem__))
    sizes = tuple(size if axis in counts else 1 for axis, size in enumerate(shape))
    ordered = x.over(sizes)
    return TracedValue(ordered.term, tuple(shape), x.dtype)


def _diagonal(x: TracedValue, counts: list[int], by: int) -> tuple[TracedValue, list[int]]:
    """Joins the axes that one axis of the result counts, which then comes last."""
    while counts.count(by) > 1:
        first = counts.index(by)
        second = counts.index(by, first + 1)
        leading = [axis for axis in range(x.rank) if axis not in (first, second)]
        wide = transposed(x, [*leading, first, second]).full()
        x = whole(apply("diagonal", wide), x.dtype)
        counts = [*(counts[axis] for axis in leading), by]
    return x, counts
