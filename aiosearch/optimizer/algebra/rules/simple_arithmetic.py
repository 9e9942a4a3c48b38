"""Simplifications of arithmetic and of functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ....tensor import Term, apply, literal
from ..terms import constant, filled, named, value


def neg(term: Term) -> Term | None:
    x = term.arguments[0]
    if named(x, "neg"):
        return x.arguments[0]
    if named(x, "sub"):
        return apply("sub", x.arguments[1], x.arguments[0])
    number = value(x)
    return None if number is None else constant(-number)


def add(term: Term) -> Term | None:
    x, y = term.arguments
    a, b = value(x), value(y)
    if a is not None and b is not None:
        return constant(a + b)
    if a == 0 or b == 0:
        return y if a == 0 else x
    if x is y:
        return apply("mul", literal(2), x)
    for one, other in ((x, y), (y, x)):
        if named(other, "neg"):
            return apply("sub", one, other.arguments[0])
        if named(one, "sub") and one.arguments[1] is other:
            return one.arguments[0]
    return None


def sub(term: Term) -> Term | None:
    x, y = term.arguments
    a, b = value(x), value(y)
    if a is not None and b is not None:
        return constant(a - b)
    if x is y:
        return filled(term, 0)
    if b == 0:
        return x
    if a == 0:
        return apply("neg", y)
    if named(y, "neg"):
        return apply("add", x, y.arguments[0])
    if named(x, "add") and y in x.arguments:
        return x.arguments[0] if x.arguments[1] is y else x.arguments[1]
    if named(y, "sub") and y.arguments[0] is x:
        return y.arguments[1]
    return None


def mul(term: Term) -> Term | None:
    x, y = term.arguments
    a, b = value(x), value(y)
    if a is not None and b is not None:
        return constant(a * b)
    if a == 1 or b == 1:
        return y if a == 1 else x
    if a == 0 or b == 0:
        return filled(term, 0)
    if x is y:
        return apply("square", x)
    for one, other in ((x, y), (y, x)):
        if named(one, "div") and one.arguments[1] is other:
            return one.arguments[0]
        if value(one) == -1:
            return apply("neg", other)
        joined = _joined_scales(one, other)
        if joined is not None:
            return joined
    return None


def _joined_scales(one: Term, other: Term) -> Term | None:
    """Numbers that multiply one after the other are one."""
    number = value(one)
    if number is None or not named(other, "mul"):
        return None
    for inner, rest in (other.arguments, other.arguments[::-1]):
        own = value(inner)
        if own is not None:
            return apply("mul", constant(number * own), rest)
    return None


def div(term: Term) -> Term | None:
    x, y = term.arguments
    a, b = value(x), value(y)
    if b == 0:
        return None
    if a is not None and b is not None:
        return constant(a / b)
    if b == 1:
        return x
    if b is not None and Fraction(float(1 / b)) * b == 1:
        return apply("mul", x, constant(1 / b))
    if x is y:
        return filled(term, 1)
    if named(x, "mul") and y in x.arguments:
        return x.arguments[0] if x.arguments[1] is y else x.arguments[1]
    if named(y, "div"):
        return apply("div", apply("mul", x, y.arguments[1]), y.arguments[0])
    if named(y, "exp") and named(x, "exp"):
        return apply("exp", apply("sub", x.arguments[0], y.arguments[0]))
    return None


def power(term: Term) -> Term | None:
    exponent = float(term.parameter("exponent"))
    x = term.arguments[0]
    by_name = {-1.0: "reciprocal", -0.5: "rsqrt", 0.5: "sqrt", 2.0: "square"}
    if exponent == 0:
        return filled(term, 1)
    if exponent == 1:
        return x
    return apply(by_name[exponent], x) if exponent in by_name else None


def to_power(term: Term) -> Term | None:
    number = value(term.arguments[1])
    if number is None:
        return None
    return apply("power", term.arguments[0], exponent=float(number))


def undone(inner: str) -> Callable[[Term], Term | None]:
    def step(term: Term) -> Term | None:
        x = term.arguments[0]
        return x.arguments[0] if named(x, inner) else None

    return step


def sqrt(term: Term) -> Term | None:
    x = term.arguments[0]
    return apply("abs", x.arguments[0]) if named(x, "square") else None


def once(term: Term) -> Term | None:
    x = term.arguments[0]
    return x if x.operator is term.operator else None


def largest(term: Term) -> Term | None:
    x, y = term.arguments
    if x is y:
        return x
    neutral = -math.inf if named(term, "maximum") else math.inf
    for one, other in ((x, y), (y, x)):
        if one is literal(neutral):
            return other
    return None
