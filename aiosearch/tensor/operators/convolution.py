"""Convolution: images `[batch, places…, channels]`, filters `[window…, channels, features]`.

With `groups`, channels and features are cut into as many parts, and each part of the features is
made of its part of the channels: filters have the channels of one part. With as many groups as
channels the convolution is depthwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ..algebra import Algebra, V
from ..errors import ShapeError
from ..operator import (
    NUMBERS,
    Dimensions,
    Operator,
    OperatorParameter,
    ParameterKind,
    declare,
    window_count,
)
from ..sizes import Dim, product
from ..types import Shape


def _shape(
    dims: Dimensions,
    shapes: Sequence[Shape],
    strides: tuple[int, ...],
    low: tuple[int, ...],
    high: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Shape:
    image, filters = shapes
    places = len(image) - 2
    if places < 1 or len(filters) != len(image):
        raise ShapeError(f"convolution of ranks {len(image)} and {len(filters)}")
    for name, values in (
        ("strides", strides), ("low", low), ("high", high), ("dilation", dilation)
    ):  # fmt: skip
        if len(values) != places or min(values) < 0:
            raise ShapeError(f"convolution over {places} axes with {name} {list(values)}")
    # Channels are last in images and last but one in filters, so that the contraction is a
    # `matmul`.
    if groups < 1:
        raise ShapeError(f"convolution in {groups} groups")
    dims.same(image[-1], filters[-2] * groups, "convolution: channels")
    dims.over(filters[-1], groups, "convolution: features of a group")
    counts: list[Dim] = []
    for axis in range(places):
        size = image[1 + axis] + (low[axis] + high[axis])
        counts.append(window_count(dims, size, filters[axis], strides[axis], dilation[axis]))
    return (image[0], *counts, filters[-1])


def _meaning(
    k: Algebra[V],
    image: V,
    filters: V,
    strides: tuple[int, ...],
    low: tuple[int, ...],
    high: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> V:
    """Gathers every window, then contracts windows and channels by one `matmul`."""
    places = len(strides)
    batch = len(k.shape(filters)) - places - 2
    lead, window = k.shape(filters)[:batch], k.shape(filters)[batch:-2]
    x = image
    for axis in range(places):
        if low[axis] or high[axis]:
            x = k.pad(x, batch + 1 + axis, low[axis], high[axis], Fraction(0))
    # From the last axis on: each `windows` inserts an axis behind its own, which would shift those
    # that follow.
    for axis in reversed(range(places)):
        x = k.windows(x, batch + 1 + axis, window[axis], strides[axis], dilation[axis])
    shape, end = k.shape(x), batch + 1 + 2 * places
    # [batch, p0, w0, p1, w1, channel] to [batch, p0, p1, w0, w1, channel].
    order = [*range(batch + 1), *range(batch + 1, end, 2), *range(batch + 2, end, 2), end]
    x = k.transpose(x, order)
    seen = [shape[axis] for axis in range(batch + 1, end, 2)]
    inner = product([*window, shape[-1]])
    count = product([shape[batch], *seen])
    features = k.shape(filters)[-1]
    if groups == 1:
        rows = k.reshape(x, (*shape[:batch], count, inner))
        output = k.matmul(rows, k.reshape(filters, (*lead, inner, features)))
        return k.reshape(output, (*k.shape(output)[:batch], shape[batch], *seen, features))
    # A matrix product for each group: [rows, window, group, channel] to [group, rows, the rest].
    width, part = NUMBERS.over(inner, groups, "a group"), NUMBERS.over(features, groups, "a group")
    channels = NUMBERS.over(shape[-1], groups, "a group")
    places_seen = product(window)
    split = k.reshape(x, (*shape[:batch], count, places_seen, groups, channels))
    leading = [*range(batch)]
    split = k.transpose(split, [*leading, batch + 2, batch, batch + 1, batch + 3])
    rows = k.reshape(split, (*shape[:batch], groups, count, width))
    columns = k.reshape(filters, (*lead, width, groups, part))
    columns = k.transpose(columns, [*leading, batch + 1, batch, batch + 2])
    output = k.matmul(rows, columns)
    output = k.transpose(output, [*leading, batch + 1, batch, batch + 2])
    return k.reshape(output, (*k.shape(output)[:batch], shape[batch], *seen, features))


def _flops(shapes: Sequence[Shape], result: Shape, **_: object) -> Dim:
    return product(result) * product(shapes[1][:-1]) * 2


declare(
    Operator(
        "convolution",
        2,
        _shape,
        _meaning,
        (
            OperatorParameter("strides", ParameterKind.COUNTS),
            OperatorParameter("low", ParameterKind.COUNTS),
            OperatorParameter("high", ParameterKind.COUNTS),
            OperatorParameter("dilation", ParameterKind.COUNTS),
            OperatorParameter("groups", ParameterKind.COUNT, 1, required=False),
        ),
        flops=_flops,
    )
)
