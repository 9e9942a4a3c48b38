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
from .data_movement import padded, row, sliced, spread, transposed
from .registry import demand, reads

_Axes: TypeAlias = Sequence[int]

MOST_TAPS = 32
"""As many taps along an axis are added up one by one where an image has holes."""


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
    filters = transposed(filters, [*window, inputs, features])
    if max(lhs_dilation) > 1 and max(filters.shape[:-2]) <= MOST_TAPS:
        convolved = _placed_products(
            image, filters, padding, lhs_dilation, rhs_dilation, feature_group_count
        )
        for axis, step in enumerate(window_strides, 1):
            convolved = sliced(convolved, axis, 0, convolved.shape[axis], step)
    else:
        convolved = _windowed(
            image, filters, window_strides, padding, lhs_dilation, rhs_dilation,
            feature_group_count,
        )  # fmt: skip
    batch, feature, *spots = dimension_numbers.out_spec
    order = {batch: 0, feature: len(spots) + 1, **{at: 1 + i for i, at in enumerate(spots)}}
    return _cast(transposed(convolved, [order[axis] for axis in range(convolved.rank)]), dtype)


def _windowed(
    image: TracedValue,
    filters: TracedValue,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    steps: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> TracedValue:
    """The convolution of an image whose elements are `steps` apart, with zeros between them."""
    for axis, ((low, high), step) in enumerate(zip(padding, steps, strict=True), 1):
        image = spread(image, uniform(0, (), image.dtype), axis, step - 1)
        image = sliced(image, axis, max(0, -low), image.shape[axis] - max(0, -high))
    convolved = apply(
        "convolution",
        image.full(),
        filters.full(),
        strides=tuple(strides),
        low=tuple(max(0, low) for low, _ in padding),
        high=tuple(max(0, high) for _, high in padding),
        dilation=tuple(dilation),
        groups=groups,
    )
    return whole(convolved, image.dtype)


def _placed_products(
    image: TracedValue,
    filters: TracedValue,
    padding: Sequence[tuple[int, int]],
    steps: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> TracedValue:
    """A transposed convolution: every element times every tap, each product put to its place.

    Problem: jax multiplies no tap with a hole of the image or with its padding, so an infinity
    among the filters leaves the results alone whose tap meets a hole; times a zero that stands
    there it would be NaN. So zeros are put among the products, whose sum they leave as it is. With
    elements a and b two apart, padding of one on either side, and taps p, q, r, the windows of
    0 a 0 b 0 are three:

        p meets 0 a 0    q meets a 0 b    r meets 0 b 0    result: aq, ap + br, bq

    Element i times tap t is a part of the result at `step * i + low - dilation * t`: a times p at
    1, times q at 0, and times r at -1, which is outside. The products are one contraction over
    channels, of the image without its holes.
    """
    exact = image.dtype
    if exact in HALVES:  # a convolution rounds its sum once, and not after each tap
        image, filters = _cast(image, DType.F32), _cast(filters, DType.F32)
    count, window = len(steps), filters.shape[:-2]
    images, *places = image.shape[:-1]
    inputs, features = filters.shape[-2:]
    if groups == 1:
        products = _product(image, transposed(filters, [count, *range(count), count + 1]), 0, 1)
    else:
        share = features // groups
        cut = whole(reshaped(image.full(), (images, *places, groups, inputs)), image.dtype)
        parts = whole(reshaped(filters.full(), (*window, inputs, groups, share)), image.dtype)
        products = _product(
            transposed(cut, [count + 1, *range(count + 1), count + 2]),
            transposed(parts, [count + 1, count, *range(count), count + 2]),
            1,
            1,
        )
        products = transposed(products, [*range(1, 2 * count + 2), 0, 2 * count + 2])
        shape = (images, *places, *window, features)
        products = whole(reshaped(products.full(), shape), image.dtype)
    for axis, ((low, high), step) in enumerate(zip(padding, steps, strict=True), 1):
        reach = (window[axis - 1] - 1) * dilation[axis - 1]
        length = (places[axis - 1] - 1) * step + 1 + low + high - reach
        # The first axis of taps that is left stands behind all places, whichever it is of.
        taps = [
            _placed(
                row(products, tap, count + 1), axis, step, low - dilation[axis - 1] * tap, length
            )
            for tap in range(window[axis - 1])
        ]
        products = taps[0]
        for part in taps[1:]:
            products = pointwise("add", products, part)
    return _cast(products, exact)


def _placed(x: TracedValue, axis: int, step: int, first: int, length: int) -> TracedValue:
    """Elements of an axis `step` apart from the place `first` on, of `length`; zeros elsewhere."""
    zero = uniform(0, (), x.dtype)
    x = spread(x, zero, axis, step - 1)
    start, stop = max(0, -first), min(x.shape[axis], length - first)
    if stop <= start:  # all of it lies outside
        shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        return replace(zero, shape=shape)
    x = sliced(x, axis, start, stop)
    return padded(x, zero, axis, max(0, first), length - first - stop)
