"""Operators that choose elements by computed places, or count places: `take`, `scatter_add`,
`argmax`, `cumsum`.

Each is defined in the words of `Algebra`, by comparing every place of an axis with every index:

    take(x, i)[k] = sum over j of (x[j] where i[k] = j, else 0)

That needs an element for each pair. An algebra of numbers has these four as words of its own
(`DirectAlgebra`), and computes them without pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from ..algebra import Algebra, DirectAlgebra, V
from ..errors import ShapeError
from ..operator import (
    Dimensions,
    Operator,
    OperatorParameter,
    ParameterKind,
    Parameters,
    axis_of,
    broadcast_shapes,
    declare,
)
from ..sizes import Dim, product
from ..types import FLOATING, DType, Shape

_AXIS = OperatorParameter("axis", ParameterKind.AXIS)
_REVERSE = OperatorParameter("reverse", ParameterKind.FLAG, False, required=False)


def _replaced(shape: Sequence[Dim], axis: int, size: Dim) -> tuple[Dim, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _zero(k: Algebra[V]) -> V:
    return k.constant(Fraction(0))


def _behind(k: Algebra[V], x: V, axis: int) -> V:
    """The elements with `axis` last, and an axis of size one in its place."""
    shape = k.shape(x)
    remaining = [dimension for dimension in range(len(shape)) if dimension != axis]
    turned = k.transpose(x, [*remaining, axis])
    sizes = [shape[dimension] for dimension in remaining]
    return k.reshape(turned, (*sizes[:axis], 1, *sizes[axis:], shape[axis]))


def _in_front(k: Algebra[V], x: V) -> V:
    """The elements with a further axis of size one behind all others."""
    return k.reshape(x, (*k.shape(x), 1))


def _places(k: Algebra[V], rank: int, axis: int, size: Dim) -> V:
    """The index along one of `rank` axes, which has `size` elements; the others have one."""
    return k.iota(_replaced((1,) * rank, axis, size), axis)


def _without_last(k: Algebra[V], x: V) -> V:
    return k.reshape(x, k.shape(x)[:-1])


def index_inside(k: Algebra[V], x: V, indices: V, axis: int) -> V:
    """The indices as `take` reads them: those outside of `axis` moved to its nearest end."""
    last = k.subtract(k.size(x, axis), k.constant(Fraction(1)))
    return k.minimum(k.maximum(indices, _zero(k)), last)


def take_by_comparison(k: Algebra[V], x: V, indices: V, axis: int) -> V:
    """`take` in the words of `Algebra`: of all elements those whose place is the index."""
    rank, size = len(k.shape(x)), k.shape(x)[axis]
    inside = index_inside(k, x, indices, axis)
    chosen = k.compare("==", _in_front(k, inside), _places(k, rank + 1, rank, size))
    # Not a product with zeros and ones: an infinite element that is not chosen must not count.
    return _without_last(k, k.sum(k.select(chosen, _behind(k, x, axis), _zero(k)), (rank,)))


def scatter_add_by_comparison(k: Algebra[V], x: V, indices: V, updates: V, axis: int) -> V:
    """`scatter_add` in the words of `Algebra`: every element gets the updates whose index is its
    place."""
    rank, size = len(k.shape(x)), k.shape(x)[axis]
    meets = k.compare("==", _behind(k, indices, axis), _places(k, rank + 1, axis, size))
    added = k.sum(k.select(meets, _behind(k, updates, axis), _zero(k)), (rank,))
    return k.add(x, _without_last(k, added))


def argmax_by_comparison(k: Algebra[V], x: V, axis: int) -> V:
    """`argmax` with its axis kept: the first place of the largest element, or of the first NaN."""
    shape = k.shape(x)
    size = k.size(x, axis)
    places = _places(k, len(shape), axis, shape[axis])
    # A maximum is NaN where an element is, and equal to none.
    is_largest = k.compare("==", x, k.largest(x, (axis,)))
    elsewhere = k.select(k.compare("!=", x, x), places, size)
    candidates = k.select(is_largest, places, elsewhere)
    return k.negative(k.largest(k.negative(candidates), (axis,)))


def cumulative_by_comparison(k: Algebra[V], x: V, axis: int, reduction: str, reverse: bool) -> V:
    """Reductions over all elements up to each place, or from each place on."""
    rank, size = len(k.shape(x)), k.shape(x)[axis]
    here, there = _places(k, rank + 1, axis, size), _places(k, rank + 1, rank, size)
    counts = k.compare("<=", here, there) if reverse else k.compare("<=", there, here)
    entries = _behind(k, x, axis)
    if reduction == "sum":
        return _without_last(k, k.sum(k.select(counts, entries, _zero(k)), (rank,)))
    nothing = k.constant(-math.inf)
    return _without_last(k, k.largest(k.select(counts, entries, nothing), (rank,)))


def _take(k: Algebra[V], x: V, indices: V, axis: int) -> V:
    if isinstance(k, DirectAlgebra):
        return k.take(x, indices, axis)  # type: ignore[no-any-return]  # of the same algebra
    return take_by_comparison(k, x, indices, axis)


def _scatter_add(k: Algebra[V], x: V, indices: V, updates: V, axis: int) -> V:
    if isinstance(k, DirectAlgebra):
        return k.scatter_add(x, indices, updates, axis)  # type: ignore[no-any-return]  # as above
    return scatter_add_by_comparison(k, x, indices, updates, axis)


def _argmax(k: Algebra[V], x: V, axis: int) -> V:
    place: V = (
        k.argmax(x, axis) if isinstance(k, DirectAlgebra) else argmax_by_comparison(k, x, axis)
    )
    shape = k.shape(x)
    return k.reshape(place, (*shape[:axis], *shape[axis + 1 :]))


def _cumulative(k: Algebra[V], x: V, axis: int, reduction: str, reverse: bool) -> V:
    if isinstance(k, DirectAlgebra):
        return k.cumulative(x, axis, reduction, reverse)  # type: ignore[no-any-return]  # as above
    return cumulative_by_comparison(k, x, axis, reduction, reverse)


def _walked(dims: Dimensions, shapes: Sequence[Shape], axis: int, name: str) -> Shape:
    """The shape of operands of one rank whose axes meet, but for `axis`, which has size one."""
    if len({len(shape) for shape in shapes}) != 1:
        ranks = " and ".join(str(len(shape)) for shape in shapes)
        raise ShapeError(f"{name} of ranks {ranks}: reshape one first")
    axis_of(axis, len(shapes[0]))
    # Operands of rank 1 have no axis left, and `broadcast_shapes` takes those for scalars.
    return broadcast_shapes(dims, [_replaced(shape, axis, 1) for shape in shapes])


def _take_shape(dims: Dimensions, shapes: Sequence[Shape], axis: int) -> Shape:
    common = _walked(dims, shapes, axis, "take")
    if dims.value(shapes[0][axis]) == 0:
        raise ShapeError("take from an axis that has no elements")
    return _replaced(common, axis, shapes[1][axis])


def _scatter_shape(dims: Dimensions, shapes: Sequence[Shape], axis: int) -> Shape:
    target, indices, updates = shapes
    common = _walked(dims, shapes, axis, "scatter_add")
    dims.same(indices[axis], updates[axis], "scatter_add: an index for each update")
    for size, whole in zip(_replaced(target, axis, 1), common, strict=True):
        dims.same(size, whole, "scatter_add: axes of what is added to")
    return target


def _indexed(dtypes: Sequence[DType], parameters: Parameters) -> DType:
    """The type of the elements, the others of which are indices, and the updates of a scatter."""
    element, indices, *updates = dtypes
    if indices not in (DType.I32, DType.WEAK):
        raise ShapeError(f"places are whole numbers, not {indices}: cast them first")
    if element not in (*FLOATING, DType.I32, DType.WEAK):
        raise ShapeError(f"elements of {element} at places: cast them first")
    if any(update not in (element, DType.WEAK) for update in updates):
        raise ShapeError(f"{updates[0]} is added to {element}: cast one first")
    return element


def _argmax_shape(dims: Dimensions, shapes: Sequence[Shape], axis: int) -> Shape:
    old = shapes[0]
    if dims.value(old[axis_of(axis, len(old))]) == 0:
        raise ShapeError("the place of the largest of no elements")
    return (*old[:axis], *old[axis + 1 :])


def _whole(dtypes: Sequence[DType], parameters: Parameters) -> DType:
    return DType.I32


def _cumulative_shape(dims: Dimensions, shapes: Sequence[Shape], axis: int, reverse: bool) -> Shape:
    axis_of(axis, len(shapes[0]))
    return shapes[0]


def _all_read(shapes: Sequence[Shape], result: Shape, **_: object) -> Dim:
    return product(shapes[0])


declare(
    Operator(
        "take",
        2,
        _take_shape,
        _take,
        (_AXIS,),
        flops=lambda shapes, result, **_: 0,
        dtype=_indexed,
    )
)
declare(
    Operator(
        "scatter_add",
        3,
        _scatter_shape,
        _scatter_add,
        (_AXIS,),
        flops=lambda shapes, result, **_: product(shapes[2]),
        dtype=_indexed,
    )
)
declare(Operator("argmax", 1, _argmax_shape, _argmax, (_AXIS,), flops=_all_read, dtype=_whole))
declare(
    Operator(
        "argmin",
        1,
        _argmax_shape,
        lambda k, x, axis: _argmax(k, k.negative(x), axis),
        (_AXIS,),
        flops=_all_read,
        dtype=_whole,
    )
)
declare(
    Operator(
        "cumsum",
        1,
        _cumulative_shape,
        lambda k, x, axis, reverse: _cumulative(k, x, axis, "sum", reverse),
        (_AXIS, _REVERSE),
        flops=_all_read,
    )
)
declare(
    Operator(
        "cummax",
        1,
        _cumulative_shape,
        lambda k, x, axis, reverse: _cumulative(k, x, axis, "max", reverse),
        (_AXIS, _REVERSE),
        flops=_all_read,
    )
)
declare(
    Operator(
        "cummin",
        1,
        _cumulative_shape,
        lambda k, x, axis, reverse: k.negative(_cumulative(k, k.negative(x), axis, "max", reverse)),
        (_AXIS, _REVERSE),
        flops=_all_read,
    )
)
