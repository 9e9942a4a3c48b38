"""Rewrite rules for factors: in and out of matrix products, common ones, and their order.

A factor costs as much as what it is multiplied with has elements: most rules here move it to a
smaller array.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod

from ....tensor import Term, apply, literal
from ..terms import constant, named, sizes, swapped, value
from .registry import rule

_MANY = 8
"""Longer sums are not looked at pair by pair, which is quadratic."""


@rule("matmul")
def scale_out_of_product(term: Term) -> Iterator[Term]:
    """(s · A) B is s · (AB) for a factor of whole rows of A; for whole columns of B likewise."""
    for side, along in ((0, -1), (1, -2)):
        scaled = term.arguments[side]
        for operator, unscaled, scale in _scaled(scaled):
            # A factor that varies along the inner axis stays inside: `scale_across_product` may
            # move it to the other side.
            if scale.shape and scale.shape[along] != 1:
                continue
            inner = [term.arguments[0], term.arguments[1]]
            inner[side] = unscaled
            yield apply(operator, inner[0] @ inner[1], scale)


def _scaled(term: Term) -> Iterator[tuple[str, Term, Term]]:
    """The ways to see `term` as a term times or over a factor: operator, term, factor."""
    if named(term, "neg"):
        yield "mul", term.arguments[0], literal(-1)
    if named(term, "mul", "div"):
        x, y = term.arguments
        if x.shape:
            yield term.operator.name, x, y
        if named(term, "mul") and y.shape:
            yield "mul", y, x


@rule("matmul")
def scale_across_product(term: Term) -> Iterator[Term]:
    """(A · s) B is A (sᵀ · B): a factor of the inner axis may stand on either side."""
    left, right = term.arguments
    for operator, unscaled, scale in _scaled(left):
        if scale.shape and scale.shape[-2] == 1:
            yield unscaled @ apply(operator, right, swapped(scale))
    for operator, unscaled, scale in _scaled(right):
        if scale.shape and scale.shape[-1] == 1:
            yield apply(operator, left, swapped(scale)) @ unscaled


@rule("mul", "div")
def scale_into_product(term: Term) -> Iterator[Term]:
    """c · (AB) is (cA) B for a number c, on the side with fewer elements."""
    x, y = term.arguments
    for product, scale in ((x, y), (y, x)) if named(term, "mul") else ((x, y),):
        if not named(product, "matmul") or scale.shape:
            continue
        left, right = product.arguments
        # Of a product of [8, 4096] and [4096, 8] each factor has 512 times the elements: whether
        # that pays, as where a factor is constant, is for `estimate` to say.
        if prod(sizes(left)) <= prod(sizes(right)):
            yield apply(term.operator, left, scale) @ right
        else:
            yield left @ apply(term.operator, right, scale)


@rule("add", "sub")
def common_factor(term: Term) -> Iterator[Term]:
    """ab + ac is a(b + c), for numbers, arrays and matrices."""
    x, y = term.arguments
    for factor, cofactor in _split(x):
        for y_factor, left in _split(y):
            if factor is y_factor:
                yield apply("mul", factor, apply(term.operator, cofactor, left))
    if named(x, "div") and named(y, "div") and x.arguments[1] is y.arguments[1]:
        above = apply(term.operator, x.arguments[0], y.arguments[0])
        yield apply("div", above, x.arguments[1])
    # Matrices do not commute: only a factor on the same side of both is common.
    for left, a, right, b in _products(x, y):
        if left is a and right.shape == b.shape:
            yield left @ apply(term.operator, right, b)
        if right is b and left.shape == a.shape:
            yield apply(term.operator, left, a) @ right


def _split(term: Term) -> Iterator[tuple[Term, Term]]:
    """Each factor of a term, and what is left without it: of ab, (a, b) and (b, a); of x³, (x, x²)
    and (x², x)."""
    yield term, literal(1)
    if named(term, "mul"):
        x, y = term.arguments
        for operand, outside in ((x, y), (y, x)):
            for factor, remainder in _split(operand):
                yield (
                    factor,
                    outside if remainder is literal(1) else apply("mul", remainder, outside),
                )
    elif named(term, "square"):
        yield term.arguments[0], term.arguments[0]
    elif named(term, "power"):
        exponent = float(term.parameter("exponent"))
        if exponent.is_integer() and exponent > 2:
            x = term.arguments[0]
            yield x, apply("power", x, exponent=exponent - 1)
            yield apply("square", x), x if exponent == 3 else _power(x, exponent - 2)


def _power(x: Term, exponent: float) -> Term:
    """x to a whole power; a square has an operator of its own."""
    return apply("square", x) if exponent == 2 else apply("power", x, exponent=exponent)


def _products(x: Term, y: Term) -> Iterator[tuple[Term, Term, Term, Term]]:
    """The factors of two matrix products, as left, left, right, right."""
    if named(x, "matmul") and named(y, "matmul"):
        yield (x.arguments[0], y.arguments[0], x.arguments[1], y.arguments[1])


@rule("add", "sub")
def common_factor_of_many(term: Term) -> Iterator[Term]:
    """Any two summands of a sum that share a factor are taken together, however far apart they
    stand."""
    parts = list(_summands(term))
    # Two summands are the matter of `common_factor`.
    if not 2 < len(parts) <= _MANY:
        return
    for (at, (plus, x)), (partner, (also, y)) in combinations(enumerate(parts), 2):
        joined = apply("add" if plus == also else "sub", x, y)
        remaining = [part for index, part in enumerate(parts) if index not in (at, partner)]
        for factored in common_factor(joined):
            yield _sum([(plus, factored), *remaining])
        # They cancel, whatever stands between them.
        if x is y and plus != also:
            yield _sum(remaining)


def _summands(term: Term) -> Iterator[tuple[bool, Term]]:
    """The terms that a tree of additions and subtractions has, each with whether it is added."""
    if not named(term, "add", "sub"):
        yield True, term
        return
    x, y = term.arguments
    yield from _summands(x)
    for plus, summand in _summands(y):
        yield plus == named(term, "add"), summand


def _sum(parts: list[tuple[bool, Term]]) -> Term:
    """The sum of signed terms; those that are added come first, so that no negation is needed if
    there is one."""
    first, *tail = sorted(parts, key=lambda part: not part[0])
    total = first[1] if first[0] else apply("neg", first[1])
    for plus, summand in tail:
        total = apply("add" if plus else "sub", total, summand)
    return total


@rule("mul")
def regrouped_factors(term: Term) -> Iterator[Term]:
    """(ab)c is a(bc) where bc has fewer elements than the whole: smaller arrays are multiplied
    first."""
    x, y = term.arguments
    for product, factor in ((x, y), (y, x)):
        if named(product, "mul"):
            a, b = product.arguments
            for outer, moved in ((a, b), (b, a)):
                inner = apply("mul", moved, factor)
                # Both orders of equal size would only lead back and forth.
                if prod(sizes(inner)) < prod(sizes(term)):
                    yield apply("mul", outer, inner)


@rule("mul")
def distributed(term: Term) -> Iterator[Term]:
    """a(b + c) is ab + ac, on the way to another common factor."""
    x, y = term.arguments
    for factor, bracket in ((x, y), (y, x)):
        if named(bracket, "add", "sub"):
            b, c = bracket.arguments
            yield apply(bracket.operator, apply("mul", factor, b), apply("mul", factor, c))


@rule("div")
def reciprocal_first(term: Term) -> Iterator[Term]:
    """x / y is x · (1 / y) where y has fewer elements; by a number it is a product with the
    inverse."""
    x, y = term.arguments
    number = value(y)
    if number:
        yield apply("mul", x, constant(1 / number))
    elif y.shape and prod(sizes(y)) < prod(sizes(term)):
        yield apply("mul", x, apply("div", literal(1), y))
    if named(x, "mul") and not y.shape:
        a, b = x.arguments
        yield apply("mul", a, apply("div", b, y))


@rule("power")
def power_by_root(term: Term) -> Iterator[Term]:
    """x to 1.5 is x · sqrt x, and x to -2 is 1 / x²: roots and squares are faster than powers."""
    x, exponent = term.arguments[0], float(term.parameter("exponent"))
    # Up to 8 a power is a few products; beyond, its digits suffer more than its time gains.
    if 2 * exponent != int(2 * exponent) or not 1 < abs(exponent) <= 8:
        return
    whole, half = divmod(abs(exponent), 1)
    product = x if whole == 1 else _power(x, whole)
    if half:
        product = apply("mul", product, apply("sqrt", x))
    if exponent < 0:
        yield apply("div", literal(1), product)
    elif half:
        yield product


@rule("rsqrt")
def inverse_root(term: Term) -> Iterator[Term]:
    """rsqrt x is 1 / sqrt x, which other rules for quotients take up."""
    yield apply("div", literal(1), apply("sqrt", term.arguments[0]))


@rule("mul")
def over_root(term: Term) -> Iterator[Term]:
    """a · rsqrt x is a / sqrt x: XLA divides as fast as it multiplies where memory decides."""
    x, y = term.arguments
    for numerator, root in ((x, y), (y, x)):
        if named(root, "rsqrt"):
            yield apply("div", numerator, apply("sqrt", root.arguments[0]))
        if named(root, "div") and value(root.arguments[0]) == 1:
            yield apply("div", numerator, root.arguments[1])
