"""Rewrite rules that move slices, transposes and diagonals earlier or later, or remove them."""

from __future__ import annotations

from collections.abc import Iterator

from ....tensor import Term, apply, literal
from ..terms import again, kept_axes, named, reshaped, sizes, transposed
from .registry import rule

_POINTWISE = ("neg", "abs", "exp", "log", "square", "sqrt", "rsqrt", "reciprocal", "tanh", "erf",
              "erfc", "sigmoid", "silu", "gelu", "gelu_tanh", "relu", "power", "exponential",
              "cast", "add", "sub", "mul", "div", "maximum", "minimum", "select", "clamp", "log1p",
              "expm1", "sin", "cos", "less", "less_equal", "equal", "not_equal")  # fmt: skip


@rule("slice")
def slice_first(term: Term) -> Iterator[Term]:
    """Only what is used is computed."""
    x, axis = term.arguments[0], term.parameter("axis")
    if named(x, *_POINTWISE):
        yield again(x, *(_cut(term, one, axis) for one in x.arguments))
    elif named(x, "matmul"):
        yield _cut_product(term, x, axis)
    elif named(x, "transpose"):
        inner = x.parameter("axes")
        yield again(x, again(term, x.arguments[0], axis=inner[axis]))
    elif named(x, "broadcast"):
        source = x.arguments[0]
        cut = _cut(term, source, axis) if source.shape else source
        yield apply("broadcast", cut, shape=term.shape)
    elif named(x, "sum", "mean", "max", "min"):
        yield from _cut_reduction(term, x, axis)
    elif named(x, "slice") and x.parameter("axis") != axis:
        yield again(x, again(term, x.arguments[0]))
    elif named(x, "concatenate", "stack"):
        yield from _cut_joined(term, x, axis)
    elif named(x, "reshape"):
        yield from _cut_reshaped(term, x, axis)


def _cut(term: Term, x: Term, axis: int) -> Term:
    """The slice of an operand, which may be repeated along the axis."""
    return again(term, x) if x.shape and x.shape[axis] != 1 else x


def _cut_product(term: Term, x: Term, axis: int) -> Term:
    left, right = x.arguments
    rank = len(x.shape)
    if axis < rank - 2:
        return _cut(term, left, axis) @ _cut(term, right, axis)
    return _cut(term, left, axis) @ right if axis == rank - 2 else left @ _cut(term, right, axis)


def _cut_reduction(term: Term, x: Term, axis: int) -> Iterator[Term]:
    source, axes = x.arguments[0], x.parameter("axes")
    if x.parameter("keep"):
        if axis not in axes:
            yield again(x, again(term, source))
        return
    left = [own for own in range(len(source.shape)) if own not in axes]
    yield again(x, again(term, source, axis=left[axis]))


def _cut_joined(term: Term, x: Term, axis: int) -> Iterator[Term]:
    own, given = x.parameter("axis"), dict(term.parameters)
    if axis != own:
        inner = axis - 1 if named(x, "stack") and axis > own else axis
        yield again(x, *(again(term, one, axis=inner) for one in x.arguments))
        return
    if named(x, "stack"):
        chosen = x.arguments[given["start"] : given["stop"] : given["step"]]
        yield again(x, *chosen)
        return
    before = 0
    for one in x.arguments:
        after = before + sizes(one)[axis]
        if before <= given["start"] and given["stop"] <= after:
            yield again(term, one, start=given["start"] - before, stop=given["stop"] - before)
        before = after


def _cut_reshaped(term: Term, x: Term, axis: int) -> Iterator[Term]:
    """A reshape that only puts in or leaves out axes of size one."""
    kept = dict(kept_axes(x) or [])
    if axis in kept:
        yield reshaped(again(term, x.arguments[0], axis=kept[axis]), term.shape)


@rule(*_POINTWISE)
def transpose_after(term: Term) -> Iterator[Term]:
    """Functions of what is turned around are turned around themselves."""
    turned = next((one for one in term.arguments if named(one, "transpose")), None)
    if turned is None:
        return
    order = turned.parameter("axes")
    back = [order.index(axis) for axis in range(len(order))]
    operands = [one if not one.shape else _turned_back(one, back) for one in term.arguments]
    yield transposed(again(term, *operands), order)


def _turned_back(x: Term, back: list[int]) -> Term:
    if named(x, "transpose"):
        order = x.parameter("axes")
        return transposed(x.arguments[0], [order[axis] for axis in back])
    return transposed(x, back)


@rule("transpose")
def transpose_before(term: Term) -> Iterator[Term]:
    x, order = term.arguments[0], term.parameter("axes")
    if named(x, *_POINTWISE):
        operands = [transposed(one, order) if one.shape else one for one in x.arguments]
        yield again(x, *operands)


@rule("sum", "mean", "max", "min")
def reduction_of_transpose(term: Term) -> Iterator[Term]:
    """Reductions look for their axes where they are."""
    x, axes = term.arguments[0], term.parameter("axes")
    if named(x, "transpose"):
        order = x.parameter("axes")
        inner = tuple(sorted(order[axis] for axis in axes))
        kept = again(term, x.arguments[0], axes=inner, keep=True)
        yield reshaped(transposed(kept, order), term.shape)


@rule("diagonal")
def diagonal_first(term: Term) -> Iterator[Term]:
    """Only the diagonal is computed."""
    x = term.arguments[0]
    if named(x, *_POINTWISE):
        yield again(x, *(_diagonal(one) if one.shape else one for one in x.arguments))
    elif named(x, "transpose") and x.parameter("axes")[-2:] == (1, 0) and len(x.shape) == 2:
        yield apply("diagonal", x.arguments[0])


def _diagonal(x: Term) -> Term:
    """The diagonal of an operand, which may be repeated along either axis."""
    rows, columns = x.shape[-2:]
    if rows == columns:
        return apply("diagonal", x)
    return reshaped(x, (*x.shape[:-2], max(rows, columns)))  # type: ignore[type-var]


@rule("matmul")
def product_with_diagonal(term: Term) -> Iterator[Term]:
    """A matrix of a diagonal and zeros scales rows, or columns."""
    left, right = term.arguments
    for side, other, axis in ((left, right, -1), (right, left, -2)):
        entries = _entries(side)
        if entries is not None:
            rank = len(term.shape)
            shape = [1] * rank
            shape[rank - 2 if axis == -1 else rank - 1] = sizes(side)[axis]
            column = reshaped(entries, shape) if entries.shape else entries
            yield column * other


def _entries(term: Term) -> Term | None:
    """What stands on the diagonal of a matrix that is zero elsewhere."""
    if named(term, "cast") and _is_identity(term.arguments[0]):
        return literal(1)
    if not named(term, "select") or not _is_identity(term.arguments[0]) or len(term.shape) != 2:
        return None
    _, kept, other = term.arguments
    if other.operator.name != "literal" or other.parameter("value") != 0:
        return None
    if kept.shape and kept.shape[-1] == kept.shape[-2]:
        return apply("diagonal", kept)
    return kept


def _is_identity(term: Term) -> bool:
    """Whether it tells where two axes count the same."""
    if not named(term, "equal") or not all(named(one, "iota") for one in term.arguments):
        return False
    return {one.parameter("axis") for one in term.arguments} == {0, 1}
