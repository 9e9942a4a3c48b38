"""Operators that move elements and compute nothing: reshape, transpose, slice, concatenate, pad."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ..algebra import Algebra, V
from ..errors import ShapeError
from ..evaluation import exact
from ..operator import (
    Dimensions,
    Meaning,
    Operator,
    OperatorParameter,
    ParameterKind,
    Parameters,
    ShapeRule,
    axis_of,
    declare,
    regroup,
)
from ..sizes import Dim, product
from ..types import DType, Shape


def _free(shapes: Sequence[Shape], result: Shape, **_: object) -> Dim:
    """The arithmetic of moving elements: none."""
    return 0


def _move(
    name: str, arity: int | None, shape: ShapeRule, meaning: Meaning, *parameters: OperatorParameter
) -> None:
    """Declares an operator that moves elements of any type, and costs no arithmetic."""
    declare(Operator(name, arity, shape, meaning, parameters, truths=True, flops=_free))


def _broadcast_shape(dims: Dimensions, shapes: Sequence[Shape], shape: Shape) -> Shape:
    old = shapes[0]
    if old and len(old) != len(shape):
        raise ShapeError(f"rank {len(old)} is broadcast to rank {len(shape)}: reshape first")
    return tuple(
        new if not old or old[axis] == 1 else dims.same(old[axis], new, f"axis {axis}")
        for axis, new in enumerate(shape)
    )


def _reshape_shape(dims: Dimensions, shapes: Sequence[Shape], shape: Shape) -> Shape:
    old = shapes[0]
    # Each group is equated by itself: with unknown sizes that says more than the equality of the
    # two products.
    for left, right in regroup(dims, old, shape):
        if left and right:
            dims.same(
                product(old[axis] for axis in left),
                product(shape[axis] for axis in right),
                "reshape",
            )
    return tuple(shape)


def _transpose_shape(dims: Dimensions, shapes: Sequence[Shape], axes: tuple[int, ...]) -> Shape:
    if sorted(axes) != list(range(len(shapes[0]))):
        raise ShapeError(f"{list(axes)} is no order of {len(shapes[0])} axes")
    return tuple(shapes[0][axis] for axis in axes)


def _slice_shape(
    dims: Dimensions, shapes: Sequence[Shape], axis: int, start: Dim, stop: Dim, step: int
) -> Shape:
    old = shapes[0]
    size = old[axis_of(axis, len(old))]
    start, stop, _ = dims.ordered((start, stop, size), "slice: start, stop, size")
    if step < 1:
        raise ShapeError(f"step {step} of a slice")
    length = stop - start
    if step > 1:
        # ceil(length / step): the length is rounded up to a multiple, which divides exactly.
        length = dims.over(length + (-dims.value(length) % step), step, "slice")
    return (*old[:axis], length, *old[axis + 1 :])


def _joined(dims: Dimensions, shapes: Sequence[Shape], axis: int) -> None:
    """Raises ShapeError unless all axes but one agree."""
    first = shapes[0]
    axis_of(axis, len(first))
    for shape in shapes[1:]:
        if len(shape) != len(first):
            raise ShapeError(f"tensors of rank {len(first)} and {len(shape)} side by side")
        for dimension, (left, right) in enumerate(zip(first, shape, strict=True)):
            if dimension != axis:
                dims.same(left, right, f"axis {dimension}")


def _concatenate_shape(dims: Dimensions, shapes: Sequence[Shape], axis: int) -> Shape:
    _joined(dims, shapes, axis)
    first = shapes[0]
    total: Dim = 0
    for shape in shapes:
        total = total + shape[axis]
    return (*first[:axis], total, *first[axis + 1 :])


def _stack_shape(dims: Dimensions, shapes: Sequence[Shape], axis: int) -> Shape:
    first = shapes[0]
    axis_of(axis, len(first) + 1)
    for shape in shapes[1:]:
        if len(shape) != len(first):
            raise ShapeError(f"tensors of rank {len(first)} and {len(shape)} in a stack")
        for dimension, (left, right) in enumerate(zip(first, shape, strict=True)):
            dims.same(left, right, f"axis {dimension}")
    return (*first[:axis], len(shapes), *first[axis:])


def _stack(k: Algebra[V], *xs: V, axis: int) -> V:
    shapes = [k.shape(x) for x in xs]
    rows = [
        k.reshape(x, (*shape[:axis], 1, *shape[axis:])) for x, shape in zip(xs, shapes, strict=True)
    ]
    return k.concatenate(rows, axis)


def _pad_shape(
    dims: Dimensions, shapes: Sequence[Shape], axis: int, low: Dim, high: Dim, value: float
) -> Shape:
    old = shapes[0]
    axis_of(axis, len(old))
    if dims.value(low) < 0 or dims.value(high) < 0:
        raise ShapeError(f"padding by {low} and {high}")
    return (*old[:axis], low + old[axis] + high, *old[axis + 1 :])


def _diagonal_shape(dims: Dimensions, shapes: Sequence[Shape]) -> Shape:
    old = shapes[0]
    if len(old) < 2:
        raise ShapeError(f"the diagonal of a tensor of rank {len(old)}")
    return (*old[:-2], dims.same(old[-2], old[-1], "diagonal"))


def _iota_shape(
    dims: Dimensions, shapes: Sequence[Shape], shape: Shape, axis: int, **_: object
) -> Shape:
    axis_of(axis, len(shape))
    return tuple(shape)


def _declared_dtype(dtypes: Sequence[DType], parameters: Parameters) -> DType:
    """The element type that the parameter `dtype` names."""
    return DType(parameters["dtype"])


_AXIS = OperatorParameter("axis", ParameterKind.AXIS)

_move("broadcast", 1, _broadcast_shape, lambda k, x, shape: k.broadcast(x, shape),
      OperatorParameter("shape", ParameterKind.SHAPE))  # fmt: skip
_move("reshape", 1, _reshape_shape, lambda k, x, shape: k.reshape(x, shape),
      OperatorParameter("shape", ParameterKind.SHAPE))  # fmt: skip
_move("transpose", 1, _transpose_shape, lambda k, x, axes: k.transpose(x, axes),
      OperatorParameter("axes", ParameterKind.PERMUTATION))  # fmt: skip
_move(
    "slice",
    1,
    _slice_shape,
    lambda k, x, axis, start, stop, step: k.slice(x, axis, start, stop, step),
    _AXIS,
    OperatorParameter("start", ParameterKind.SIZE),
    OperatorParameter("stop", ParameterKind.SIZE),
    OperatorParameter("step", ParameterKind.COUNT, 1, required=False),
)
_move("concatenate", None, _concatenate_shape,
      lambda k, *xs, axis: k.concatenate(xs, axis), _AXIS)  # fmt: skip
_move("stack", None, _stack_shape, _stack, _AXIS)
_move(
    "pad",
    1,
    _pad_shape,
    lambda k, x, axis, low, high, value: k.pad(x, axis, low, high, Fraction(exact(value))),
    _AXIS,
    OperatorParameter("low", ParameterKind.SIZE),
    OperatorParameter("high", ParameterKind.SIZE),
    OperatorParameter("value", ParameterKind.NUMBER, 0, required=False),
)
_move("diagonal", 1, _diagonal_shape, lambda k, x: k.diagonal(x))
declare(
    Operator(
        "iota",
        0,
        _iota_shape,
        lambda k, shape, axis, dtype: k.iota(shape, axis),
        (
            OperatorParameter("shape", ParameterKind.SHAPE),
            _AXIS,
            OperatorParameter("dtype", ParameterKind.DTYPE),
        ),
        flops=_free,
        dtype=_declared_dtype,
    )
)
