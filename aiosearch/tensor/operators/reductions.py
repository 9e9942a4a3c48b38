"""Reductions over axes, and operators defined by them.

`sum`, `mean`, `max`, `rms_norm`, `matmul`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..algebra import Algebra, V
from ..errors import ShapeError
from ..operator import (
    Dimensions,
    Meaning,
    Operator,
    OperatorParameter,
    ParameterKind,
    axis_of,
    broadcast_shapes,
    declare,
)
from ..sizes import Dim, product, quotient
from ..types import Shape

_AXES = OperatorParameter("axes", ParameterKind.AXES)
_KEEP = OperatorParameter("keep", ParameterKind.FLAG, False, required=False)


def _reduced(dims: Dimensions, shapes: Sequence[Shape], axes: tuple[int, ...], keep: bool) -> Shape:
    """The shape without the reduced axes, or with size one there if `keep`."""
    old = shapes[0]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axes {list(axes)} name one twice")
    for axis in axes:
        axis_of(axis, len(old))
    if keep:
        return tuple(1 if axis in axes else size for axis, size in enumerate(old))
    return tuple(size for axis, size in enumerate(old) if axis not in axes)


def _all_read(shapes: Sequence[Shape], result: Shape, **_: object) -> Dim:
    return product(shapes[0])


def _reduction(name: str, meaning: Meaning, fractions: bool = False) -> None:
    """Declares a reduction whose `meaning` keeps reduced axes with size one."""

    def whole(k: Algebra[V], x: V, axes: tuple[int, ...], keep: bool) -> V:
        reduced: V = meaning(k, x, axes)
        if keep:
            return reduced
        shape = k.shape(reduced)
        return k.reshape(reduced, [size for axis, size in enumerate(shape) if axis not in axes])

    declare(
        Operator(name, 1, _reduced, whole, (_AXES, _KEEP), flops=_all_read, fractions=fractions)
    )


def mean(k: Algebra[V], x: V, axes: Sequence[int]) -> V:
    """The sum, divided by the size of each axis."""
    total = k.sum(x, axes)
    # The algebra knows the size of one axis, which may be a symbol; so one division for each axis.
    for axis in axes:
        total = k.divide(total, k.size(x, axis))
    return total


def root_mean_square(k: Algebra[V], x: V, axes: Sequence[int]) -> V:
    """The root of the `mean` of squares."""
    return k.sqrt(mean(k, k.multiply(x, x), axes))


_reduction("sum", lambda k, x, axes: k.sum(x, axes))
_reduction("mean", mean, fractions=True)
_reduction("max", lambda k, x, axes: k.largest(x, axes))
_reduction("min", lambda k, x, axes: k.negative(k.largest(k.negative(x), axes)))


def _same(dims: Dimensions, shapes: Sequence[Shape]) -> Shape:
    if not shapes[0]:
        raise ShapeError("rms_norm of a scalar")
    return shapes[0]


declare(
    Operator(
        "rms_norm",
        1,
        _same,
        lambda k, x: k.divide(x, root_mean_square(k, x, (len(k.shape(x)) - 1,))),
        flops=lambda shapes, result, **_: product(result) * 4,
        fractions=True,
    )
)


def _fold_shape(dims: Dimensions, shapes: Sequence[Shape], axis: int, size: Dim) -> Shape:
    old = shapes[0]
    dims.over(old[axis_of(axis, len(old))], size, "fold")
    return (*old[:axis], size, *old[axis + 1 :])


def fold(k: Algebra[V], x: V, axis: int, size: Dim) -> V:
    """Adds up chunks of `size` elements: `out[j]` is the sum of all `x[i*size + j]`."""
    shape = k.shape(x)
    whole = shape[axis]
    # The shape rule has shown that it divides.
    chunks = quotient(whole, size)
    assert chunks is not None
    chunked = k.reshape(x, (*shape[:axis], chunks, size, *shape[axis + 1 :]))
    return k.reshape(k.sum(chunked, (axis,)), (*shape[:axis], size, *shape[axis + 1 :]))


declare(
    Operator(
        "fold",
        1,
        _fold_shape,
        fold,
        (
            OperatorParameter("axis", ParameterKind.AXIS),
            OperatorParameter("size", ParameterKind.SIZE),
        ),
        flops=_all_read,
    )
)


def _matmul_shape(dims: Dimensions, shapes: Sequence[Shape]) -> Shape:
    left, right = shapes
    if len(left) < 2 or len(right) < 2:
        raise ShapeError(f"matmul of ranks {len(left)} and {len(right)}: both need two axes")
    if len(left) != len(right):
        raise ShapeError(f"matmul of ranks {len(left)} and {len(right)}: reshape one first")
    dims.same(left[-1], right[-2], "matmul: columns of the first, rows of the second")
    lead = broadcast_shapes(dims, [left[:-2], right[:-2]])
    return (*lead, left[-2], right[-1])


def _matmul_flops(shapes: Sequence[Shape], result: Shape, **_: object) -> Dim:
    return product(result) * shapes[0][-1] * 2


declare(Operator("matmul", 2, _matmul_shape, lambda k, x, y: k.matmul(x, y), flops=_matmul_flops))
