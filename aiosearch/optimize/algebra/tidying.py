"""What is always right to do: terms in their simplest form, before any search."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ...tensor import Program, ShapeError, Term, apply, literal
from ...tensor.rebuild import made
from ...tensor.terms import INPUT, LITERAL, walk
from .building import again, constant, filled, kept_axes, named, reshaped, transposed, value
from .rules import fits


class Tidier:
    """Simplifies terms, each once."""

    def __init__(self) -> None:
        self._tidied: dict[Term, Term] = {}

    def program(self, program: Program) -> Program:
        return Program(program.name, program.inputs, tuple(map(self.term, program.outputs)))

    def term(self, root: Term) -> Term:
        for term in walk([root]):
            if term not in self._tidied:
                self._tidied[term] = self._simplest(term)
        return self._tidied[root]

    def _simplest(self, term: Term) -> Term:
        if term.operator is INPUT or term.operator is LITERAL:
            return term
        arguments = [self._tidied[argument] for argument in term.arguments]
        if arguments != list(term.arguments):
            term = made(term.operator, arguments, dict(term.parameters))
        found = simplified(term)
        return term if found is None else self.term(found)


def simplified(term: Term) -> Term | None:
    """A simpler term, if there is one step to it."""
    step = _STEPS.get(term.operator.name)
    try:
        found = (step(term) if step is not None else None) or _reshaped_after(term)
    except ShapeError:
        return None
    if found is None or (found.dtype is not term.dtype and found.operator is not LITERAL):
        return None
    if found.operator is LITERAL and not term.shape and term.dtype is found.dtype:
        return found
    return found if found is not term and fits(found, term) else None


def _reshaped_after(term: Term) -> Term | None:
    """A function of one array comes before axes of size one are put in."""
    arrays = [one for one in term.arguments if one.shape]
    if not term.operator.pointwise or len(arrays) != 1:
        return None
    x = arrays[0]
    if not named(x, "reshape") or kept_axes(x) is None:
        return None
    if len(x.shape) < len(x.arguments[0].shape) or not x.arguments[0].shape:
        return None
    operands = [x.arguments[0] if one is x else one for one in term.arguments]
    return reshaped(again(term, *operands), term.shape)


def _without_ones(term: Term, x: Term) -> Term | None:
    """Axes of size one that are left out after a function are left out before."""
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
        reshaped(one, [n for axis, n in enumerate(one.shape) if axis not in gone])
        if one.shape
        else one
        for one in x.arguments
    ]
    return None if left else again(x, *operands)


def _transpose(term: Term) -> Term | None:
    x, order = term.arguments[0], term.parameter("axes")
    if named(x, "transpose"):
        inner = x.parameter("axes")
        return transposed(x.arguments[0], [inner[axis] for axis in order])
    if order == tuple(range(len(order))):
        return x
    full = [axis for axis in order if x.shape[axis] != 1]
    if full == sorted(full):
        return apply("reshape", x, shape=term.shape)
    kept = dict(kept_axes(x) or []) if named(x, "reshape") else None
    if not kept:
        return None
    source = x.arguments[0]
    inner = [kept[axis] for axis in order if axis in kept]
    rest = [axis for axis in range(len(source.shape)) if axis not in inner]
    return reshaped(transposed(source, [*inner, *rest]), term.shape)


def _reshape(term: Term) -> Term | None:
    x = term.arguments[0]
    if named(x, "reshape"):
        return reshaped(x.arguments[0], term.shape)
    if x.shape == term.shape:
        return x
    if named(x, "sum", "mean", "max", "min"):
        other = again(x, x.arguments[0], keep=not x.parameter("keep"))
        return other if other.shape == term.shape else None
    return _without_ones(term, x)


def _broadcast(term: Term) -> Term | None:
    x = term.arguments[0]
    if x.shape == term.shape:
        return x
    if named(x, "broadcast"):
        return apply("broadcast", x.arguments[0], shape=term.shape)
    return None


def _slice(term: Term) -> Term | None:
    x, given = term.arguments[0], dict(term.parameters)
    if x.shape == term.shape and given["step"] == 1:
        return x
    if named(x, "slice") and x.parameter("axis") == given["axis"] and x.parameter("step") == 1:
        start = x.parameter("start")
        return again(term, x.arguments[0], start=start + given["start"], stop=start + given["stop"])
    return None


def _cast(term: Term) -> Term | None:
    x = term.arguments[0]
    return x if x.dtype is term.dtype else None


def _sum(term: Term) -> Term | None:
    """Sums of sums are one."""
    x, axes = term.arguments[0], term.parameter("axes")
    if not axes:
        return x
    if not named(x, "sum") or not x.parameter("axes"):
        return _reduced(term)
    inner = x.parameter("axes")
    if not x.parameter("keep"):
        left = [axis for axis in range(len(x.arguments[0].shape)) if axis not in inner]
        axes = tuple(left[axis] for axis in axes)
    joined = apply("sum", x.arguments[0], axes=tuple(sorted({*inner, *axes})), keep=True)
    return reshaped(joined, term.shape)


def _reduced(term: Term) -> Term | None:
    """Axes of size one are left out before a reduction, and put in after it."""
    x, axes = term.arguments[0], term.parameter("axes")
    left = [axis for axis, size in enumerate(x.shape) if size != 1]
    if len(left) == len(x.shape) or not left:
        return None
    inner = tuple(left.index(axis) for axis in axes if axis in left)
    whole = reshaped(x, [x.shape[axis] for axis in left])
    found = again(term, whole, axes=inner, keep=True) if inner else whole
    return reshaped(found, term.shape)


def _matmul(term: Term) -> Term | None:
    """A batch of one is no batch."""
    left, right = term.arguments
    if len(term.shape) == 2 or any(size != 1 for size in term.shape[:-2]):
        return None
    return reshaped(reshaped(left, left.shape[-2:]) @ reshaped(right, right.shape[-2:]), term.shape)


def _neg(term: Term) -> Term | None:
    x = term.arguments[0]
    if named(x, "neg"):
        return x.arguments[0]
    if named(x, "sub"):
        return apply("sub", x.arguments[1], x.arguments[0])
    number = value(x)
    return None if number is None else constant(-number)


def _add(term: Term) -> Term | None:
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


def _sub(term: Term) -> Term | None:
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


def _mul(term: Term) -> Term | None:
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


def _div(term: Term) -> Term | None:
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


def _power(term: Term) -> Term | None:
    exponent = float(term.parameter("exponent"))
    x = term.arguments[0]
    by_name = {-1.0: "reciprocal", -0.5: "rsqrt", 0.5: "sqrt", 2.0: "square"}
    if exponent == 1:
        return x
    return apply(by_name[exponent], x) if exponent in by_name else None


def _pow(term: Term) -> Term | None:
    number = value(term.arguments[1])
    if number is None:
        return None
    return apply("power", term.arguments[0], exponent=float(number))


def _undone(inner: str) -> Callable[[Term], Term | None]:
    def step(term: Term) -> Term | None:
        x = term.arguments[0]
        return x.arguments[0] if named(x, inner) else None

    return step


def _sqrt(term: Term) -> Term | None:
    x = term.arguments[0]
    return apply("abs", x.arguments[0]) if named(x, "square") else None


def _once(term: Term) -> Term | None:
    x = term.arguments[0]
    return x if x.operator is term.operator else None


def _largest(term: Term) -> Term | None:
    x, y = term.arguments
    if x is y:
        return x
    neutral = -math.inf if named(term, "maximum") else math.inf
    for one, other in ((x, y), (y, x)):
        if one is literal(neutral):
            return other
    return None


def _concatenate(term: Term) -> Term | None:
    """One inside another along the same axis; empty parts; a single part; what was cut."""
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


def _adjoining(one: Term, other: Term, axis: int) -> bool:
    if not (named(one, "slice") and named(other, "slice")):
        return False
    a, b = dict(one.parameters), dict(other.parameters)
    same = one.arguments[0] is other.arguments[0] and a["axis"] == b["axis"] == axis
    return same and a["step"] == b["step"] == 1 and a["stop"] == b["start"]


_STEPS: dict[str, Callable[[Term], Term | None]] = {
    "abs": _once,
    "add": _add,
    "broadcast": _broadcast,
    "cast": _cast,
    "concatenate": _concatenate,
    "div": _div,
    "exp": _undone("log"),
    "log": _undone("exp"),
    "max": _reduced,
    "matmul": _matmul,
    "maximum": _largest,
    "mean": _reduced,
    "min": _reduced,
    "minimum": _largest,
    "mul": _mul,
    "neg": _neg,
    "pow": _pow,
    "power": _power,
    "relu": _once,
    "reshape": _reshape,
    "slice": _slice,
    "sqrt": _sqrt,
    "square": _undone("sqrt"),
    "sub": _sub,
    "sum": _sum,
    "transpose": _transpose,
}
