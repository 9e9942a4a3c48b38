"""Reductions of tiles: sums, maxima, dots, and running maxima with rescaled sums.

`reduce_tile` prints one tile's part; `OnlineReduction` combines the parts of a loop's iterations,
where sums are scaled as the maximum of what was seen grows (see `rescaling`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce

from ....tensor.types import JAX_NAMES, DType
from ... import ir
from ..contractions import Contraction, ContractionSide
from ..loops import Loops
from ..nodes import TileNode
from .expressions import TilePrinter
from .text import TileText, broadcast_text, cast, literal, widened_operand, working_dtype


def reduce_tile(tiles: TilePrinter, node: TileNode, *, heeded: bool) -> TileText:
    """What the tile of `node` comes to over its reduced axes, this iteration's part of the loop's.

    Where it is `heeded`, a maximum is NaN if an element is NaN.
    """
    layout = tiles.layout
    product = layout.dot(node)
    if product is not None:
        return _dot(tiles, node, product)
    value = tiles.value(node.value, node)
    if node.stage.accumulated is DType.I32:
        value = cast(value, DType.I32)
    value = widened_operand(value, working_dtype([value.dtype], DType.I32))
    over = layout.axes(node.folded)
    if not over:
        return value if value.dtype is not DType.WEAK else cast(value, DType.F32)
    # A value that does not depend on a reduced index still counts once for each of its values.
    value = _with_reduced_axes(tiles, value, over)
    neutral = "0" if node.reduction is ir.ReductionKind.SUM else lowest_value(value.dtype)
    value = _masked_to_neutral(tiles, value, over, neutral, node.reduction is ir.ReductionKind.SUM)
    places = tuple(value.axes.index(axis) for axis in over)
    axis = str(places[0]) if len(places) == 1 else str(places)
    left = tuple(axis for axis in value.axes if axis not in over)
    dtype_argument = (
        ", dtype=jnp.int32"
        if value.dtype is DType.I32 and node.reduction is ir.ReductionKind.SUM
        else ""
    )
    heeded = heeded and node.reduction is ir.ReductionKind.MAX and value.dtype is not DType.I32
    name = "_largest" if heeded else f"jnp.{node.reduction}"
    return TileText(f"{name}({value.text}, axis={axis}{dtype_argument})", value.dtype, left)


def combine_parts(node: TileNode, total: str, part: TileText, *, heeded: bool) -> str:
    """What `total` and `part` come to: their sum, or the larger one."""
    if node.reduction is ir.ReductionKind.SUM:
        return f"{total} + {part.text}"
    name = "_maximum" if heeded and part.dtype is not DType.I32 else "jnp.maximum"
    return f"{name}({total}, {part.text})"


def neutral_value(reduction: ir.ReductionKind, dtype: DType, shape: tuple[int, ...]) -> str:
    """The value of a `reduction` over nothing, with which accumulators begin."""
    if reduction is ir.ReductionKind.SUM:
        return f"jnp.zeros({shape}, {JAX_NAMES[dtype]})"
    return f"jnp.full({shape}, {lowest_value(dtype)}, {JAX_NAMES[dtype]})"


def lowest_value(dtype: DType) -> str:
    """What no maximum of `dtype` is below."""
    return literal(-math.inf).text if dtype in (DType.F32, DType.F64) else str(-(2**31))


def _with_reduced_axes(
    tiles: TilePrinter, value: TileText, over: tuple[ir.LoopIndex, ...]
) -> TileText:
    """A tile with all the axes in `over`, though its elements may not depend on them."""
    axes = tiles.layout.axes((*value.axes, *over))
    if axes == value.axes:
        return value
    dtype = working_dtype([value.dtype], DType.F32) if value.dtype is DType.WEAK else value.dtype
    text = f"jnp.broadcast_to({broadcast_text(value, axes)}, {tiles.layout.shape(axes)})"
    return TileText(text, dtype, axes, value.zeros)


def _masked_to_neutral(
    tiles: TilePrinter, value: TileText, over: Iterable[ir.LoopIndex], neutral: str, zeros: bool
) -> TileText:
    """Puts `neutral` beyond the sizes of the indices in `over`, where it is not there already."""
    left = [axis for axis in over if not (zeros and axis in value.zeros)]
    mask = tiles.positions.mask(tiles.positions.below(left), value.axes)
    if not mask:
        return value
    return replace(value, text=f"jnp.where({mask}, {value.text}, {neutral})")


def _dot(tiles: TilePrinter, node: TileNode, product: Contraction) -> TileText:
    """The product of two matrices."""
    layout = tiles.layout
    left, right = product.left, product.right
    rows, columns, summed = (
        layout.axes(left_operand) for left_operand in (left.own, right.own, left.summed)
    )
    left_operand = _operand(tiles, node, left, (*rows, *summed))
    right_operand = _operand(tiles, node, right, (*summed, *columns))
    dtype = working_dtype([left_operand.dtype, right_operand.dtype])
    if left_operand.dtype is not right_operand.dtype:
        left_operand, right_operand = cast(left_operand, dtype), cast(right_operand, dtype)
    texts = [
        _matrix(tiles, left_operand, rows, summed),
        _matrix(tiles, right_operand, summed, columns),
    ]
    text = f"lax.dot({', '.join(texts)}, preferred_element_type={JAX_NAMES[dtype]})"
    # A dot has two axes, so several rows or columns were flattened for it and are unfolded again.
    if len(rows) + len(columns) > 2:
        text = f"{text}.reshape{layout.shape((*rows, *columns))}"
    value = TileText(text, dtype, (*rows, *columns))
    for factor in product.scale:
        value = _scaled(tiles, value, tiles.value(factor, node))
    return value


def _scaled(tiles: TilePrinter, value: TileText, factor: TileText) -> TileText:
    dtype = working_dtype([value.dtype, factor.dtype])
    text = f"({widened_operand(value, dtype).text} * {widened_operand(factor, dtype).text})"
    return TileText(text, dtype, value.axes)


def _operand(
    tiles: TilePrinter, node: TileNode, side: ContractionSide, order: tuple[ir.LoopIndex, ...]
) -> TileText:
    """One `side` of a dot with its axes in `order`, in a half type where all of it is; zeros beyond
    what is summed.
    """
    product = reduce(lambda x, y: ir.Apply(ir.Operation.MULTIPLY, (x, y)), side.factors)
    if isinstance(product, ir.BufferLoad) and product not in node.reads:
        value = tiles.load(product, order)
    else:
        value = tiles.value(product, node)
    summed = tiles.layout.axes(side.summed)
    return _masked_to_neutral(tiles, value, summed, "0", zeros=True)


def _matrix(
    tiles: TilePrinter,
    value: TileText,
    first: tuple[ir.LoopIndex, ...],
    second: tuple[ir.LoopIndex, ...],
) -> str:
    text = broadcast_text(value, (*first, *second))
    if len(first) == len(second) == 1:
        return text
    rows, columns = (math.prod(tiles.layout.shape(axes)) for axes in (first, second))
    return f"{text}.reshape({rows}, {columns})"


class OnlineReduction:
    """The accumulators of one loop, by their names; prints into the loop's scope."""

    def __init__(self, tiles: TilePrinter, loops: Loops, names: Mapping[TileNode, str]) -> None:
        self._tiles, self._loops, self._names = tiles, loops, names
        self._pace = {node: loops.running(node) for node in names}
        self._followed = {most for maxima in self._pace.values() for most in maxima}
        self._next: dict[TileNode, TileText] = {}

    def add(self, node: TileNode, part: TileText) -> None:
        """Makes an iteration's maximum known to what runs along with it.

        While nothing but minus infinity was seen, numerators are exp(-inf) rather than exp(nan).
        """
        if node in self._followed:
            scope, name = self._tiles.scope, self._names[node]
            combined = replace(part, text=self._combined(node, name, part))
            most = self._next[node] = scope.bind((node, "most"), f"{name}_next", combined)
            finite = replace(most, text=f"jnp.where({most.text} == -jnp.inf, 0.0, {most.text})")
            scope.bind(node, f"{name}_shift", finite)

    def total(self, node: TileNode, part: TileText) -> str:
        """What the accumulator `node` is after an iteration that adds `part`."""
        if node in self._next:
            return self._next[node].text
        name = self._names[node]
        for most, weight in self._pace[node].items():
            # The total so far counts from the old maximum: it is scaled to the new one before the
            # part is added.
            name = f"{name} * {broadcast_text(self._scale(most, weight), part.axes)}"
        return self._combined(node, name, part)

    def _combined(self, node: TileNode, total: str, part: TileText) -> str:
        return combine_parts(node, total, part, heeded=self._loops.heeds(node))

    def _scale(self, most: TileNode, weight: float) -> TileText:
        """What a sum over smaller places is multiplied by, now that the maximum `most` has
        grown.
        """
        scope, name = self._tiles.scope, self._names[most]
        bound_scale = scope.known((most, weight))
        if bound_scale is not None:
            return bound_scale
        shift = self._tiles.known(most)
        grown = f"{name} - {shift.text}"
        text = f"jnp.exp({grown})" if weight == -1 else f"jnp.exp(({grown}) * {-weight})"
        return scope.bind((most, weight), f"{name}_scale", replace(shift, text=text))

    def settled(self, node: TileNode, part: TileText) -> TileText:
        """An accumulator behind the loop; NaN where its maximum is minus infinity."""
        total = replace(part, text=self._names[node])
        for most in self._pace[node]:
            shift = replace(self._next[most], text=self._names[most])
            # The shift was 0 there in place of minus infinity, so that the sum is a number; the
            # original has NaN.
            lost = f"{broadcast_text(shift, part.axes)} == -jnp.inf"
            total = replace(total, text=f"jnp.where({lost}, jnp.nan, {total.text})")
        return total
