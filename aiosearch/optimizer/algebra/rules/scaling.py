"""Rewrite rules for factors: in and out of matrix products, common ones, and their order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod

from ....tensor import Term, apply, literal
from ..terms import constant, named, sizes, swapped, value
from .registry import rule

_MANY = 8
"""Longer sums are not looked at pair by pair."""


@rule("matmul")
def scale_out_of_product(term: Term) -> Iterator[Term]:
    """Factors of whole rows of the left, or columns of the right, are applied to the product."""
    for side, along in ((0, -1), (1, -2)):
        scaled = term.arguments[side]
        for operator, one, scale in _scaled(scaled):
            if scale.shape and scale.shape[along] != 1:
                continue
            inner = [term.arguments[0], term.arguments[1]]
            inner[side] = one
            yield apply(operator, inner[0] @ inner[1], scale)


def _scaled(term: Term) -> Iterator[tuple[str, Term, Term]]:
    """What is multiplied or divided by what."""
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
    """A factor of the inner axis may stand on either side."""
    left, right = term.arguments
    for operator, one, scale in _scaled(left):
        if scale.shape and scale.shape[-2] == 1:
            yield one @ apply(operator, right, swapped(scale))
    for operator, one, scale in _scaled(right):
        if scale.shape and scale.shape[-1] == 1:
            yield apply(operator, left, swapped(scale)) @ one


@rule("mul", "div")
def scale_into_product(term: Term) -> Iterator[Term]:
    """A number is multiplied with the smaller factor of a product of matrices."""
    x, y = term.arguments
    for one, scale in ((x, y), (y, x)) if named(term, "mul") else ((x, y),):
        if not named(one, "matmul") or scale.shape:
            continue
        left, right = one.arguments
        if prod(sizes(left)) <= prod(sizes(right)):
            yield apply(term.operator, left, scale) @ right
        else:
            yield left @ apply(term.operator, right, scale)


@rule("add", "sub")
def common_factor(term: Term) -> Iterator[Term]:
    """ab + ac is a(b + c), for numbers, arrays and matrices."""
    x, y = term.arguments
    for one, rest in _split(x):
        for other, left in _split(y):
            if one is other:
                yield apply("mul", one, apply(term.operator, rest, left))
    if named(x, "div") and named(y, "div") and x.arguments[1] is y.arguments[1]:
        above = apply(term.operator, x.arguments[0], y.arguments[0])
        yield apply("div", above, x.arguments[1])
    for left, a, right, b in _products(x, y):
        if left is a and right.shape == b.shape:
            yield left @ apply(term.operator, right, b)
        if right is b and left.shape == a.shape:
            yield apply(term.operator, left, a) @ right


def _split(term: Term) -> Iterator[tuple[Term, Term]]:
    """Each factor of a term, and what is left without it."""
    yield term, literal(1)
    if named(term, "mul"):
        x, y = term.arguments
        for one, other in ((x, y), (y, x)):
            for factor, rest in _split(one):
                yield factor, other if rest is literal(1) else apply("mul", rest, other)
    elif named(term, "square"):
        yield term.arguments[0], term.arguments[0]
    elif named(term, "power"):
        exponent = float(term.parameter("exponent"))
        if exponent.is_integer() and exponent > 2:
            x = term.arguments[0]
            yield x, apply("power", x, exponent=exponent - 1)
            yield apply("square", x), x if exponent == 3 else _power(x, exponent - 2)


def _power(x: Term, exponent: float) -> Term:
    return apply("square", x) if exponent == 2 else apply("power", x, exponent=exponent)


def _products(x: Term, y: Term) -> Iterator[tuple[Term, Term, Term, Term]]:
    if named(x, "matmul") and named(y, "matmul"):
        yield (x.arguments[0], y.arguments[0], x.arguments[1], y.arguments[1])


@rule("add", "sub")
def common_factor_of_many(term: Term) -> Iterator[Term]:
    """Any two of several summands that share a factor come together."""
    parts = list(_summands(term))
    if not 2 < len(parts) <= _MANY:
        return
    for (at, (plus, x)), (other, (also, y)) in combinations(enumerate(parts), 2):
        joined = apply("add" if plus == also else "sub", x, y)
        rest = [part for index, part in enumerate(parts) if index not in (at, other)]
        for found in common_factor(joined):
            yield _sum([(plus, found), *rest])
        if x is y and plus != also:
            yield _sum(rest)


def _summands(term: Term) -> Iterator[tuple[bool, Term]]:
    """Each with whether it is added."""
    if not named(term, "add", "sub"):
        yield True, term
        return
    x, y = term.arguments
    yield from _summands(x)
    for plus, one in _summands(y):
        yield plus == named(term, "add"), one


def _sum(parts: list[tuple[bool, Term]]) -> Term:
    """Those that are added come first."""
    first, *others = sorted(parts, key=lambda part: not part[0])
    found = first[1] if first[0] else apply("neg", first[1])
    for plus, one in others:
        found = apply("add" if plus else "sub", found, one)
    return found


@rule("mul")
def regrouped_factors(term: Term) -> Iterator[Term]:
    """(ab)c is a(bc): the smaller ones are multiplied first."""
    x, y = term.arguments
    for one, other in ((x, y), (y, x)):
        if named(one, "mul"):
            a, b = one.arguments
            for kept, moved in ((a, b), (b, a)):
                inner = apply("mul", moved, other)
                if prod(sizes(inner)) < prod(sizes(term)):
                    yield apply("mul", kept, inner)


@rule("mul")
def distributed(term: Term) -> Iterator[Term]:
    """a(b + c) is ab + ac."""
    x, y = term.arguments
    for one, other in ((x, y), (y, x)):
        if named(other, "add", "sub"):
            b, c = other.arguments
            yield apply(other.operator, apply("mul", one, b), apply("mul", one, c))


@rule("div")
def reciprocal_first(term: Term) -> Iterator[Term]:
    """What is divided by fewer numbers is multiplied by their inverses."""
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
    """Half powers by a root, whole ones by squares."""
    x, exponent = term.arguments[0], float(term.parameter("exponent"))
    if 2 * exponent != int(2 * exponent) or not 1 < abs(exponent) <= 8:
        return
    whole, half = divmod(abs(exponent), 1)
    found = x if whole == 1 else _power(x, whole)
    if half:
        found = apply("mul", found, apply("sqrt", x))
    if exponent < 0:
        yield apply("div", literal(1), found)
    elif half:
        yield found


@rule("rsqrt")
def inverse_root(term: Term) -> Iterator[Term]:
    yield apply("div", literal(1), apply("sqrt", term.arguments[0]))


@rule("mul")
def over_root(term: Term) -> Iterator[Term]:
    """What is multiplied by an inverse root is divided by the root."""
    x, y = term.arguments
    for one, other in ((x, y), (y, x)):
        if named(other, "rsqrt"):
            yield apply("div", one, apply("sqrt", other.arguments[0]))
        if named(other, "div") and value(other.arguments[0]) == 1:
            yield apply("div", one, other.arguments[1])
