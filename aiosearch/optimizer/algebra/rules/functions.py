"""Rewrite rules for exponentials, logarithms, and functions of repeated elements."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ....tensor import Term, apply, literal
from ..terms import again, named, sizes, value
from .registry import rule


@rule("exp")
def exp_of_difference(term: Term) -> Iterator[Term]:
    """exp(a - log b) is exp(a) / b, and exp(a + log b) is exp(a) · b."""
    x = term.arguments[0]
    if not named(x, "sub", "add"):
        return
    a, b = x.arguments
    joined = "div" if named(x, "sub") else "mul"
    if named(b, "log"):
        yield apply(joined, apply("exp", a), b.arguments[0])
    if named(a, "log"):
        yield apply(joined, a.arguments[0], apply("exp", b))


@rule("exp")
def exp_of_scaled_log(term: Term) -> Iterator[Term]:
    """exp(c · log x) is a power."""
    x = term.arguments[0]
    if not named(x, "mul"):
        return
    for one, other in (x.arguments, x.arguments[::-1]):
        number = value(one)
        if number is not None and named(other, "log"):
            yield apply("power", other.arguments[0], exponent=float(number))


@rule("mul", "div")
def joined_exponentials(term: Term) -> Iterator[Term]:
    x, y = term.arguments
    if named(x, "exp") and named(y, "exp"):
        joined = "add" if named(term, "mul") else "sub"
        yield apply("exp", apply(joined, x.arguments[0], y.arguments[0]))


@rule("add", "sub")
def joined_logarithms(term: Term) -> Iterator[Term]:
    x, y = term.arguments
    if named(x, "log") and named(y, "log"):
        joined = "mul" if named(term, "add") else "div"
        yield apply("log", apply(joined, x.arguments[0], y.arguments[0]))


@rule("log")
def log_of_quotient(term: Term) -> Iterator[Term]:
    """The logarithm of a softmax needs no softmax."""
    x = term.arguments[0]
    if named(x, "div", "mul"):
        a, b = x.arguments
        joined = "sub" if named(x, "div") else "add"
        yield apply(joined, apply("log", a), apply("log", b))
    if named(x, "square", "sqrt"):
        factor = 2 if named(x, "square") else 0.5
        yield apply("log", x.arguments[0]) * literal(factor)
    if named(x, "power"):
        yield apply("log", x.arguments[0]) * literal(x.parameter("exponent"))


@rule("log")
def log_of_complement(term: Term) -> Iterator[Term]:
    """log(1 - sigmoid(x)) is log(sigmoid(x)) - x."""
    x = term.arguments[0]
    if named(x, "sub") and value(x.arguments[0]) == 1 and named(x.arguments[1], "sigmoid"):
        gate = x.arguments[1]
        yield apply("log", gate) - gate.arguments[0]


@rule("log")
def log_of_one_more(term: Term) -> Iterator[Term]:
    x = term.arguments[0]
    if named(x, "add"):
        for one, other in (x.arguments, x.arguments[::-1]):
            if value(one) == 1:
                yield apply("log1p", other)


@rule("div")
def sigmoid(term: Term) -> Iterator[Term]:
    """1 / (1 + exp(-x)), and exp(x) / (1 + exp(x))."""
    above, below = term.arguments
    if not named(below, "add"):
        return
    for one, other in (below.arguments, below.arguments[::-1]):
        if value(one) != 1 or not named(other, "exp"):
            continue
        if value(above) == 1:
            yield apply("sigmoid", apply("neg", other.arguments[0]))
        if above is other:
            yield apply("sigmoid", other.arguments[0])


@rule("sum", "mean", "max", "min")
def reduced_function(term: Term) -> Iterator[Term]:
    """The largest of what rises is that of the largest."""
    inner = term.arguments[0]
    if named(term, "max", "min") and named(inner, "exp", "log", "sqrt", "sigmoid", "tanh", "relu"):
        yield apply(inner.operator, again(term, inner.arguments[0]))


def _unrepeated(term: Term) -> Term:
    return term.arguments[0] if named(term, "broadcast") else term


@rule("exp", "log", "sqrt", "rsqrt", "tanh", "erf", "erfc", "sin", "cos", "sigmoid", "silu", "gelu",
      "gelu_tanh", "power", "exponential", "square", "abs", "neg", "log1p", "expm1", "relu",
      "reciprocal", "cast", "add", "sub", "mul", "div", "maximum", "minimum", "pow", "select",
      "less", "less_equal", "equal", "not_equal", "clamp", "floor", "round")  # fmt: skip
def function_of_repeated(term: Term) -> Iterator[Term]:
    """A function of what is repeated is computed once, then repeated."""
    operands = [_unrepeated(argument) for argument in term.arguments]
    if operands == list(term.arguments):
        return
    found = again(term, *operands)
    if prod(sizes(found)) < prod(sizes(term)):
        yield apply("broadcast", found, shape=term.shape)
    elif found.shape == term.shape:
        yield found


@rule("sum", "mean", "max", "min")
def reduction_of_repeated(term: Term) -> Iterator[Term]:
    """What is repeated is counted."""
    inner, axes = term.arguments[0], term.parameter("axes")
    if not named(inner, "broadcast"):
        return
    source = inner.arguments[0]
    if not source.shape:
        source = apply("reshape", source, shape=(1,) * len(inner.shape))
    repeated = [a for a in axes if source.shape[a] == 1 and inner.shape[a] != 1]
    found = again(term, source, keep=True)
    if named(term, "sum") and repeated:
        found = found * prod(sizes(inner)[axis] for axis in repeated)
    shape = [1 if axis in axes else size for axis, size in enumerate(inner.shape)]
    found = apply("broadcast", found, shape=tuple(shape))
    yield found if term.parameter("keep") else apply("reshape", found, shape=term.shape)
