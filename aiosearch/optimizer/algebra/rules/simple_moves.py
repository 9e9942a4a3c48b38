"""Simplifications of reshapes, transposes, slices and other operators that move elements, for
`simplification`: each gives a simpler term, or `None`.

Reshapes move towards the outputs, where they meet and become one.
"""

from __future__ import annotations

from ....tensor import Term, apply
from ..terms import again, kept_axes, named, reshaped, transposed


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
