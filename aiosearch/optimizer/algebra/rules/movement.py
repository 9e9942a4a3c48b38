"""Rewrite rules that move slices, transposes and diagonals earlier or later, or remove them.

Moved towards the inputs, a slice or diagonal leaves less to compute; a transpose moves towards
where a product absorbs it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....tensor import Term, apply, literal
from ..terms import again, kept_axes, named, reshaped, sizes, transposed
from .registry import rule

_POINTWISE = ("neg", "abs", "exp", "log", "square", "sqrt", "rsqrt", "reciprocal", "tanh", "erf",
              "erfc", "sigmoid", "silu", "gelu", "gelu_tanh", "relu", "power", "exponential",
              "cast", "add", "sub", "mul", "div", "maximum", "minimum", "select", "clamp", "log1p",
              "expm1", "sin", "cos", "less", "less_equal", "equal", "not_equal")  # fmt: skip
"""Operators that compute each element from those at its own place."""


@rule("slice")
def slice_first(term: Term) -> Iterator[Term]:
    """A slice moves before the operator that it reads, so that only what is used is computed."""
    x, axis = term.arguments[0], term.parameter("axis")
    if named(x, *_POINTWISE):
        yield again(x, *(_cut(term, operand, axis) for operand in x.arguments))
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
    """The slice of an operand; an operand that is repeated along the axis stays as it is."""
    return again(term, x) if x.shape and x.shape[axis] != 1 else x


def _cut_product(term: Term, x: Term, axis: int) -> Term:
    """A slice of rows or columns of a product is a product with fewer rows or columns."""
    left, right = x.arguments
    rank = len(x.shape)
    if axis < rank - 2:
        return _cut(term, left, axis) @ _cut(term, right, axis)
    return _cut(term, left, axis) @ right if axis == rank - 2 else left @ _cut(term, right, axis)


def _cut_reduction(term: Term, x: Term, axis: int) -> Iterator[Term]:
    """A slice along an axis that is left is taken before the reduction."""
    source, axes = x.arguments[0], x.parameter("axes")
    # A reduced axis that is kept has one element, and a slice of it is all of it.
    if x.parameter("keep"):
        if axis not in axes:
            yield again(x, again(term, source))
        return
    left = [source_axis for source_axis in range(len(source.shape)) if source_axis not in axes]
    yield again(x, again(term, source, axis=left[axis]))


def _cut_joined(term: Term, x: Term, axis: int) -> Iterator[Term]:
    """A slice of a `concatenate` or `stack` that is within one of its operands is a slice of that
    one."""
    joined_axis, bounds = x.parameter("axis"), dict(term.parameters)
    if axis != joined_axis:
        inner = axis - 1 if named(x, "stack") and axis > joined_axis else axis
        yield again(x, *(again(term, operand, axis=inner) for operand in x.arguments))
        return
    if named(x, "stack"):
        chosen = x.arguments[bounds["start"] : bounds["stop"] : bounds["step"]]
        yield again(x, *chosen)
        return
    # Operands lie behind each other along the axis; the slice has to lie within one of them.
    before = 0
    for operand in x.arguments:
        after = before + sizes(operand)[axis]
        if before <= bounds["start"] and bounds["stop"] <= after:
            yield again(term, operand, start=bounds["start"] - before, stop=bounds["stop"] - before)
        before = after


def _cut_reshaped(term: Term, x: Term, axis: int) -> Iterator[Term]:
    """A slice moves before a reshape that only adds or removes axes of size one."""
    source_axes = dict(kept_axes(x) or [])
    if axis in source_axes:
        yield reshaped(again(term, x.arguments[0], axis=source_axes[axis]), term.shape)


@rule(*_POINTWISE)
def transpose_after(term: Term) -> Iterator[Term]:
    """f(xᵀ, y) is f(x, yᵀ)ᵀ: a transpose moves behind pointwise operators."""
    transposed_operand = next(
        (operand for operand in term.arguments if named(operand, "transpose")), None
    )
    if transposed_operand is None:
        return
    order = transposed_operand.parameter("axes")
    # The inverse permutation, for operands that are not transposed themselves.
    back = [order.index(axis) for axis in range(len(order))]
    operands = [
        operand if not operand.shape else _turned_back(operand, back) for operand in term.arguments
    ]
    yield transposed(again(term, *operands), order)


def _turned_back(x: Term, back: list[int]) -> Term:
    if named(x, "transpose"):
        order = x.parameter("axes")
        return transposed(x.arguments[0], [order[axis] for axis in back])
    return transposed(x, back)


@rule("transpose")
def transpose_before(term: Term) -> Iterator[Term]:
    """f(x, y)ᵀ is f(xᵀ, yᵀ): a transpose moves before pointwise operators."""
    x, order = term.arguments[0], term.parameter("axes")
    if named(x, *_POINTWISE):
        operands = [
            transposed(operand, order) if operand.shape else operand for operand in x.arguments
        ]
        yield again(x, *operands)


@rule("sum", "mean", "max", "min")
def reduction_of_transpose(term: Term) -> Iterator[Term]:
    """A reduction of a transpose is one of the operand, over the axes where they are there."""
    x, axes = term.arguments[0], term.parameter("axes")
    if named(x, "transpose"):
        order = x.parameter("axes")
        inner = tuple(sorted(order[axis] for axis in axes))
        reduction = again(term, x.arguments[0], axes=inner, keep=True)
        yield reshaped(transposed(reduction, order), term.shape)


@rule("diagonal")
def diagonal_first(term: Term) -> Iterator[Term]:
    """The diagonal of f(x, y) is f of their diagonals, so that only that is computed."""
    x = term.arguments[0]
    if named(x, *_POINTWISE):
        yield again(
            x, *(_diagonal(operand) if operand.shape else operand for operand in x.arguments)
        )
    elif named(x, "transpose") and x.parameter("axes")[-2:] == (1, 0) and len(x.shape) == 2:
        yield apply("diagonal", x.arguments[0])


def _diagonal(x: Term) -> Term:
    """The diagonal of an operand, which may be repeated along either axis."""
    rows, columns = x.shape[-2:]
    if rows == columns:
        return apply("diagonal", x)
    # One of the two axes has size one: each element is repeated along it, and stands on the
    # diagonal once.
    side = max(rows, columns)  # type: ignore[type-var]  # sizes are known in a search
    return reshaped(x, (*x.shape[:-2], side))


@rule("matmul")
def product_with_diagonal(term: Term) -> Iterator[Term]:
    """A product with a diagonal matrix scales rows or columns of the other factor."""
    left, right = term.arguments
    for side, matrix, axis in ((left, right, -1), (right, left, -2)):
        entries = _entries(side)
        if entries is not None:
            rank = len(term.shape)
            shape = [1] * rank
            shape[rank - 2 if axis == -1 else rank - 1] = sizes(side)[axis]
            column = reshaped(entries, shape) if entries.shape else entries
            yield column * matrix


def _entries(term: Term) -> Term | None:
    """What stands on the diagonal of a matrix that is zero elsewhere; `None` for any
    other matrix."""
    if named(term, "cast") and _is_identity(term.arguments[0]):
        return literal(1)
    if not named(term, "select") or not _is_identity(term.arguments[0]) or len(term.shape) != 2:
        return None
    _, entries, elsewhere = term.arguments
    if elsewhere.operator.name != "literal" or elsewhere.parameter("value") != 0:
        return None
    if entries.shape and entries.shape[-1] == entries.shape[-2]:
        return apply("diagonal", entries)
    return entries


def _is_identity(term: Term) -> bool:
    """Whether `term` compares the places along two axes for equality: the mask of a diagonal."""
    if not named(term, "equal") or not all(named(side, "iota") for side in term.arguments):
        return False
    return {side.parameter("axis") for side in term.arguments} == {0, 1}
