"""What the axes of a program mean: each input axis has a label, and axes that meet share theirs.

An axis is a product of digits, each with a label: splitting an axis keeps its label on the parts,
merging axes puts their digits side by side. Grid and loop axes are digits of what they split, so a
kernel that pairs blocks of rows with blocks of features is found where the two meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from .algebra import Function
from .axes import (
    ONE,
    Axis,
    ClashError,
    Digits,
    Joined,
    Label,
    Labelled,
    joined,
    meet,
    new_axis,
    part,
    resized,
    taken,
)
from .errors import LabelError
from .evaluate import step
from .mugraph import LEAD
from .operator import NUMBERS, regroup, window_count
from .sizes import Dim
from .terms import Program, Term
from .types import Place


def check_labels(program: Program) -> None:
    """Raises LabelError where axes with different declared labels meet."""
    _infer(program, _declared(program))


def labels_of(program: Program) -> dict[Term, tuple[str | None, ...]]:
    """The label of each axis of each term, as far as the inputs tell: raises LabelError.

    Merged axes read `head·feature`; an input axis without a label is called after its input.
    """
    found = _infer(program, _declared(program))
    return {
        term: tuple(map(_axis_name, axes[0 if _outside(term) else LEAD :]))
        for term, axes in found.items()
    }


def explain_labels(reference: Program, candidate: Program) -> str | None:
    """Which axes a candidate lets meet that the reference keeps apart; None where there are none.

    No proof that it is wrong: the reason, where a candidate was found to be wrong.
    """
    try:
        inputs = _declared(reference)
        _infer(reference, inputs)
        kinds = _kinds(inputs)
        _infer(reference, _sorted(inputs, kinds))
    except LabelError:
        return None
    try:
        _infer(candidate, _sorted(inputs, kinds))
    except LabelError as clash:
        return str(clash)
    return None


def _kinds(inputs: Sequence[Labelled]) -> dict[Label, str]:
    """A name of its own for each label that the inputs have."""
    digits = [label for axes in inputs for axis in axes for label, _ in axis.digits]
    roots = dict.fromkeys(label.root() for label in digits if isinstance(label, Label))
    return {root: str(index) for index, root in enumerate(roots)}


def _sorted(inputs: Sequence[Labelled], kinds: dict[Label, str]) -> list[Labelled]:
    return [tuple(_sort(axis, kinds) for axis in axes) for axes in inputs]


def _sort(axis: Axis, kinds: dict[Label, str]) -> Axis:
    """The same axis, with what the reference found of its label as a name."""
    digits = [
        (Label(kinds[label.root()], label.origin), size)
        for label, size in axis.digits
        if isinstance(label, Label)
    ]
    return Axis(axis.size, tuple(digits))


def _declared(program: Program) -> list[Labelled]:
    """The inputs with the labels that they declare, the rest open."""
    found = []
    for one in program.inputs:
        name = one.parameter("name")
        found.append(
            tuple(
                new_axis(size, Label(label, f"{label or f'axis {axis}'} of {name}"))
                for axis, (size, label) in enumerate(
                    zip(one.shape, one.parameter("labels"), strict=True)
                )
            )
        )
    return found


def _outside(term: Term) -> bool:
    return term.place in (Place.DEVICE, Place.ANYWHERE)


def _infer(program: Program, inputs: Sequence[Labelled]) -> dict[Term, Labelled]:
    """The axes of every term; raises LabelError for the first that cannot meet."""
    found: dict[Term, Labelled] = dict(zip(program.inputs, inputs, strict=True))
    algebra = Labels()
    for term in program.terms():
        if term in found:
            continue
        try:
            found[term] = step(term, algebra, [found[argument] for argument in term.arguments])
        except ClashError as clash:
            raise LabelError(_explained(term, clash)) from None
    return found


def _explained(term: Term, clash: ClashError) -> str:
    where = "the contracted axis" if clash.axis is None else f"axis {clash.axis}"
    if clash.axis is not None and not _outside(term):
        lead = ("grid axis x", "grid axis y", "grid axis z", "the loop")
        where = lead[clash.axis] if clash.axis < LEAD else f"axis {clash.axis - LEAD}"
    return f"{term.operator.name}: {where} pairs {clash.one} with {clash.two}"


def _axis_name(axis: Axis) -> str | None:
    names = [_name(label) for label, _ in axis.digits]
    return "·".join(name or "?" for name in names) if any(names) else None


def _name(label: Label | Joined) -> str | None:
    if isinstance(label, Joined):
        return " + ".join(_axis_name(part) or "?" for part in label.parts)
    root = label.root()
    return root.name or root.origin or None


class Labels:
    """The algebra of labels: what moves axes moves labels, what pairs elements lets labels meet."""

    def constant(self, value: Fraction | float) -> Labelled:
        return ()

    def iota(self, shape: Sequence[Dim], axis: int) -> Labelled:
        return tuple(map(new_axis, shape))

    def _pointwise(self, *xs: Labelled) -> Labelled:
        found: Labelled = ()
        for x in xs:
            if not found or not x:
                found = found or x
                continue
            found = tuple(meet(a, b, i) for i, (a, b) in enumerate(zip(found, x, strict=True)))
        return found

    def negative(self, x: Labelled) -> Labelled:
        return x

    exp = log = sqrt = absolute = negative
    add = subtract = multiply = divide = maximum = minimum = select = _pointwise

    def compare(self, how: str, x: Labelled, y: Labelled) -> Labelled:
        return self._pointwise(x, y)

    def function(self, function: Function, *arguments: Labelled) -> Labelled:
        return self._pointwise(*arguments)

    def cast(self, x: Labelled, dtype: str) -> Labelled:
        return x

    def sum(self, x: Labelled, axes: Sequence[int]) -> Labelled:
        return tuple(ONE if i in axes else axis for i, axis in enumerate(x))

    largest = sum

    def matmul(self, x: Labelled, y: Labelled) -> Labelled:
        meet(x[-1], y[-2], None)
        return (*self._pointwise(x[:-2], y[:-2]), x[-2], y[-1])

    def size(self, x: Labelled, axis: int) -> Labelled:
        return ()

    def broadcast(self, x: Labelled, shape: Sequence[Dim]) -> Labelled:
        if not x:
            return tuple(map(new_axis, shape))
        return tuple(
            axis if axis.size == size else new_axis(size)
            for axis, size in zip(x, shape, strict=True)
        )

    def reshape(self, x: Labelled, shape: Sequence[Dim]) -> Labelled:
        found = [ONE] * len(shape)
        for left, right in regroup(NUMBERS, self.shape(x), tuple(shape)):
            digits: Digits = tuple(digit for i in left for digit in x[i].digits)
            for j in right:
                found[j], digits = taken(digits, shape[j])
        return tuple(found)

    def transpose(self, x: Labelled, axes: Sequence[int]) -> Labelled:
        return tuple(x[axis] for axis in axes)

    def slice(self, x: Labelled, axis: int, start: Dim, stop: Dim, step: int) -> Labelled:
        length = stop - start
        if step > 1:
            length = NUMBERS.over(length + (-NUMBERS.value(length) % step), step, "slice")
        kept = resized(part(x[axis], start, stop), length)
        return (*x[:axis], kept, *x[axis + 1 :])

    def concatenate(self, xs: Sequence[Labelled], axis: int) -> Labelled:
        found = self._pointwise(*[(*x[:axis], ONE, *x[axis + 1 :]) for x in xs])
        return (*found[:axis], joined([x[axis] for x in xs]), *found[axis + 1 :])

    def pad(self, x: Labelled, axis: int, low: Dim, high: Dim, value: Fraction) -> Labelled:
        return (*x[:axis], resized(x[axis], low + x[axis].size + high), *x[axis + 1 :])

    def diagonal(self, x: Labelled) -> Labelled:
        return (*x[:-2], meet(x[-2], x[-1], len(x) - 2))

    def windows(self, x: Labelled, axis: int, window: Dim, stride: int, dilation: int) -> Labelled:
        places = window_count(NUMBERS, x[axis].size, window, stride, dilation)
        return (*x[:axis], resized(x[axis], places), new_axis(window), *x[axis + 1 :])

    def shape(self, x: Labelled) -> tuple[Dim, ...]:
        return tuple(axis.size for axis in x)


def input_labels(program: Program) -> list[tuple[Label | None, ...]]:
    """The label of each input axis, one object for all that meet; None for an axis of size one.

    Raises LabelError where axes with different declared labels meet.
    """
    declared = _declared(program)
    _infer(program, declared)
    return [
        tuple(axis.digits[0][0].root() if axis.digits else None for axis in axes)  # type: ignore[union-attr]
        for axes in declared
    ]
