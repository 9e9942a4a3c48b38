"""Labels of axes: which axes of a program mean the same thing, and where different ones meet.

Problem: `matmul` contracts two axes of one size. If both are 64 long, nothing stops a candidate
from contracting queries with features. Labels give every axis an identity that survives reshapes
and kernels, so that the report of a wrong candidate can name the axes that it confuses.

Method: unification over the program. Each input axis has a `Label`, declared or open. A pointwise
operator or a contraction makes the labels of two axes `meet`, by union-find. An axis is a product
of digits, each with a label: splitting an axis keeps its label on the parts, merging axes puts
their digits side by side. Grid and loop axes are digits of what they split, so a kernel that pairs
blocks of rows with blocks of features is found where the two meet.

Example: X: f32[row=8, feature=4] reshaped to [32] has one axis, of the digits (row, 8) and
(feature, 4). Reshaped to [2, 16] it has the axes (row, 2) and (row, 4)·(feature, 4).

Invariant: an open label that meets several labels stays open, as it is their product; two different
names never become one label. Cost: near linear in the digits of all axes. See docs/why/verdicts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from .algebra import Function
from .errors import LabelError
from .evaluation import step
from .mugraph import LEAD
from .operator import NUMBERS, regroup, window_count
from .sizes import Dim, quotient
from .terms import Program, Term
from .types import Place


class Label:
    """The label of an axis, perhaps open. Labels that `meet` become one, by union-find."""

    __slots__ = ("_same_as", "name", "origin")

    def __init__(self, name: str | None = None, origin: str = "") -> None:
        self.name = name
        """A declared name; labels with different names cannot meet. None while it is open."""
        self.origin = origin
        """Where the label comes from, for messages: `row of X`."""
        self._same_as: Label | None = None

    def root(self) -> Label:
        """The label that stands for all that met this one."""
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
        # The root keeps the name, so that a later clash is seen at once.
        if theirs.name and not mine.name:
            mine, theirs = theirs, mine
        theirs._same_as = mine
        mine.origin = mine.origin or theirs.origin
        return True

    def __str__(self) -> str:
        root = self.root()
        # An open label that became another one says both: what it was, and where its name is from.
        if self.origin and root.name and not self.name:
            return f"{self.origin} ({root.origin})"
        return self.origin or root.origin or "an axis"


@dataclass(frozen=True, slots=True)
class ConcatenatedLabel:
    """The label of an axis that was concatenated: each of its parts, with length and labels."""

    parts: tuple[LabelledAxis, ...]

    def __str__(self) -> str:
        return " + ".join("·".join(str(label) for label, _ in part.digits) for part in self.parts)


@dataclass(frozen=True, slots=True)
class LabelledAxis:
    """An axis as a product of labelled digits, such as (row, 8)·(feature, 4)."""

    size: Dim
    digits: Digits
    """Labels with their sizes, outermost first; an axis of size one has none."""


Labelled: TypeAlias = tuple[LabelledAxis, ...]
"""The axes of a tensor."""
Digit: TypeAlias = Label | ConcatenatedLabel
"""The label of a digit, or of the concatenation that it is."""
Digits: TypeAlias = tuple[tuple[Digit, Dim], ...]
"""The digits of an axis, outermost first."""
Pair: TypeAlias = tuple[Digit, Digit]
"""Two digits that are walked together."""

ONE = LabelledAxis(1, ())
"""The axis of size one, which goes with any."""


class ClashError(Exception):
    """Two labels that cannot meet, and the axis where they do (None where it is contracted)."""

    def __init__(self, axis: int | None, left: object, right: object) -> None:
        super().__init__(axis, left, right)
        self.axis, self.left, self.right = axis, left, right


def new_axis(size: Dim, label: Label | None = None) -> LabelledAxis:
    """An axis of a single digit, with an open label unless `label` is given."""
    return ONE if size == 1 else LabelledAxis(size, ((label or Label(), size),))


def meet(left: LabelledAxis, right: LabelledAxis, where: int | None) -> LabelledAxis:
    """Makes the labels of two axes that are walked together meet; raises `ClashError`."""
    if left.size == 1 or right.size == 1:
        return right if left.size == 1 else left
    # All pairs are collected before any label meets: whether an open label is a product shows only
    # then.
    pairs = list(_aligned(left.digits, right.digits))
    partners_by_side = [_partners(pairs, side) for side in (0, 1)]
    for a, b in pairs:
        if isinstance(a, ConcatenatedLabel) or isinstance(b, ConcatenatedLabel):
            _meet_parts(a, b, where)
        # An open label that pairs with two different labels is the product of both. Letting it meet
        # either would join the two through it.
        elif all(
            label.root().name or len(partners[label]) == 1
            for label, partners in zip((a, b), partners_by_side, strict=True)
        ) and not a.meet(b):
            raise ClashError(where, a, b)
    return left if len(left.digits) >= len(right.digits) else right


def _partners(pairs: Sequence[Pair], side: int) -> dict[Digit, set[Digit]]:
    """What each label of one `side` meets: an open label that meets several is their product."""
    partners: dict[Digit, set[Digit]] = {}
    for pair in pairs:
        partner = pair[1 - side]
        root = partner.root() if isinstance(partner, Label) else partner
        partners.setdefault(pair[side], set()).add(root)
    return partners


def _aligned(ours: Digits, theirs: Digits) -> Iterator[Pair]:
    """The labels that meet, digit by digit from the outermost, as far as their sizes agree."""
    left, right = list(reversed(ours)), list(reversed(theirs))
    while left and right:
        # Both lists are reversed, so that pop() takes the outermost digit.
        (our_digit, m), (their_digit, n) = left.pop(), right.pop()
        if m != n:
            our_rest, less = quotient(m, n), quotient(n, m)
            if our_rest is not None:
                # The longer digit is cut: its outer part pairs now, its inner part with what
                # follows.
                left.append((our_digit, our_rest))
            elif less is not None:
                right.append((their_digit, less))
            else:
                return
        yield our_digit, their_digit


def _meet_parts(left: Digit, right: Digit, where: int | None) -> None:
    """Concatenated axes meet part by part, where the parts have equal lengths."""
    if not isinstance(left, ConcatenatedLabel) or not isinstance(right, ConcatenatedLabel):
        return
    if [part.size for part in left.parts] == [part.size for part in right.parts]:
        for ours, theirs in zip(left.parts, right.parts, strict=True):
            meet(ours, theirs, where)


def outermost(digits: Digits, size: Dim) -> tuple[LabelledAxis, Digits]:
    """The outermost digits that make up an axis of `size`, and the remaining digits."""
    collected: list[tuple[Digit, Dim]] = []
    remaining, need = list(digits), size
    while need != 1 and remaining:
        label, digit_size = remaining.pop(0)
        left, surplus = quotient(need, digit_size), quotient(digit_size, need)
        if left is not None:
            need = left
        elif surplus is not None and isinstance(label, Label):
            # A digit longer than needed is split; both parts keep its label.
            remaining.insert(0, (label, surplus))
            digit_size, need = need, 1
        else:
            break
        # Neighbouring digits of one label are one digit again: split and merged, an axis is what it
        # was.
        if collected and _same(collected[-1][0], label):
            digit_size = digit_size * collected.pop()[1]
        collected.append((label, digit_size))
    return (
        (LabelledAxis(size, tuple(collected)), tuple(remaining))
        if need == 1
        else (new_axis(size), ())
    )


def _same(left: Digit, right: Digit) -> bool:
    """Whether two digits have one label by now."""
    return isinstance(left, Label) and isinstance(right, Label) and left.root() is right.root()


def resized(axis: LabelledAxis, size: Dim) -> LabelledAxis:
    """An axis of another size from the elements of `axis`.

    A single label stays, a product does not.
    """
    if axis.size == size:
        return axis
    label = axis.digits[0][0] if len(axis.digits) == 1 else None
    return new_axis(size, label if isinstance(label, Label) else None)


def part(axis: LabelledAxis, start: Dim, stop: Dim) -> LabelledAxis:
    """A stretch of an axis: of a concatenated axis, the part that lies exactly there."""
    whole = axis.digits[0][0] if len(axis.digits) == 1 else None
    if isinstance(whole, ConcatenatedLabel):
        begin: Dim = 0
        for section in whole.parts:
            # Only an exact cut at the seams recovers a part; any other stretch mixes parts.
            if (begin, begin + section.size) == (start, stop):
                return section
            begin = begin + section.size
    return resized(axis, stop - start)


def joined(parts: Sequence[LabelledAxis]) -> LabelledAxis:
    """The axes end to end: a longer axis of one label, or a `ConcatenatedLabel`."""
    size: Dim = 0
    for part in parts:
        size = size + part.size
    # Two pieces of one label are more of it: a padding by concatenation keeps its meaning.
    labels = [part.digits[0][0] for part in parts if len(part.digits) == 1]
    if len(labels) == len(parts) and all(_same(labels[0], label) for label in labels):
        return resized(parts[0], size)
    return LabelledAxis(size, ((ConcatenatedLabel(tuple(parts)), size),))


def check_labels(program: Program) -> None:
    """Raises LabelError where axes with different declared labels meet."""
    _infer(program, _declared(program))


def labels_of(program: Program) -> dict[Term, tuple[str | None, ...]]:
    """The label of each axis of each term, as far as the inputs tell; raises LabelError.

    Merged axes read `head·feature`; an input axis without a label is called after its input.
    """
    axes_by_term = _infer(program, _declared(program))
    return {
        term: tuple(map(_axis_name, axes[0 if _outside(term) else LEAD :]))
        for term, axes in axes_by_term.items()
    }


def explain_labels(reference: Program, candidate: Program) -> str | None:
    """Names axes that `candidate` lets meet and `reference` keeps apart; None if there are none.

    It is no proof that the candidate is wrong, but the reason where it was found to be wrong.
    """
    try:
        inputs = _declared(reference)
        _infer(reference, inputs)
        kinds = _kinds(inputs)
        # A check of the method on the reference itself: if its own kinds clash, labels say nothing.
        _infer(reference, _sorted(inputs, kinds))
    except LabelError:
        return None
    try:
        _infer(candidate, _sorted(inputs, kinds))
    except LabelError as clash:
        return str(clash)
    return None


def _kinds(inputs: Sequence[Labelled]) -> dict[Label, str]:
    """A distinct name for each label that the `inputs` have after the reference was inferred."""
    digits = [label for axes in inputs for axis in axes for label, _ in axis.digits]
    roots = dict.fromkeys(label.root() for label in digits if isinstance(label, Label))
    return {root: str(index) for index, root in enumerate(roots)}


def _sorted(inputs: Sequence[Labelled], kinds: dict[Label, str]) -> list[Labelled]:
    """The inputs with the names that `_kinds` gave."""
    return [tuple(_sort(axis, kinds) for axis in axes) for axes in inputs]


def _sort(axis: LabelledAxis, kinds: dict[Label, str]) -> LabelledAxis:
    """The axis with the name of its label's kind, declared: kinds that meet now clash."""
    digits = [
        (Label(kinds[label.root()], label.origin), size)
        for label, size in axis.digits
        if isinstance(label, Label)
    ]
    return LabelledAxis(axis.size, tuple(digits))


def _declared(program: Program) -> list[Labelled]:
    """The inputs with the labels that they declare; labels that are not declared are open."""
    declared = []
    for input_ in program.inputs:
        # Open labels get an origin too, so that a clash can name `axis 0 of X`.
        name = input_.parameter("name")
        declared.append(
            tuple(
                new_axis(size, Label(label, f"{label or f'axis {axis}'} of {name}"))
                for axis, (size, label) in enumerate(
                    zip(input_.shape, input_.parameter("labels"), strict=True)
                )
            )
        )
    return declared


def _outside(term: Term) -> bool:
    """Whether a term is outside of kernels, where axes have no lead of grid and loop."""
    return term.place in (Place.DEVICE, Place.ANYWHERE)


def _infer(program: Program, inputs: Sequence[Labelled]) -> dict[Term, Labelled]:
    """The axes of every term; raises LabelError for the first two that cannot meet."""
    axes: dict[Term, Labelled] = dict(zip(program.inputs, inputs, strict=True))
    algebra = Labels()
    for term in program.terms():
        if term in axes:
            continue
        try:
            axes[term] = step(term, algebra, [axes[argument] for argument in term.arguments])
        except ClashError as clash:
            raise LabelError(_explained(term, clash)) from None
    return axes


def _explained(term: Term, clash: ClashError) -> str:
    """The message of a clash: operator, axis and both labels."""
    where = "the contracted axis" if clash.axis is None else f"axis {clash.axis}"
    if clash.axis is not None and not _outside(term):
        # Inside of a kernel the first four axes are the lead of `evaluate`.
        lead = ("grid axis x", "grid axis y", "grid axis z", "the loop")
        where = lead[clash.axis] if clash.axis < LEAD else f"axis {clash.axis - LEAD}"
    return f"{term.operator.name}: {where} pairs {clash.left} with {clash.right}"


def _axis_name(axis: LabelledAxis) -> str | None:
    """The label of an axis as text; None where nothing is known of any digit."""
    names = [_name(label) for label, _ in axis.digits]
    return "·".join(name or "?" for name in names) if any(names) else None


def _name(label: Label | ConcatenatedLabel) -> str | None:
    """The label of a digit as text."""
    if isinstance(label, ConcatenatedLabel):
        return " + ".join(_axis_name(part) or "?" for part in label.parts)
    root = label.root()
    return root.name or root.origin or None


class Labels:
    """The `Algebra` of labels.

    What moves axes moves labels, what pairs elements makes labels meet.
    """

    def constant(self, value: Fraction | float) -> Labelled:
        return ()

    def iota(self, shape: Sequence[Dim], axis: int) -> Labelled:
        return tuple(map(new_axis, shape))

    def _pointwise(self, *xs: Labelled) -> Labelled:
        """The axes of operands that are walked together; scalars go with any."""
        joint: Labelled = ()
        for x in xs:
            if not joint or not x:
                joint = joint or x
                continue
            joint = tuple(meet(a, b, i) for i, (a, b) in enumerate(zip(joint, x, strict=True)))
        return joint

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
        """Reduced axes become `ONE`; the others keep their labels."""
        return tuple(ONE if i in axes else axis for i, axis in enumerate(x))

    largest = sum

    def matmul(self, x: Labelled, y: Labelled) -> Labelled:
        """The contracted axes meet, and so do the batch axes."""
        # None stands for the contracted axis, which the result does not have.
        meet(x[-1], y[-2], None)
        return (*self._pointwise(x[:-2], y[:-2]), x[-2], y[-1])

    def size(self, x: Labelled, axis: int) -> Labelled:
        return ()

    def broadcast(self, x: Labelled, shape: Sequence[Dim]) -> Labelled:
        """Repeated axes get open labels: nothing is known of their meaning."""
        if not x:
            return tuple(map(new_axis, shape))
        return tuple(
            axis if axis.size == size else new_axis(size)
            for axis, size in zip(x, shape, strict=True)
        )

    def reshape(self, x: Labelled, shape: Sequence[Dim]) -> Labelled:
        """Digits of each group of axes, dealt out again to the group's new axes."""
        axes = [ONE] * len(shape)
        for left, right in regroup(NUMBERS, self.shape(x), tuple(shape)):
            digits: Digits = tuple(digit for i in left for digit in x[i].digits)
            for j in right:
                axes[j], digits = outermost(digits, shape[j])
        return tuple(axes)

    def transpose(self, x: Labelled, axes: Sequence[int]) -> Labelled:
        return tuple(x[axis] for axis in axes)

    def slice(self, x: Labelled, axis: int, start: Dim, stop: Dim, step: int) -> Labelled:
        """A part of an axis; a concatenated axis gives back the part that was put in."""
        length = stop - start
        if step > 1:
            length = NUMBERS.over(length + (-NUMBERS.value(length) % step), step, "slice")
        sliced = resized(part(x[axis], start, stop), length)
        return (*x[:axis], sliced, *x[axis + 1 :])

    def concatenate(self, xs: Sequence[Labelled], axis: int) -> Labelled:
        """The other axes meet; the concatenated one keeps its parts."""
        joint = self._pointwise(*[(*x[:axis], ONE, *x[axis + 1 :]) for x in xs])
        return (*joint[:axis], joined([x[axis] for x in xs]), *joint[axis + 1 :])

    def pad(self, x: Labelled, axis: int, low: Dim, high: Dim, value: Fraction) -> Labelled:
        return (*x[:axis], resized(x[axis], low + x[axis].size + high), *x[axis + 1 :])

    def diagonal(self, x: Labelled) -> Labelled:
        """Both axes of a diagonal are walked together, so they meet."""
        return (*x[:-2], meet(x[-2], x[-1], len(x) - 2))

    def windows(self, x: Labelled, axis: int, window: Dim, stride: int, dilation: int) -> Labelled:
        """Places keep the label of the axis; the position within a window is a new one."""
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
        tuple(axis.digits[0][0].root() if axis.digits else None for axis in axes)  # type: ignore[union-attr]  # an input's digits are labels
        for axes in declared
    ]
