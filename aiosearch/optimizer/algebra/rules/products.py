"""Rewrite rules for matrix products, and for sums that are such products."""

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
    """(AB)C and A(BC)."""
    left, right = term.arguments
    if named(left, "matmul"):
        yield left.arguments[0] @ (left.arguments[1] @ right)
    if named(right, "matmul"):
        yield (left @ right.arguments[0]) @ right.arguments[1]


@rule("matmul")
def turned(term: Term) -> Iterator[Term]:
    """AᵀB is (BᵀA)ᵀ: another operand stands in its order."""
    left, right = term.arguments
    if rank_swap(left) is not None or rank_swap(right) is not None:
        yield swapped(swapped(right) @ swapped(left))


@rule("transpose")
def transpose_of_product(term: Term) -> Iterator[Term]:
    """(AB)ᵀ is BᵀAᵀ."""
    product = rank_swap(term)
    if product is not None and named(product, "matmul"):
        left, right = product.arguments
        yield swapped(right) @ swapped(left)


@rule("sum", "mean")
def sum_of_product(term: Term) -> Iterator[Term]:
    """Rows or columns of a product are added up before it is taken."""
    product, axes = term.arguments[0], term.parameter("axes")
    if not named(product, "matmul"):
        return
    rank = len(product.shape)
    left, right = product.arguments
    if rank - 2 in axes:
        left = again(term, left, axes=(rank - 2,), keep=True)
    if rank - 1 in axes:
        right = again(term, right, axes=(rank - 1,), keep=True)
    rest = tuple(axis for axis in axes if axis < rank - 2)
    if len(rest) == len(axes):
        return
    found = left @ right
    if rest:
        found = again(term, found, axes=rest, keep=True)
    yield reshaped(found, term.shape)


@rule("diagonal")
def diagonal_of_product(term: Term) -> Iterator[Term]:
    """Only the rows that meet their own columns."""
    product = term.arguments[0]
    if named(product, "matmul"):
        left, right = product.arguments
        yield total(left * swapped(right), [len(product.shape) - 1], keep=False)


@rule("sum")
def sum_as_product(term: Term) -> Iterator[Term]:
    """A sum of products over an axis of both is a product of matrices."""
    factors = _factors(term.arguments[0])
    if factors is not None:
        yield from _contracted(term, *factors)


def _factors(term: Term) -> tuple[Term, Term] | None:
    if named(term, "square"):
        return term.arguments[0], term.arguments[0]
    if named(term, "mul") and all(argument.shape for argument in term.arguments):
        left, right = term.arguments
        return left, right
    return None


def _contracted(term: Term, x: Term, y: Term) -> Iterator[Term]:
    axes = term.parameter("axes")
    one, two, rank = sizes(x), sizes(y), len(x.shape)
    full = [axis for axis in range(rank) if max(one[axis], two[axis]) > 1]
    both = [axis for axis in full if min(one[axis], two[axis]) > 1]
    summed = [axis for axis in axes if axis in full]
    batch = [axis for axis in both if axis not in axes]
    left = [axis for axis in full if axis not in axes and two[axis] == 1]
    right = [axis for axis in full if axis not in axes and one[axis] == 1]
    if not summed or not set(summed) <= set(both) or not (left or right or not batch):
        return
    shape = [max(pair) for pair in zip(one, two, strict=True)]
    for order, product in (
        ([*batch, *left, *right], _laid_product(x, y, batch, left, summed, right)),
        ([*batch, *right, *left], _laid_product(y, x, batch, right, summed, left)),
    ):
        found = reshaped(product, [shape[axis] for axis in order])
        back = transposed(found, [order.index(axis) for axis in sorted(order)])
        yield reshaped(back, term.shape)


def _laid_product(
    x: Term, y: Term, batch: list[int], rows: list[int], summed: list[int], columns: list[int]
) -> Term:
    return _laid(x, [batch, rows, summed]) @ _laid(y, [batch, summed, columns])


def _laid(x: Term, groups: Iterable[list[int]]) -> Term:
    """The axes of each group as one, in this order; the first only where it has any."""
    shape = sizes(x)
    batch, *others = groups
    order = [*batch, *others[0], *others[1]]
    ones = [axis for axis in range(len(shape)) if axis not in order]
    lead = [prod(shape[axis] for axis in batch)] if batch else []
    merged = [*lead, *(prod(shape[axis] for axis in group) for group in others)]
    return reshaped(transposed(x, [*order, *ones]), merged)


@rule("sum", "mean")
def sum_inside(term: Term) -> Iterator[Term]:
    """What is the same along the axes is taken out of the sum."""
    inner, axes = term.arguments[0], term.parameter("axes")
    if not named(inner, "mul", "div") or term.parameter("axes") == ():
        return
    x, y = inner.arguments
    for one, other in ((x, y), (y, x)) if named(inner, "mul") else ((x, y),):
        if one.shape and (not other.shape or all(other.shape[axis] == 1 for axis in axes)):
            if one.shape != inner.shape and any(one.shape[a] != inner.shape[a] for a in axes):
                continue
            summed = again(term, one, keep=True)
            pair = (summed, other) if one is x else (other, summed)
            yield reshaped(apply(inner.operator, *pair), term.shape)


@rule("sum", "mean")
def sum_of_sum(term: Term) -> Iterator[Term]:
    """Added up apart; what is the same along the axes is multiplied by their length."""
    inner = term.arguments[0]
    if named(inner, "add", "sub"):
        parts = [_summed(term, one, sizes(inner)) for one in inner.arguments]
        yield reshaped(apply(inner.operator, *parts), term.shape)


def _summed(term: Term, x: Term, shape: tuple[int, ...]) -> Term:
    axes = term.parameter("axes")
    own = sizes(x)
    here = [axis for axis in axes if own and own[axis] == shape[axis]]
    missing = prod(shape[axis] for axis in axes if axis not in here)
    found = again(term, x, axes=tuple(here), keep=True) if here else x
    return found if named(term, "mean") or missing == 1 else found * missing


@rule("sum", "mean")
def sum_of_square(term: Term) -> Iterator[Term]:
    """(x - y)² written out, whose middle term is a product."""
    inner = term.arguments[0]
    if not named(inner, "square") or not named(inner.arguments[0], "add", "sub"):
        return
    both = inner.arguments[0]
    x, y = both.arguments
    if not x.shape or not y.shape or both.shape in (x.shape, y.shape):
        return
    shape = kept_shape(term)
    ends = [_summed(term, apply("square", one), sizes(both)) for one in (x, y)]
    middle = reshaped(again(term, x * y, keep=True), shape) * 2
    yield reshaped(apply(both.operator, ends[0] + ends[1], middle), term.shape)


@rule("matmul")
def sum_from_product(term: Term) -> Iterator[Term]:
    """A product with an inner axis of one is no sum."""
    left, right = term.arguments
    if left.shape[-1] == 1:
        yield left * right


@rule("matmul")
def product_with_constant(term: Term) -> Iterator[Term]:
    """A product with one number everywhere is a sum."""
    left, right = term.arguments
    for side, other, axis in ((left, right, -2), (right, left, -1)):
        number = side
        while named(number, "broadcast", "reshape", "cast"):
            number = number.arguments[0]
        if number.operator.name == "literal":
            summed = total(other, [len(term.shape) + axis]) * number
            yield apply("broadcast", summed, shape=term.shape)


@rule("matmul")
def product_of_sum(term: Term) -> Iterator[Term]:
    """A(B + C) is AB + AC, where either may be cheaper than their sum."""
    left, right = term.arguments
    if named(right, "add", "sub") and all(one.shape == right.shape for one in right.arguments):
        yield again(right, *(left @ one for one in right.arguments))
    if named(left, "add", "sub") and all(one.shape == left.shape for one in left.arguments):
        yield again(left, *(one @ right for one in left.arguments))


@rule("matmul")
def product_with_stack(term: Term) -> Iterator[Term]:
    """Columns that are put together for a product with a vector are added up instead."""
    left, right = term.arguments
    if len(term.shape) != 2 or right.shape[-1] != 1:
        return
    if named(left, "stack") and left.parameter("axis") == 1:
        columns = [reshaped(one, (*one.shape, 1)) for one in left.arguments]
        weights = [
            apply("slice", right, axis=0, start=at, stop=at + 1) for at in range(len(columns))
        ]
        parts = [one * weight for one, weight in zip(columns, weights, strict=True)]
        yield reduce(add, parts)
