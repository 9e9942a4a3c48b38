"""Simplifications of arithmetic and of functions, for `simplification`: each gives a simpler term,
or `None`.

Literals are computed exactly, as fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ....tensor import Term, apply, literal
from ..terms import computed, constant, filled, named, value


def neg(term: Term) -> Term | None:
    """-(-x) is x, and -(a - b) is b - a."""
    x = term.arguments[0]
    if named(x, "neg"):
        return x.arguments[0]
    if named(x, "sub"):
        return apply("sub", x.arguments[1], x.arguments[0])
    number = value(x)
    return None if number is None else constant(-number)


def add(term: Term) -> Term | None:
    """x + 0 is x, x + x is 2x, x + (-y) is x - y, and (a - y) + y is a."""
    x, y = term.arguments
    a, b = value(x), value(y)
    if a is not None and b is not None:
        return computed(a + b)
    if a == 0 or b == 0:
        return y if a == 0 else x
    if x is y:
        return apply("mul", literal(2), x)
    for first, second in ((x, y), (y, x)):
        if named(second, "neg"):
            return apply("sub", first, second.arguments[0])
        if named(first, "sub") and first.arguments[1] is second:
            return first.arguments[0]
    return None


def sub(term: Term) -> Term | None:
    """x - x is 0, x - 0 is x, and (x + y) - y is x."""
    x, y = term.arguments
    a, b = value(x), value(y)
    if a is not None and b is not None:
        return computed(a - b)
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
    """x · 1 is x, x · 0 is 0, x · x is x², and (a / y) · y is a."""
    x, y = term.arguments
    a, b = value(x), value(y)
    if a is not None and b is not None:
        return computed(a * b)
    if a == 1 or b == 1:
        return y if a == 1 else x
    if a == 0 or b == 0:
        return filled(term, 0)
    if x is y:
        return apply("square", x)
    for first, second in ((x, y), (y, x)):
        if named(first, "div") and first.arguments[1] is second:
            return first.arguments[0]
        if value(first) == -1:
            return apply("neg", second)
        joined = _joined_scales(first, second)
        if joined is not None:
            return joined
    return None


def _joined_scales(scale: Term, product: Term) -> Term | None:
    """c · (d · x) is (cd) · x for numbers c and d."""
    number = value(scale)
    if number is None or not named(product, "mul"):
        return None
    for inner, factor in (product.arguments, product.arguments[::-1]):
        inner_scale = value(inner)
        if inner_scale is not None:
            scales = computed(number * inner_scale)
            return None if scales is None else apply("mul", scales, factor)
    return None


def div(term: Term) -> Term | None:
    """x / 1 is x, x / x is 1, xy / y is x, and a quotient of exponentials is the exponential of a
    difference."""
    x, y = term.arguments
    a, b = value(x), value(y)
    if b == 0:
        return None
    if a is not None and b is not None:
        return computed(a / b)
    if b == 1:
        return x
    # Only where the inverse is a float exactly: else the product would be rounded in another way.
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
    """A power with an operator of its own: x² is `square`, x to -0.5 is `rsqrt`."""
    exponent = float(term.parameter("exponent"))
    x = term.arguments[0]
    by_name = {-1.0: "reciprocal", -0.5: "rsqrt", 0.5: "sqrt", 2.0: "square"}
    if exponent == 0:
        return filled(term, 1)
    if exponent == 1:
        return x
    return apply(by_name[exponent], x) if exponent in by_name else None


def to_power(term: Term) -> Term | None:
    """`pow` with a literal exponent is `power`, which more rules know."""
    number = value(term.arguments[1])
    if number is None:
        return None
    return apply("power", term.arguments[0], exponent=float(number))


def undone(inner: str) -> Callable[[Term], Term | None]:
    """f(inner(x)) is x, for f that undoes `inner`: exp and log, square and sqrt."""

    def step(term: Term) -> Term | None:
        x = term.arguments[0]
        return x.arguments[0] if named(x, inner) else None

    return step


def sqrt(term: Term) -> Term | None:
    """sqrt(x²) is the absolute value of x."""
    x = term.arguments[0]
    return apply("abs", x.arguments[0]) if named(x, "square") else None


def once(term: Term) -> Term | None:
    """f(f(x)) is f(x), for an absolute value or a relu."""
    x = term.arguments[0]
    return x if x.operator is term.operator else None


def largest(term: Term) -> Term | None:
    """max(x, x) is x, and so is max(x, -infinity)."""
    x, y = term.arguments
    if x is y:
        return x
    neutral = -math.inf if named(term, "maximum") else math.inf
    for first, second in ((x, y), (y, x)):
        if first is literal(neutral):
            return second
    return None
