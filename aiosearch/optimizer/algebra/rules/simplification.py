"""Simplification of terms, which is always right and comes before any search.

`Tidier` brings each program into a simplest form, so that `RewriteSearch` meets equal programs once
and needs no rules such as x · 1 = x. Each step gives a simpler term or `None`: first those that
move elements, then those of arithmetic and of functions.

Reshapes move towards the outputs, where they meet and become one. Literals are computed exactly,
as fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ....tensor import Program, ShapeError, Term, apply, literal
from ....tensor.analysis.substitution import rebuilt_term
from ....tensor.terms import INPUT, LITERAL, walk
from ..terms import again, computed, constant, filled, kept_axes, named, reshaped, transposed, value
from .registry import fits


def reshaped_after(term: Term) -> Term | None:
    """f(reshape(x)) is reshape(f(x)) where the reshape only adds axes of size one."""
    arrays = [operand for operand in term.arguments if operand.shape]
    if not term.operator.pointwise or len(arrays) != 1:
        return None
    x = arrays[0]
    if not named(x, "reshape") or kept_axes(x) is None:
        return None
    # Towards fewer axes, and from a scalar, the reshape would come back: no end to it.
    if len(x.shape) < len(x.arguments[0].shape) or not x.arguments[0].shape:
        return None
    operands = [x.arguments[0] if operand is x else operand for operand in term.arguments]
    return reshaped(again(term, *operands), term.shape)


def _without_ones(term: Term, x: Term) -> Term | None:
    """reshape(f(x, y)) is f of the reshaped operands where the reshape only removes axes of size
    one."""
    if not x.operator.pointwise or len(term.shape) >= len(x.shape) or not term.shape:
        return None
    gone, left = list[int](), list(term.shape)
    for axis, size in enumerate(x.shape):
        if left and size == left[0]:
            left.pop(0)
        elif size == 1:
            gone.append(axis)
        else:
            return None
    operands = [
        reshaped(operand, [n for axis, n in enumerate(operand.shape) if axis not in gone])
        if operand.shape
        else operand
        for operand in x.arguments
    ]
    return None if left else again(x, *operands)


def transpose(term: Term) -> Term | None:
    """Two transposes are one; one that only moves axes of size one is a reshape."""
    x, order = term.arguments[0], term.parameter("axes")
    if named(x, "transpose"):
        inner = x.parameter("axes")
        return transposed(x.arguments[0], [inner[axis] for axis in order])
    if order == tuple(range(len(order))):
        return x
    # Axes of size one may stand anywhere: if all others keep their order, no element moves.
    full = [axis for axis in order if x.shape[axis] != 1]
    if full == sorted(full):
        return apply("reshape", x, shape=term.shape)
    source_axes = dict(kept_axes(x) or []) if named(x, "reshape") else None
    if not source_axes:
        return None
    source = x.arguments[0]
    inner = [source_axes[axis] for axis in order if axis in source_axes]
    unit_axes = [axis for axis in range(len(source.shape)) if axis not in inner]
    return reshaped(transposed(source, [*inner, *unit_axes]), term.shape)


def reshape(term: Term) -> Term | None:
    """Two reshapes are one; a reduction may keep its axes, or not, in place of a reshape."""
    x = term.arguments[0]
    if named(x, "reshape"):
        return reshaped(x.arguments[0], term.shape)
    if x.shape == term.shape:
        return x
    if named(x, "sum", "mean", "max", "min"):
        # A reduction can give either form by itself, so that no reshape is needed.
        toggled = again(x, x.arguments[0], keep=not x.parameter("keep"))
        return toggled if toggled.shape == term.shape else None
    return _without_ones(term, x)


def broadcast(term: Term) -> Term | None:
    """Two broadcasts are one, and one that repeats nothing is none."""
    x = term.arguments[0]
    if x.shape == term.shape:
        return x
    if named(x, "broadcast"):
        return apply("broadcast", x.arguments[0], shape=term.shape)
    return None


def sliced(term: Term) -> Term | None:
    """Two slices along one axis are one, and a slice of everything is none."""
    x, bounds = term.arguments[0], dict(term.parameters)
    if x.shape == term.shape and bounds["step"] == 1:
        return x
    if named(x, "slice") and x.parameter("axis") == bounds["axis"] and x.parameter("step") == 1:
        start = x.parameter("start")
        return again(
            term, x.arguments[0], start=start + bounds["start"], stop=start + bounds["stop"]
        )
    return None


def cast(term: Term) -> Term | None:
    """A cast to the type that the operand has is none."""
    x = term.arguments[0]
    return x if x.dtype is term.dtype else None


def sums(term: Term) -> Term | None:
    """A sum of a sum is one sum over the axes of both."""
    x, axes = term.arguments[0], term.parameter("axes")
    if not axes:
        return x
    # Means of means are not means: only sums are merged.
    if not named(x, "sum") or not x.parameter("axes"):
        return reduced(term)
    inner = x.parameter("axes")
    if not x.parameter("keep"):
        left = [axis for axis in range(len(x.arguments[0].shape)) if axis not in inner]
        axes = tuple(left[axis] for axis in axes)
    joined = apply("sum", x.arguments[0], axes=tuple(sorted({*inner, *axes})), keep=True)
    return reshaped(joined, term.shape)


def reduced(term: Term) -> Term | None:
    """A reduction of an operand with axes of size one is one without them, and a reshape."""
    x, axes = term.arguments[0], term.parameter("axes")
    left = [axis for axis, size in enumerate(x.shape) if size != 1]
    if len(left) == len(x.shape) or not left:
        return None
    inner = tuple(left.index(axis) for axis in axes if axis in left)
    whole = reshaped(x, [x.shape[axis] for axis in left])
    reduction = again(term, whole, axes=inner, keep=True) if inner else whole
    return reshaped(reduction, term.shape)


def matmul(term: Term) -> Term | None:
    """A product with a batch of one is a product without a batch."""
    left, right = term.arguments
    if len(term.shape) == 2 or any(size != 1 for size in term.shape[:-2]):
        return None
    return reshaped(reshaped(left, left.shape[-2:]) @ reshaped(right, right.shape[-2:]), term.shape)


def concatenate(term: Term) -> Term | None:
    """Nested concatenations are one; empty operands fall away; slices that adjoin are one slice."""
    axis, parts = term.parameter("axis"), list[Term]()
    for x in term.arguments:
        if named(x, "concatenate") and x.parameter("axis") == axis:
            parts.extend(x.arguments)
        elif x.shape[axis] != 0:
            parts.append(x)
    whole = list[Term]()
    for x in parts:
        before = whole[-1] if whole else None
        if before is not None and _adjoining(before, x, axis):
            source = x.arguments[0]
            start, stop = before.parameter("start"), x.parameter("stop")
            whole[-1] = apply("slice", source, axis=axis, start=start, stop=stop)
        else:
            whole.append(x)
    if len(whole) == 1:
        return whole[0]
    return apply("concatenate", *whole, axis=axis) if whole else None


def _adjoining(first: Term, second: Term, axis: int) -> bool:
    """Whether the second slice begins where the first one ends, in one source."""
    if not (named(first, "slice") and named(second, "slice")):
        return False
    a, b = dict(first.parameters), dict(second.parameters)
    same = first.arguments[0] is second.arguments[0] and a["axis"] == b["axis"] == axis
    return same and a["step"] == b["step"] == 1 and a["stop"] == b["start"]


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


class Tidier:
    """Simplifies terms, each once: programs of a search share most of their terms."""

    def __init__(self) -> None:
        self._tidied: dict[Term, Term] = {}

    def program(self, program: Program) -> Program:
        """The program with every output in its simplest form."""
        return Program(program.name, program.inputs, tuple(map(self.term, program.outputs)))

    def term(self, root: Term) -> Term:
        """The simplest form of a term, operands first."""
        # Below a term that was met before is nothing new: of a large program, one rewriting leaves
        # most terms as they are.
        for term in walk([root], stop=self._tidied):
            if term not in self._tidied:
                self._tidied[term] = self._simplest(term)
        return self._tidied[root]

    def _simplest(self, term: Term) -> Term:
        """Simplifies until no step applies; the operands are in their simplest form already."""
        if term.operator is INPUT or term.operator is LITERAL:
            return term
        arguments = [self._tidied[argument] for argument in term.arguments]
        if arguments != list(term.arguments):
            term = rebuilt_term(term.operator, arguments, dict(term.parameters))
        simpler = simplified(term)
        return term if simpler is None else self.term(simpler)


def simplified(term: Term) -> Term | None:
    """A simpler term that one step leads to; `None` where there is no step."""
    step = _STEPS.get(term.operator.name)
    try:
        simpler = (step(term) if step is not None else None) or reshaped_after(term)
    except ShapeError:
        return None
    # Literals are weak: they may stand where their value is meant, whatever the type there.
    if simpler is None or (simpler.dtype is not term.dtype and simpler.operator is not LITERAL):
        return None
    if simpler.operator is LITERAL and not term.shape and term.dtype is simpler.dtype:
        return simpler
    return simpler if simpler is not term and fits(simpler, term) else None


_STEPS: dict[str, Callable[[Term], Term | None]] = {
    "abs": once,
    "add": add,
    "broadcast": broadcast,
    "cast": cast,
    "concatenate": concatenate,
    "div": div,
    "exp": undone("log"),
    "log": undone("exp"),
    "max": reduced,
    "matmul": matmul,
    "maximum": largest,
    "mean": reduced,
    "min": reduced,
    "minimum": largest,
    "mul": mul,
    "neg": neg,
    "pow": to_power,
    "power": power,
    "relu": once,
    "reshape": reshape,
    "slice": sliced,
    "sqrt": sqrt,
    "square": undone("sqrt"),
    "sub": sub,
    "sum": sums,
    "transpose": transpose,
}
"""The simplification of each operator's terms."""
