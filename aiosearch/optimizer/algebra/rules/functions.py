"""Rewrite rules for exponentials, logarithms, and functions of repeated elements.

What overflows or loses digits in another way than the original is verified before it is timed, as
all rewrites are.
"""

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
    # A product has no order: the number may be on either side.
    for factor, logarithm in (x.arguments, x.arguments[::-1]):
        number = value(factor)
        if number is not None and named(logarithm, "log"):
            yield apply("power", logarithm.arguments[0], exponent=float(number))


@rule("mul", "div")
def joined_exponentials(term: Term) -> Iterator[Term]:
    """exp(a) · exp(b) is exp(a + b), and exp(a) / exp(b) is exp(a - b)."""
    x, y = term.arguments
    if named(x, "exp") and named(y, "exp"):
        joined = "add" if named(term, "mul") else "sub"
        yield apply("exp", apply(joined, x.arguments[0], y.arguments[0]))


@rule("add", "sub")
def joined_logarithms(term: Term) -> Iterator[Term]:
    """log a + log b is log(ab), and log a - log b is log(a / b)."""
    x, y = term.arguments
    if named(x, "log") and named(y, "log"):
        joined = "mul" if named(term, "add") else "div"
        yield apply("log", apply(joined, x.arguments[0], y.arguments[0]))


@rule("log")
def log_of_quotient(term: Term) -> Iterator[Term]:
    """log(a / b) is log a - log b, so that the logarithm of a softmax needs no softmax; log x² is 2
    log x."""
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
    """log(1 + x) is log1p(x), which keeps the digits of a small x."""
    x = term.arguments[0]
    if named(x, "add"):
        for unit, summand in (x.arguments, x.arguments[::-1]):
            if value(unit) == 1:
                yield apply("log1p", summand)


@rule("div")
def sigmoid(term: Term) -> Iterator[Term]:
    """1 / (1 + exp(-x)) and exp(x) / (1 + exp(x)) are `sigmoid(x)`."""
    above, below = term.arguments
    if not named(below, "add"):
        return
    for unit, exponential in (below.arguments, below.arguments[::-1]):
        # Only the exact literal 1: anything near it is another function.
        if value(unit) != 1 or not named(exponential, "exp"):
            continue
        if value(above) == 1:
            yield apply("sigmoid", apply("neg", exponential.arguments[0]))
        if above is exponential:
            yield apply("sigmoid", exponential.arguments[0])


@rule("sum", "mean", "max", "min")
def reduced_function(term: Term) -> Iterator[Term]:
    """max(f(x)) is f(max(x)) for an f that rises: one function in place of as many as there are
    elements."""
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
    """f(broadcast(x)) is broadcast(f(x)): a function of what is repeated is computed once."""
    operands = [_unrepeated(argument) for argument in term.arguments]
    if operands == list(term.arguments):
        return
    computed = again(term, *operands)
    # Nothing is gained where another operand has all elements anyway.
    if prod(sizes(computed)) < prod(sizes(term)):
        yield apply("broadcast", computed, shape=term.shape)
    elif computed.shape == term.shape:
        yield computed


@rule("sum", "mean", "max", "min")
def reduction_of_repeated(term: Term) -> Iterator[Term]:
    """sum(broadcast(x)) is x times the count of repetitions; a mean or a maximum of them is x."""
    inner, axes = term.arguments[0], term.parameter("axes")
    if not named(inner, "broadcast"):
        return
    source = inner.arguments[0]
    # A scalar has no axes to reduce: it gets one of size one for each.
    if not source.shape:
        source = apply("reshape", source, shape=(1,) * len(inner.shape))
    repeated = [a for a in axes if source.shape[a] == 1 and inner.shape[a] != 1]
    reduction = again(term, source, keep=True)
    if named(term, "sum") and repeated:
        reduction = reduction * prod(sizes(inner)[axis] for axis in repeated)
    shape = [1 if axis in axes else size for axis, size in enumerate(inner.shape)]
    reduction = apply("broadcast", reduction, shape=tuple(shape))
    yield reduction if term.parameter("keep") else apply("reshape", reduction, shape=term.shape)
