"""Primitives that multiply and add up: `dot_general` as a product of matrices, and convolutions.

Example: a `dot_general` of [b, m, k] and [k, n] over k becomes reshapes around one `matmul`.
Channels of a convolution come last, as the language has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

from ...tensor import DType, apply
from ...tensor.types import HALVES
from ..values import TracedValue, element_type, pointwise, reshaped, uniform, whole
from .data_movement import sliced, spread, transposed
from .registry import demand, reads

_Axes: TypeAlias = Sequence[int]


@reads("dot_general")
def _dot_general(
    x: TracedValue,
    y: TracedValue,
    dimension_numbers: tuple[tuple[_Axes, _Axes], tuple[_Axes, _Axes]],
    preferred_element_type: object = None,
    **params: object,
) -> TracedValue:
    (left, right), (left_batch, right_batch) = dimension_numbers
    dtype = x.dtype if preferred_element_type is None else element_type(preferred_element_type)
    x, y = _exact(x, y, dtype)
    rows = _free_axes(x, left, left_batch)
    columns = _free_axes(y, right, right_batch)
    x = transposed(x, [*left_batch, *rows, *left])
    y = transposed(y, [*right_batch, *right, *columns])
    batch, summed = len(left_batch), len(left)
    product = _outer(x, y, batch) if not summed else _product(x, y, batch, summed)
    return _cast(product, dtype)


def _free_axes(x: TracedValue, contracted: _Axes, batch: _Axes) -> list[int]:
    return [axis for axis in range(x.rank) if axis not in contracted and axis not in batch]


def _exact(x: TracedValue, y: TracedValue, dtype: DType) -> tuple[TracedValue, TracedValue]:
    """Both in the wider type, as the product of narrow ones is accumulated in the wide one."""
    if x.dtype is y.dtype and dtype in HALVES:
        return x, y
    return _cast(x, dtype), _cast(y, dtype)


def _cast(x: TracedValue, dtype: DType) -> TracedValue:
    if x.dtype is dtype:
        return x
    return replace(x, term=apply("cast", x.term, dtype=dtype), dtype=dtype)


def _outer(x: TracedValue, y: TracedValue, batch: int) -> TracedValue:
    """An outer product: nothing is summed."""
    rows, columns = x.rank - batch, y.rank - batch
    x_shape = (*x.shape, *[1] * columns)
    y_shape = (*y.shape[:batch], *[1] * rows, *y.shape[batch:])
    return pointwise("mul", x.over(x_shape), y.over(y_shape))


def _product(x: TracedValue, y: TracedValue, batch: int, summed: int) -> TracedValue:
    """The sum of products over the axes that come last in x and behind the batch in y, as one
    `matmul`."""
    lead, inner = x.shape[:batch], prod(y.shape[batch : batch + summed])
    rows, columns = x.shape[batch : x.rank - summed], y.shape[batch + summed :]
    left = reshaped(x.full(), (*lead, prod(rows), inner))
    right = reshaped(y.full(), (*lead, inner, prod(columns)))
    matrix = apply("matmul", left, right)
    return whole(reshaped(matrix, (*lead, *rows, *columns)), x.dtype)


@reads("conv_general_dilated")
def _convolution(
    image: TracedValue,
    filters: TracedValue,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: object = None,
    **params: object,
) -> TracedValue:
    demand(batch_group_count == 1, "with images in groups")
    dtype = image.dtype
    if preferred_element_type is not None:
        dtype = element_type(preferred_element_type)
    image, filters = _exact(image, filters, dtype)
    images, channels, *places = dimension_numbers.lhs_spec
    features, inputs, *window = dimension_numbers.rhs_spec
    image = transposed(image, [images, *places, channels])
    for axis, ((low, high), step) in enumerate(zip(padding, lhs_dilation, strict=True), 1):
        # A dilated image has zeros between its elements: that is a transposed convolution.
        image = spread(image, uniform(0, (), image.dtype), axis, step - 1)
        image = sliced(image, axis, max(0, -low), image.shape[axis] - max(0, -high))
    convolved = apply(
        "convolution",
        image.full(),
        transposed(filters, [*window, inputs, features]).full(),
        strides=tuple(window_strides),
        low=tuple(max(0, low) for low, _ in padding),
        high=tuple(max(0, high) for _, high in padding),
        dilation=tuple(rhs_dilation),
        groups=feature_group_count,
    )
    batch, feature, *spots = dimension_numbers.out_spec
    order = {batch: 0, feature: len(spots) + 1, **{at: 1 + i for i, at in enumerate(spots)}}
    ordered = transposed(
        whole(convolved, image.dtype), [order[axis] for axis in range(convolved.type.rank)]
    )
    return _cast(ordered, dtype)
