"""Indexing: slices, single rows and diagonals where the places are known beforehand, `take` and
`scatter_add` where they are computed.

Example: `x[:, 1]` is a `gather` whose indices are a constant: a slice of one column. `x[i, i]` over
an `iota` is a diagonal. `table[ids]` is a `take` along the first axis, and so is
`take_along_axis(logits, labels[:, None], 1)` along the second. Of all axes one is taken from at
computed places; each other one is whole, or walked together with an axis of the indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...tensor import DType, apply
from ...tensor.types import FLOATING
from ..jax_types import NumpyArray
from ..values import TracedValue, known_array, pointwise, reshaped, uniform, whole
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
    computed = [axis for axis, start in enumerate(starts) if known_array(start) is None]
    for axis in computed:
        room, size = x.shape[axis], slice_sizes[axis]
        # A slice of all that there is starts at the first element, whatever is asked for.
        x = x if room == size else _window(x, starts[axis], axis, size)
    starts = tuple(_place_of(0) if axis in computed else start for axis, start in enumerate(starts))
    firsts = _firsts(x, starts, slice_sizes)
    picks = [
        PickedIndices(first, 1, size, axis)
        for axis, (first, size) in enumerate(zip(firsts, slice_sizes, strict=True))
    ]
    return picked(x, picks, slice_sizes)


def _place_of(number: int) -> TracedValue:
    return uniform(number, (), DType.I32)


def _window(x: TracedValue, start: TracedValue, axis: int, size: int) -> TracedValue:
    """`size` neighbours along an axis, from a computed place on that is moved inside."""
    last = _place_of(x.shape[axis] - size)
    first = pointwise("minimum", pointwise("maximum", start, _place_of(0)), last, dtype=DType.I32)
    shape = tuple(size if dimension == axis else 1 for dimension in range(x.rank))
    places = whole(apply("iota", shape=shape, axis=axis, dtype=DType.I32), DType.I32)
    indices = pointwise("add", replace(first, shape=(1,) * x.rank), places, dtype=DType.I32)
    return whole(apply("take", x.full(), indices.full(), axis=axis), x.dtype)


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
    return _replaced(x, new, _firsts(x, starts, new.shape))


@reads("scatter")
def _scatter(
    x: TracedValue,
    indices: TracedValue,
    updates: TracedValue,
    dimension_numbers: Any,
    **params: object,
) -> TracedValue:
    """One window replaced at a known place, as `x.at[0].set(y)` does."""
    numbers = dimension_numbers
    demand(indices.rank == 1 and not numbers.operand_batching_dims, "at several places")
    firsts = [0] * x.rank
    for axis, place in zip(numbers.scatter_dims_to_operand_dims, _index(indices), strict=True):
        firsts[axis] = int(place)
    sizes = iter(updates.shape)
    inserted = set(numbers.inserted_window_dims)
    window = tuple(1 if axis in inserted else next(sizes) for axis in range(x.rank))
    rooms = zip(firsts, window, x.shape, strict=True)
    # jax moves or drops such windows, by a mode that the language does not have.
    demand(all(0 <= first <= room - size for first, size, room in rooms), "outside of the array")
    return _replaced(x, updates.over(window), firsts)


def _replaced(x: TracedValue, new: TracedValue, firsts: Sequence[int]) -> TracedValue:
    """The old array with the window that begins at `firsts` replaced."""
    sizes = new.shape
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
    mode: Any = None,
    fill_value: Any = None,
    **params: object,
) -> TracedValue:
    numbers = dimension_numbers
    if known_array(indices) is None:
        return _taken(x, indices, numbers, slice_sizes, mode.name, fill_value)
    x, table = _with_runs_joined(x, _index(indices), numbers, slice_sizes)
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


MOST_RUNS = 4
"""Of how many runs of neighbours known places may be made."""


def _with_runs_joined(
    x: TracedValue, table: NumpyArray, numbers: Any, sizes: Sequence[int]
) -> tuple[TracedValue, NumpyArray]:
    """Puts the runs of known places side by side, along each axis that has a few of them, and gives
    the places in what that makes.

    Example: places 0, 0, 1, 2 of an axis, a neighbour where the edge is its own, are its first
    element and its first three; of these side by side they are 0, 1, 2, 3.
    """
    table = table.copy()
    for at, axis in enumerate(numbers.start_index_map if table.size else ()):
        column = table[..., at]
        varying = [by for by in range(column.ndim) if (column != column.take([0], by)).any()]
        if sizes[axis] != 1 or len(varying) != 1:
            continue
        (by,) = varying
        row = np.moveaxis(column, by, -1).reshape(-1, column.shape[by])[0]
        steps = np.diff(row)
        ends = np.flatnonzero(steps != 1) + 1
        is_slice = steps[0] > 0 and bool((steps == steps[0]).all())
        if is_slice or len(ends) >= MOST_RUNS:
            continue
        demand(row.min() >= 0 and row.max() < x.shape[axis], "outside of the array")
        runs = [sliced(x, axis, int(run[0]), int(run[-1]) + 1) for run in np.split(row, ends)]
        x = joined(runs, axis)
        table[..., at] = _along(np.arange(len(row)), by, column.shape)
    return x, table


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


# Places that are computed


@dataclass(frozen=True)
class ComputedPlaces:
    """How a `gather` or `scatter` with computed indices goes through an array."""

    axis: int
    """The axis of the array that the computed indices are places of."""
    places: TracedValue
    """The computed indices, with the axes of all indices."""
    paired: dict[int, int]
    """Axes of the array that are walked together with an axis of the indices, and that axis."""
    whole: tuple[int, ...]
    """Axes of the array of which all is taken, in order."""

    @property
    def walked(self) -> list[int]:
        """The axes of the array that are walked together with indices, in the indices' order."""
        return sorted(self.paired, key=lambda axis: self.paired[axis])

    @property
    def free(self) -> list[int]:
        """The axes of the indices that are walked with none of the array."""
        return [axis for axis in range(self.places.rank) if axis not in self.paired.values()]

    @property
    def order(self) -> list[int]:
        """The axes of the array as `take` goes through them: walked, computed, whole."""
        return [*self.walked, self.axis, *self.whole]

    def indices(self) -> TracedValue:
        """The indices as `take` wants them: an axis for each of `order`."""
        ordered = transposed(self.places, [*sorted(self.paired.values()), *self.free])
        walked = ordered.shape[: len(self.paired)]
        count = prod(ordered.shape[len(self.paired) :])
        shape = (*walked, count, *[1] * len(self.whole))
        return whole(reshaped(ordered.full(), shape), DType.I32)


def _computed(
    x: TracedValue,
    indices: TracedValue,
    index_map: Sequence[int],
    batching: dict[int, int],
    sizes: Sequence[int],
) -> ComputedPlaces:
    """What a gather or scatter of windows of these `sizes` goes through; raises `CaptureError`
    where the language cannot say it."""
    paired, computed = dict(batching), []
    for column, axis in enumerate(index_map):
        places = _column(indices, column)
        if sizes[axis] == x.shape[axis] > 1:
            continue  # a window of all that there is has one place
        demand(sizes[axis] == 1, "of windows at places that are computed")
        along = _ramp_axis(places, x.shape[axis])
        if along is None:
            computed.append((axis, places))
        else:
            paired[axis] = along
    demand(len(computed) == 1, "at several places that are computed")
    demand(len(set(paired.values())) == len(paired), "along a diagonal")
    (axis, places), *_ = computed
    remaining = [
        dimension for dimension in range(x.rank) if dimension != axis and dimension not in paired
    ]
    demand(
        all(sizes[dimension] == x.shape[dimension] for dimension in remaining),
        "of parts of other axes",
    )
    return ComputedPlaces(axis, places, paired, tuple(remaining))


def _column(indices: TracedValue, at: int) -> TracedValue:
    """The indices of one axis, which stand beside those of others along the last axis."""
    last, parts = indices.rank - 1, indices.term.arguments
    # Columns that were put side by side are known apart, as a ramp beside what is computed.
    if indices.term.operator.name == "concatenate" and indices.term.parameter("axis") == last:
        for part in parts:
            width = int(part.shape[last])  # type: ignore[arg-type]  # sizes are known here
            if at < width:
                beside = whole(part, indices.dtype)
                return sliced(beside, last, at, at + 1).over(indices.shape[:last])
            at -= width
    return sliced(indices, last, at, at + 1).over(indices.shape[:last])


def _ramp_axis(places: TracedValue, size: int) -> int | None:
    """The axis along which places are 0, 1, 2, … up to `size`; `None` where they are not."""
    table = known_array(places)
    if table is None:
        return None
    for axis in range(table.ndim):
        if table.shape[axis] == size and np.array_equal(
            _along(np.arange(size), axis, table.shape), table
        ):
            return axis
    return None


def _taken(
    x: TracedValue,
    indices: TracedValue,
    numbers: Any,
    sizes: Sequence[int],
    mode: str,
    fill: Any,
) -> TracedValue:
    """A `gather` as a `take`; what lies outside is filled, or moved to the nearest end."""
    offset_dims = _integers(numbers.offset_dims)
    batched = map(_integers, (numbers.operand_batching_dims, numbers.start_indices_batching_dims))
    batching = dict(zip(*batched, strict=True))
    through = _computed(x, indices, _integers(numbers.start_index_map), batching, sizes)
    inner, table = transposed(x, through.order), through.indices()
    axis = len(through.paired)
    result = whole(apply("take", inner.full(), table.full(), axis=axis), x.dtype)
    if mode == "FILL_OR_DROP":
        demand(fill is not None or x.dtype in FLOATING, "of whole numbers that are filled in")
        filler = uniform(float("nan") if fill is None else fill, (), x.dtype)
        result = pointwise("select", _inside(table, x.shape[through.axis]), result, filler)
    # [walked, free flattened, whole] to [walked, free, whole], then as the gather has them.
    free = [through.places.shape[place] for place in through.free]
    result = result.over(result.shape) if len(free) == 1 else _split(result, axis, free)
    offsets = [
        dimension
        for dimension in range(x.rank)
        if dimension not in numbers.collapsed_slice_dims and dimension not in batching
    ]
    rank = len(offset_dims) + through.places.rank
    counts = [place for place in range(rank) if place not in offset_dims]
    by_indices = [counts[place] for place in (*sorted(through.paired.values()), *through.free)]
    by_array = [offset_dims[offsets.index(dimension)] for dimension in through.whole]
    # Axes of the array that go one element at a time, and are not collapsed, are of size one there.
    where = {place: at for at, place in enumerate([*by_indices, *by_array])}
    ordered = transposed(result, [where[place] for place in sorted(where)])
    shape = [1] * rank
    for place, size in zip(sorted(where), ordered.shape, strict=True):
        shape[place] = size
    return ordered.over(shape)


def _integers(axes: Sequence[int]) -> tuple[int, ...]:
    """Axes as Python's numbers: jax has NumPy's among them."""
    return tuple(map(int, axes))


def _split(x: TracedValue, axis: int, sizes: Sequence[int]) -> TracedValue:
    """The value with an axis in several."""
    shape = (*x.shape[:axis], *sizes, *x.shape[axis + 1 :])
    return whole(reshaped(x.full(), shape), x.dtype)


def _inside(indices: TracedValue, size: int) -> TracedValue:
    """Whether indices are places of an axis."""
    low = pointwise("less_equal", _place_of(0), indices, dtype=DType.BOOL)
    high = pointwise("less", indices, _place_of(size), dtype=DType.BOOL)
    return pointwise("minimum", low, high, dtype=DType.BOOL)


@dataclass(frozen=True)
class ScatteredUpdates:
    """What a scatter with computed indices puts where; all with the axes in one order, of which
    `axis` counts places, indices and updates."""

    target: TracedValue
    indices: TracedValue
    updates: TracedValue
    axis: int
    back: list[int]
    """The order in which the axes of the result are those of the array again."""


def _scattered(
    x: TracedValue, indices: TracedValue, updates: TracedValue, numbers: Any, mode: Any
) -> ScatteredUpdates:
    batched = map(_integers, (numbers.operand_batching_dims, numbers.scatter_indices_batching_dims))
    batching = dict(zip(*batched, strict=True))
    window_dims = _integers(numbers.update_window_dims)
    counts = [axis for axis in range(updates.rank) if axis not in window_dims]
    windowed = [
        axis
        for axis in range(x.rank)
        if axis not in numbers.inserted_window_dims and axis not in batching
    ]
    sizes = [1] * x.rank
    for axis, place in zip(windowed, window_dims, strict=True):
        sizes[axis] = updates.shape[place]
    index_map = _integers(numbers.scatter_dims_to_operand_dims)
    through = _computed(x, indices, index_map, batching, sizes)
    window_of = dict(zip(windowed, window_dims, strict=True))
    demand(through.axis not in window_of, "of windows at places that are computed")
    order = [counts[axis] for axis in (*sorted(through.paired.values()), *through.free)]
    order += [window_of[axis] for axis in through.whole]
    table, target = through.indices(), transposed(x, through.order)
    axis = len(through.paired)
    # What lies outside is dropped, but for indices that are moved inside.
    if mode.name == "CLIP":
        last = _place_of(x.shape[through.axis] - 1)
        table = pointwise("maximum", pointwise("minimum", table, last), _place_of(0))
    shape = (*table.shape[: axis + 1], *target.shape[axis + 1 :])
    put = whole(reshaped(transposed(updates, order).full(), shape), updates.dtype)
    back = [through.order.index(place) for place in range(x.rank)]
    return ScatteredUpdates(target, table, put, axis, back)


@reads("scatter-add")
def _scatter_add(
    x: TracedValue,
    indices: TracedValue,
    updates: TracedValue,
    dimension_numbers: Any,
    mode: Any = None,
    **params: object,
) -> TracedValue:
    to = _scattered(x, indices, updates, dimension_numbers, mode)
    total = apply(
        "scatter_add", to.target.full(), to.indices.full(), to.updates.full(), axis=to.axis
    )
    return transposed(whole(total, x.dtype), to.back)


MOST_PLACES = 32
"""Places of which each is compared with every index where the largest update is looked for."""


def _declare_extreme_scatter(primitive: str, operator: str, reduction: str, nothing: float) -> None:
    @reads(primitive)
    def rule(
        x: TracedValue,
        indices: TracedValue,
        updates: TracedValue,
        dimension_numbers: Any,
        mode: Any = None,
        **params: object,
    ) -> TracedValue:
        """The largest or smallest of an element and all updates whose index is its place."""
        demand(x.dtype in FLOATING, f"of {x.dtype}")
        to = _scattered(x, indices, updates, dimension_numbers, mode)
        count, rank = to.target.shape[to.axis], x.rank
        demand(count <= MOST_PLACES, f"along an axis of {count}, which XLA does best")
        # The updates get an axis of their own, behind all others.
        behind = [*(at for at in range(rank) if at != to.axis), to.axis]

        def compared(value: TracedValue) -> TracedValue:
            moved = transposed(value, behind)
            return moved.over((*moved.shape[: to.axis], 1, *moved.shape[to.axis :]))

        shape = tuple(count if at == to.axis else 1 for at in range(rank + 1))
        places = whole(apply("iota", shape=shape, axis=to.axis, dtype=DType.I32), DType.I32)
        meets = pointwise("equal", compared(to.indices), places, dtype=DType.BOOL)
        none = uniform(nothing, (), x.dtype)
        put = pointwise("select", meets, compared(to.updates), none)
        most = whole(apply(reduction, put.full(), axes=(rank,), keep=False), x.dtype)
        return transposed(pointwise(operator, to.target, most), to.back)


_declare_extreme_scatter("scatter-max", "maximum", "max", -math.inf)
_declare_extreme_scatter("scatter-min", "minimum", "min", math.inf)
