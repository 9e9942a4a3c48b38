"""What the axes of a program mean: each input axis has a label, and axes that meet share theirs.

An axis is a product of digits, each with a label: splitting an axis keeps its label on the parts,
merging axes puts their digits side by side. Grid and loop axes are digits of what they split, so a
kernel that pairs blocks of rows with blocks of features is found where the two meet.

Axes with labels: digits side by side, each with a label that may meet others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from .algebra import Function
from .errors import LabelError
from .evaluation.evaluate import step
from .mugraph import LEAD
from .operator import NUMBERS, regroup, window_count
from .sizes import Dim, quotient
from .terms import Program, Term
from .types import Place


class Label:
    """The label of an axis, perhaps not known yet. Labels that meet become one."""

    __slots__ = ("_same_as", "name", "origin")

    def __init__(self, name: str | None = None, origin: str = "") -> None:
        self.name = name
        """Labels with different names cannot meet."""
        self.origin = origin
        self._same_as: Label | None = None

    def root(self) -> Label:
        label = self
        while label._same_as is not None:
            label = label._same_as
        return label

    def meet(self, other: Label) -> bool:
        """Makes two labels one; False where they have different names."""
        mine, theirs = self.root(), other.root()
        if mine is theirs:
            return True
        if mine.name and theirs.name and mine.name != theirs.name:
            return False
        if theirs.name and not mine.name:
            mine, theirs = theirs, mine
        theirs._same_as = mine
        mine.origin = mine.origin or theirs.origin
        return True

    def __str__(self) -> str:
        root = self.root()
        if self.origin and root.name and not self.name:
            return f"{self.origin} ({root.origin})"
        return self.origin or root.origin or "an axis"


@dataclass(frozen=True, slots=True)
class ConcatenatedLabel:
    """The label of an axis that was put together end to end: each part and its length."""

    parts: tuple[LabelledAxis, ...]

    def __str__(self) -> str:
        return " + ".join("·".join(str(label) for label, _ in part.digits) for part in self.parts)


@dataclass(frozen=True, slots=True)
class LabelledAxis:
    size: Dim
    digits: Digits
    """Outermost first; an axis of size one has none."""


Labelled: TypeAlias = tuple[LabelledAxis, ...]
Digit: TypeAlias = Label | ConcatenatedLabel
Digits: TypeAlias = tuple[tuple[Digit, Dim], ...]
Pair: TypeAlias = tuple[Digit, Digit]

ONE = LabelledAxis(1, ())


class ClashError(Exception):
    """Two labels that cannot meet, and the axis where they do (None where it is contracted)."""

    def __init__(self, axis: int | None, one: object, two: object) -> None:
        super().__init__(axis, one, two)
        self.axis, self.one, self.two = axis, one, two


def new_axis(size: Dim, label: Label | None = None) -> LabelledAxis:
    return ONE if size == 1 else LabelledAxis(size, ((label or Label(), size),))


def meet(one: LabelledAxis, two: LabelledAxis, where: int | None) -> LabelledAxis:
    """Two axes that are walked together; an axis of size one goes with any."""
    if one.size == 1 or two.size == 1:
        return two if one.size == 1 else one
    pairs = list(_aligned(one.digits, two.digits))
    told = [_partners(pairs, side) for side in (0, 1)]
    for a, b in pairs:
        if isinstance(a, ConcatenatedLabel) or isinstance(b, ConcatenatedLabel):
            _meet_parts(a, b, where)
        elif all(
            label.root().name or len(partners[label]) == 1
            for label, partners in zip((a, b), told, strict=True)
        ) and not a.meet(b):
            raise ClashError(where, a, b)
    return one if len(one.digits) >= len(two.digits) else two


def _partners(pairs: Sequence[Pair], side: int) -> dict[Digit, set[Digit]]:
    """What each label of one side meets: an open one that meets several is the product of them."""
    found: dict[Digit, set[Digit]] = {}
    for pair in pairs:
        other = pair[1 - side]
        root = other.root() if isinstance(other, Label) else other
        found.setdefault(pair[side], set()).add(root)
    return found


def _aligned(ours: Digits, theirs: Digits) -> Iterator[Pair]:
    """The labels that meet, digit by digit from the outermost, as far as their sizes agree."""
    left, right = list(reversed(ours)), list(reversed(theirs))
    while left and right:
        (one, m), (two, n) = left.pop(), right.pop()
        if m != n:
            more, less = quotient(m, n), quotient(n, m)
            if more is not None:
                left.append((one, more))
            elif less is not None:
                right.append((two, less))
            else:
                return
        yield one, two


def _meet_parts(one: Digit, two: Digit, where: int | None) -> None:
    """Axes put together end to end meet part by part, where the parts are as long."""
    if not isinstance(one, ConcatenatedLabel) or not isinstance(two, ConcatenatedLabel):
        return
    if [part.size for part in one.parts] == [part.size for part in two.parts]:
        for ours, theirs in zip(one.parts, two.parts, strict=True):
            meet(ours, theirs, where)


def taken(digits: Digits, size: Dim) -> tuple[LabelledAxis, Digits]:
    """The outermost digits that make up an axis of this size, and the rest."""
    found: list[tuple[Digit, Dim]] = []
    rest, need = list(digits), size
    while need != 1 and rest:
        label, own = rest.pop(0)
        left, more = quotient(need, own), quotient(own, need)
        if left is not None:
            need = left
        elif more is not None and isinstance(label, Label):
            rest.insert(0, (label, more))
            own, need = need, 1
        else:
            break
        if found and _same(found[-1][0], label):
            own = own * found.pop()[1]
        found.append((label, own))
    return (LabelledAxis(size, tuple(found)), tuple(rest)) if need == 1 else (new_axis(size), ())


def _same(one: Digit, two: Digit) -> bool:
    return isinstance(one, Label) and isinstance(two, Label) and one.root() is two.root()


def resized(axis: LabelledAxis, size: Dim) -> LabelledAxis:
    """More or fewer of the same elements: a label stays, a product does not."""
    if axis.size == size:
        return axis
    label = axis.digits[0][0] if len(axis.digits) == 1 else None
    return new_axis(size, label if isinstance(label, Label) else None)


def part(axis: LabelledAxis, start: Dim, stop: Dim) -> LabelledAxis:
    """A stretch of an axis: of one that was put together, the part that lies there."""
    whole = axis.digits[0][0] if len(axis.digits) == 1 else None
    if isinstance(whole, ConcatenatedLabel):
        begin: Dim = 0
        for own in whole.parts:
            if (begin, begin + own.size) == (start, stop):
                return own
            begin = begin + own.size
    return resized(axis, stop - start)


def joined(parts: Sequence[LabelledAxis]) -> LabelledAxis:
    size: Dim = 0
    for part in parts:
        size = size + part.size
    labels = [part.digits[0][0] for part in parts if len(part.digits) == 1]
    if len(labels) == len(parts) and all(_same(labels[0], label) for label in labels):
        return resized(parts[0], size)
    return LabelledAxis(size, ((ConcatenatedLabel(tuple(parts)), size),))


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


def _sort(axis: LabelledAxis, kinds: dict[Label, str]) -> LabelledAxis:
    """The same axis, with what the reference found of its label as a name."""
    digits = [
        (Label(kinds[label.root()], label.origin), size)
        for label, size in axis.digits
        if isinstance(label, Label)
    ]
    return LabelledAxis(axis.size, tuple(digits))


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


def _axis_name(axis: LabelledAxis) -> str | None:
    names = [_name(label) for label, _ in axis.digits]
    return "·".join(name or "?" for name in names) if any(names) else None


def _name(label: Label | ConcatenatedLabel) -> str | None:
    if isinstance(label, ConcatenatedLabel):
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
