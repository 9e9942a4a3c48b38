"""Simplifications of reshapes, transposes, slices and other operators that move elements."""

from __future__ import annotations

from ....tensor import Term, apply
from ..terms import again, kept_axes, named, reshaped, transposed


def reshaped_after(term: Term) -> Term | None:
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


def transpose(term: Term) -> Term | None:
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


def reshape(term: Term) -> Term | None:
    x = term.arguments[0]
    if named(x, "reshape"):
        return reshaped(x.arguments[0], term.shape)
    if x.shape == term.shape:
        return x
    if named(x, "sum", "mean", "max", "min"):
        other = again(x, x.arguments[0], keep=not x.parameter("keep"))
        return other if other.shape == term.shape else None
    return _without_ones(term, x)


def broadcast(term: Term) -> Term | None:
    x = term.arguments[0]
    if x.shape == term.shape:
        return x
    if named(x, "broadcast"):
        return apply("broadcast", x.arguments[0], shape=term.shape)
    return None


def sliced(term: Term) -> Term | None:
    x, given = term.arguments[0], dict(term.parameters)
    if x.shape == term.shape and given["step"] == 1:
        return x
    if named(x, "slice") and x.parameter("axis") == given["axis"] and x.parameter("step") == 1:
        start = x.parameter("start")
        return again(term, x.arguments[0], start=start + given["start"], stop=start + given["stop"])
    return None


def cast(term: Term) -> Term | None:
    x = term.arguments[0]
    return x if x.dtype is term.dtype else None


def sums(term: Term) -> Term | None:
    """Sums of sums are one."""
    x, axes = term.arguments[0], term.parameter("axes")
    if not axes:
        return x
    if not named(x, "sum") or not x.parameter("axes"):
        return reduced(term)
    inner = x.parameter("axes")
    if not x.parameter("keep"):
        left = [axis for axis in range(len(x.arguments[0].shape)) if axis not in inner]
        axes = tuple(left[axis] for axis in axes)
    joined = apply("sum", x.arguments[0], axes=tuple(sorted({*inner, *axes})), keep=True)
    return reshaped(joined, term.shape)


def reduced(term: Term) -> Term | None:
    """Axes of size one are left out before a reduction, and put in after it."""
    x, axes = term.arguments[0], term.parameter("axes")
    left = [axis for axis, size in enumerate(x.shape) if size != 1]
    if len(left) == len(x.shape) or not left:
        return None
    inner = tuple(left.index(axis) for axis in axes if axis in left)
    whole = reshaped(x, [x.shape[axis] for axis in left])
    found = again(term, whole, axes=inner, keep=True) if inner else whole
    return reshaped(found, term.shape)


def matmul(term: Term) -> Term | None:
    """A batch of one is no batch."""
    left, right = term.arguments
    if len(term.shape) == 2 or any(size != 1 for size in term.shape[:-2]):
        return None
    return reshaped(reshaped(left, left.shape[-2:]) @ reshaped(right, right.shape[-2:]), term.shape)


def concatenate(term: Term) -> Term | None:
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
