"""Rewrite rules for matrix products, and for sums that are such products.

A product of [m, k] and [k, n] takes 2 m k n operations: these rules change in which order products
are taken, and turn sums of products into products and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from math import prod
from operator import add

from ....tensor import Term, apply
from ..terms import again, kept_shape, named, rank_swap, reshaped, sizes, swapped, total, transposed
from .registry import rule


@rule("matmul")
def reassociated(term: Term) -> Iterator[Term]:
    """(AB)C is A(BC): with a column for C, two products with columns replace one of matrices."""
    left, right = term.arguments
    if named(left, "matmul"):
        yield left.arguments[0] @ (left.arguments[1] @ right)
    if named(right, "matmul"):
        yield (left @ right.arguments[0]) @ right.arguments[1]


@rule("matmul")
def turned(term: Term) -> Iterator[Term]:
    """AᵀB is (BᵀA)ᵀ: the other operand stands in its own order."""
    left, right = term.arguments
    if rank_swap(left) is not None or rank_swap(right) is not None:
        yield swapped(swapped(right) @ swapped(left))


@rule("transpose")
def transpose_of_product(term: Term) -> Iterator[Term]:
    """(AB)ᵀ is BᵀAᵀ, which products absorb."""
    product = rank_swap(term)
    if product is not None and named(product, "matmul"):
        left, right = product.arguments
        yield swapped(right) @ swapped(left)


@rule("sum", "mean")
def sum_of_product(term: Term) -> Iterator[Term]:
    """A sum of the rows of AB is (sum of the rows of A) B; a sum of its columns likewise."""
    product, axes = term.arguments[0], term.parameter("axes")
    if not named(product, "matmul"):
        return
    rank = len(product.shape)
    left, right = product.arguments
    if rank - 2 in axes:
        left = again(term, left, axes=(rank - 2,), keep=True)
    if rank - 1 in axes:
        right = again(term, right, axes=(rank - 1,), keep=True)
    batch_axes = tuple(axis for axis in axes if axis < rank - 2)
    if len(batch_axes) == len(axes):
        return
    contracted = left @ right
    if batch_axes:
        contracted = again(term, contracted, axes=batch_axes, keep=True)
    yield reshaped(contracted, term.shape)


@rule("diagonal")
def diagonal_of_product(term: Term) -> Iterator[Term]:
    """The diagonal of AB is the sum of A · Bᵀ along rows: only rows that meet their own columns."""
    product = term.arguments[0]
    if named(product, "matmul"):
        left, right = product.arguments
        yield total(left * swapped(right), [len(product.shape) - 1], keep=False)


@rule("sum")
def sum_as_product(term: Term) -> Iterator[Term]:
    """sum(x · y) over an axis of both is a product of matrices."""
    factors = _factors(term.arguments[0])
    if factors is not None:
        yield from _contracted(term, *factors)


def _factors(term: Term) -> tuple[Term, Term] | None:
    """The two factors of `term`, if it is a product of two arrays, or a square."""
    if named(term, "square"):
        return term.arguments[0], term.arguments[0]
    if named(term, "mul") and all(argument.shape for argument in term.arguments):
        left, right = term.arguments
        return left, right
    return None


def _contracted(term: Term, x: Term, y: Term) -> Iterator[Term]:
    """sum(x · y) as matrix products, one for each order of the factors.

    Axes are a batch (of both, and kept), rows (of x alone), columns (of y alone) or summed (of
    both).
    """
    axes = term.parameter("axes")
    x_sizes, y_sizes, rank = sizes(x), sizes(y), len(x.shape)
    full = [axis for axis in range(rank) if max(x_sizes[axis], y_sizes[axis]) > 1]
    both = [axis for axis in full if min(x_sizes[axis], y_sizes[axis]) > 1]
    summed = [axis for axis in axes if axis in full]
    batch = [axis for axis in both if axis not in axes]
    left = [axis for axis in full if axis not in axes and y_sizes[axis] == 1]
    right = [axis for axis in full if axis not in axes and x_sizes[axis] == 1]
    # An axis that only one factor has is summed in that factor first: that is `sum_inside`.
    if not summed or not set(summed) <= set(both) or not (left or right or not batch):
        return
    shape = [max(pair) for pair in zip(x_sizes, y_sizes, strict=True)]
    for order, product in (
        ([*batch, *left, *right], _matrix_product(x, y, batch, left, summed, right)),
        ([*batch, *right, *left], _matrix_product(y, x, batch, right, summed, left)),
    ):
        matrix = reshaped(product, [shape[axis] for axis in order])
        # The product has its axes as batch, rows, columns; the term has them in the order of its
        # operands.
        back = transposed(matrix, [order.index(axis) for axis in sorted(order)])
        yield reshaped(back, term.shape)


def _matrix_product(
    x: Term, y: Term, batch: list[int], rows: list[int], summed: list[int], columns: list[int]
) -> Term:
    """x as [batch, rows, summed] times y as [batch, summed, columns]."""
    return _as_matrix(x, [batch, rows, summed]) @ _as_matrix(y, [batch, summed, columns])


def _as_matrix(x: Term, groups: Iterable[list[int]]) -> Term:
    """The axes of each group merged into one, in this order; without a batch axis where the batch
    group is empty."""
    shape = sizes(x)
    batch, *matrix_axes = groups
    order = [*batch, *matrix_axes[0], *matrix_axes[1]]
    ones = [axis for axis in range(len(shape)) if axis not in order]
    lead = [prod(shape[axis] for axis in batch)] if batch else []
    merged = [*lead, *(prod(shape[axis] for axis in group) for group in matrix_axes)]
    return reshaped(transposed(x, [*order, *ones]), merged)


@rule("sum", "mean")
def sum_inside(term: Term) -> Iterator[Term]:
    """sum(a · b) is a · sum(b) where a is the same along the axes."""
    inner, axes = term.arguments[0], term.parameter("axes")
    if not named(inner, "mul", "div") or term.parameter("axes") == ():
        return
    x, y = inner.arguments
    for factor, invariant in ((x, y), (y, x)) if named(inner, "mul") else ((x, y),):
        if factor.shape and (
            not invariant.shape or all(invariant.shape[axis] == 1 for axis in axes)
        ):
            # A factor that is itself repeated along a summed axis would be summed too few times.
            if factor.shape != inner.shape and any(factor.shape[a] != inner.shape[a] for a in axes):
                continue
            summed = again(term, factor, keep=True)
            # A quotient has an order, and only its numerator may be summed.
            pair = (summed, invariant) if factor is x else (invariant, summed)
            yield reshaped(apply(inner.operator, *pair), term.shape)


@rule("sum", "mean")
def sum_of_sum(term: Term) -> Iterator[Term]:
    """sum(a + b) is sum(a) + sum(b); a summand that is the same along the axes is multiplied by
    their length."""
    inner = term.arguments[0]
    if named(inner, "add", "sub"):
        parts = [_summed(term, summand, sizes(inner)) for summand in inner.arguments]
        yield reshaped(apply(inner.operator, *parts), term.shape)


def _summed(term: Term, x: Term, shape: tuple[int, ...]) -> Term:
    """The sum of a summand over the axes of `term`, which it may be repeated along."""
    axes = term.parameter("axes")
    x_shape = sizes(x)
    # Along axes that a summand has, it is summed; along the others it is the same, and counts as
    # often as they are long.
    here = [axis for axis in axes if x_shape and x_shape[axis] == shape[axis]]
    missing = prod(shape[axis] for axis in axes if axis not in here)
    summed = again(term, x, axes=tuple(here), keep=True) if here else x
    return summed if named(term, "mean") or missing == 1 else summed * missing


@rule("sum", "mean")
def sum_of_square(term: Term) -> Iterator[Term]:
    """sum((x - y)²) is sum(x²) - 2 sum(x y) + sum(y²), whose middle term is a product.

    It is the rule for pairwise distances, and may lose digits: `search.CANCELLING` has it.
    """
    inner = term.arguments[0]
    if not named(inner, "square") or not named(inner.arguments[0], "add", "sub"):
        return
    both = inner.arguments[0]
    x, y = both.arguments
    # Only where x and y are repeated against each other does the product save anything.
    if not x.shape or not y.shape or both.shape in (x.shape, y.shape):
        return
    shape = kept_shape(term)
    ends = [_summed(term, apply("square", operand), sizes(both)) for operand in (x, y)]
    middle = reshaped(again(term, x * y, keep=True), shape) * 2
    yield reshaped(apply(both.operator, ends[0] + ends[1], middle), term.shape)


@rule("matmul")
def sum_from_product(term: Term) -> Iterator[Term]:
    """A product with an inner axis of one is an outer product: no sum."""
    left, right = term.arguments
    if left.shape[-1] == 1:
        yield left * right


@rule("matmul")
def product_with_constant(term: Term) -> Iterator[Term]:
    """A product with a matrix of one number is a sum, times that number."""
    left, right = term.arguments
    for side, matrix, axis in ((left, right, -2), (right, left, -1)):
        number = side
        while named(number, "broadcast", "reshape", "cast"):
            number = number.arguments[0]
        if number.operator.name == "literal":
            summed = total(matrix, [len(term.shape) + axis]) * number
            yield apply("broadcast", summed, shape=term.shape)


@rule("matmul")
def product_of_sum(term: Term) -> Iterator[Term]:
    """A(B + C) is AB + AC, where AB may be there already, or cheap."""
    left, right = term.arguments
    if named(right, "add", "sub") and all(
        summand.shape == right.shape for summand in right.arguments
    ):
        yield again(right, *(left @ summand for summand in right.arguments))
    if named(left, "add", "sub") and all(summand.shape == left.shape for summand in left.arguments):
        yield again(left, *(summand @ right for summand in left.arguments))


@rule("matmul")
def product_with_stack(term: Term) -> Iterator[Term]:
    """A matrix of stacked columns times a vector is the sum of columns, each times its weight."""
    left, right = term.arguments
    if len(term.shape) != 2 or right.shape[-1] != 1:
        return
    if named(left, "stack") and left.parameter("axis") == 1:
        columns = [reshaped(column, (*column.shape, 1)) for column in left.arguments]
        weights = [
            apply("slice", right, axis=0, start=at, stop=at + 1) for at in range(len(columns))
        ]
        parts = [column * weight for column, weight in zip(columns, weights, strict=True)]
        yield reduce(add, parts)
