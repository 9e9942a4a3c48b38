"""Sums and maxima over tiles; sums of products as dots where matrix units take them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from ...tensor.types import JAX_NAMES, DType
from .. import ir
from .factors import Contraction, Side
from .nodes import Node
from .tiles import Tiles
from .values import Value, cast, literal, spread, wide, working


def folded(tiles: Tiles, node: Node, *, heeded: bool) -> Value:
    """What a node's tile comes to over its folded axes, this iteration's part of the loop's.

    Where it is heeded, a maximum is no number if an element is none.
    """
    layout = tiles.layout
    found = layout.dot(node)
    if found is not None:
        return _dot(tiles, node, found)
    value = tiles.value(node.value, node)
    if node.stage.accumulated is DType.I32:
        value = cast(value, DType.I32)
    value = wide(value, working([value.dtype], DType.I32))
    over = layout.axes(node.folded)
    if not over:
        return value if value.dtype is not DType.WEAK else cast(value, DType.F32)
    value = _whole(tiles, value, over)
    rest = "0" if node.fold is ir.Fold.SUM else lowest(value.dtype)
    value = _bounded(tiles, value, over, rest, node.fold is ir.Fold.SUM)
    places = tuple(value.axes.index(one) for one in over)
    axis = str(places[0]) if len(places) == 1 else str(places)
    left = tuple(one for one in value.axes if one not in over)
    kept = ", dtype=jnp.int32" if value.dtype is DType.I32 and node.fold is ir.Fold.SUM else ""
    heeded = heeded and node.fold is ir.Fold.MAX and value.dtype is not DType.I32
    name = "_largest" if heeded else f"jnp.{node.fold}"
    return Value(f"{name}({value.text}, axis={axis}{kept})", value.dtype, left)


def combined(node: Node, total: str, part: Value, *, heeded: bool) -> str:
    """What two parts come to."""
    if node.fold is ir.Fold.SUM:
        return f"{total} + {part.text}"
    name = "_maximum" if heeded and part.dtype is not DType.I32 else "jnp.maximum"
    return f"{name}({total}, {part.text})"


def initial(fold: ir.Fold, dtype: DType, shape: tuple[int, ...]) -> str:
    """What nothing comes to."""
    if fold is ir.Fold.SUM:
        return f"jnp.zeros({shape}, {JAX_NAMES[dtype]})"
    return f"jnp.full({shape}, {lowest(dtype)}, {JAX_NAMES[dtype]})"


def lowest(dtype: DType) -> str:
    """What no maximum is below."""
    return literal(-math.inf).text if dtype in (DType.F32, DType.F64) else str(-(2**31))


def _whole(tiles: Tiles, value: Value, over: tuple[ir.Index, ...]) -> Value:
    """A tile with all the axes that are folded, though its elements may not depend on them."""
    axes = tiles.layout.axes((*value.axes, *over))
    if axes == value.axes:
        return value
    dtype = working([value.dtype], DType.F32) if value.dtype is DType.WEAK else value.dtype
    text = f"jnp.broadcast_to({spread(value, axes)}, {tiles.layout.shape(axes)})"
    return Value(text, dtype, axes, value.zeros)


def _bounded(tiles: Tiles, value: Value, over: Iterable[ir.Index], rest: str, zeros: bool) -> Value:
    """Puts what changes no fold beyond the sizes of indices, where it is not there already."""
    left = [one for one in over if not (zeros and one in value.zeros)]
    mask = tiles.positions.mask(tiles.positions.below(left), value.axes)
    if not mask:
        return value
    return replace(value, text=f"jnp.where({mask}, {value.text}, {rest})")


def _dot(tiles: Tiles, node: Node, found: Contraction) -> Value:
    """The product of two matrices."""
    layout = tiles.layout
    left, right = found.left, found.right
    rows, columns, summed = (layout.axes(one) for one in (left.own, right.own, left.summed))
    one = _operand(tiles, node, left, (*rows, *summed))
    other = _operand(tiles, node, right, (*summed, *columns))
    dtype = working([one.dtype, other.dtype])
    if one.dtype is not other.dtype:
        one, other = cast(one, dtype), cast(other, dtype)
    texts = [_matrix(tiles, one, rows, summed), _matrix(tiles, other, summed, columns)]
    text = f"lax.dot({', '.join(texts)}, preferred_element_type={JAX_NAMES[dtype]})"
    if len(rows) + len(columns) > 2:
        text = f"{text}.reshape{layout.shape((*rows, *columns))}"
    value = Value(text, dtype, (*rows, *columns))
    for factor in found.scale:
        value = _scaled(tiles, value, tiles.value(factor, node))
    return value


def _scaled(tiles: Tiles, value: Value, factor: Value) -> Value:
    dtype = working([value.dtype, factor.dtype])
    text = f"({wide(value, dtype).text} * {wide(factor, dtype).text})"
    return Value(text, dtype, value.axes)


def _operand(tiles: Tiles, node: Node, side: Side, order: tuple[ir.Index, ...]) -> Value:
    """One side, in a half type where it is of one; zeros beyond what is summed."""
    product = reduce(lambda x, y: ir.Apply(ir.Operation.MULTIPLY, (x, y)), side.factors)
    if isinstance(product, ir.Load) and product not in node.reads:
        value = tiles.load(product, order)
    else:
        value = tiles.value(product, node)
    summed = tiles.layout.axes(side.summed)
    return _bounded(tiles, value, summed, "0", zeros=True)


def _matrix(
    tiles: Tiles, value: Value, first: tuple[ir.Index, ...], second: tuple[ir.Index, ...]
) -> str:
    text = spread(value, (*first, *second))
    if len(first) == len(second) == 1:
        return text
    rows, columns = (math.prod(tiles.layout.shape(axes)) for axes in (first, second))
    return f"{text}.reshape({rows}, {columns})"
