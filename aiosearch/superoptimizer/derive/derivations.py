"""The derivation graph: every value class on the way to a reference, and each operator application
that computes it.

Problem: programs of a space share nearly all of their values, so enumerating them one operator
after the other meets the same value again and again. Here each value is computed once, whatever the
kernel, the grid or the loop; programs are read off afterwards.

A class is a form, the axes it lies along, and where it is: in the device's memory, in a block's
loop or behind it. Worked example, LoRA with `Space(kernels=1)`: 387 classes and 743 derivations.
The output is the class `ValueClass(form=11, axes=((15,), (3840,)), zone=DEVICE, grid=0, loop=0)`:
rows are label 0 whole, columns label 2 whole. Two of its derivations are `add` of the classes 20
and 95 and `matmul` of the classes 0 and 124; each `store` takes a tile of some block, cut by
another grid.

Invariant: a class is entered only if its form passes the `SubtermTest`, so all that is in the graph
may occur in a program. Numbers are given in the order of discovery, which is deterministic:
`digest` tells two graphs apart, and a journal or a worker that names classes by number depends on
it.

Cost: a class meets every earlier one of its place, so pairs grow quadratically; what prunes is the
subterm test (11,759 of LoRA's attempts) and the rule that axes agree (2,560 pairs of different
loops, and more).

See docs/why/superoptimizer.md, "Tables instead of a tree".
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from hashlib import blake2b
from itertools import product
from operator import or_
from typing import NamedTuple, TypeAlias

from ...tensor import Term
from ...tensor.operator import OPERATORS, Operator
from ...tensor.terms import INPUT, LITERAL
from ..algebra.normal_form import BITS, GRID, LEFT, LOOP, REST, WHOLE, Mask, label_of
from ..algebra.program_reader import (
    ROW,
    Axes,
    Axis,
    FormalAlgebra,
    LabelledTensor,
    NormalFormProgram,
    overlap,
)
from ..algebra.subterm_test import SubtermTest
from ..progress import ShouldContinue, always_continue
from ..space import Space


class AxisMatch(NamedTuple):
    """What comes of the axes of two values; None where they do not go together.

    Axes (row, feature) and (feature, column) have no pointwise result, and a product along (row,
    column) that sums over feature.
    """

    joined: Axes | None
    """The axes of a pointwise result."""
    across: Axes | None
    """The axes of a product."""
    inner: Mask
    """The index parts that the product sums over."""


class AxisMatches:
    """Remembers how pairs of axes match; there are few distinct ones among many classes."""

    def __init__(self) -> None:
        self._known: dict[tuple[Axes, Axes], AxisMatch] = {}
        self._along: dict[Axes, Mask] = {}

    def of(self, left: Axes, right: Axes) -> AxisMatch:
        """How the axes `left` and `right` match, in this order."""
        match = self._known.get((left, right))
        if match is None:
            match = self._known[left, right] = AxisMatch(
                _pointwise(left, right), *_across(left, right)
            )
        return match

    def along(self, axes: Axes) -> Mask:
        """The index parts that a value with these axes lies along."""
        parts = self._along.get(axes)
        if parts is None:
            parts = self._along[axes] = reduce(or_, (piece for axis in axes for piece in axis), 0)
        return parts


def _pointwise(left: Axes, right: Axes) -> Axes | None:
    """The axes of a pointwise result: each axis of one operand, or broadcast from a single
    element.
    """
    if not left or not right:
        return left or right
    if len(left) != len(right):
        return None
    axes = []
    for a, b in zip(left, right, strict=True):
        if a and b and a != b:
            return None
        axes.append(a or b)
    # A result with one index on two axes would be a diagonal, for which the search has no operator.
    return None if overlap(tuple(axes)) else tuple(axes)


def _across(left: Axes, right: Axes) -> tuple[Axes | None, Mask]:
    """The axes of a product of matrices, with leading axes as batches, and what it sums over."""
    if len(left) != len(right) or len(left) < 2 or left[-1] != right[-2]:
        return None, 0
    lead = _pointwise(left[:-2], right[:-2]) if len(left) > 2 else ()
    if lead is None:
        return None, 0
    if overlap((*lead, left[-2], left[-1], right[-1])):
        return None, 0
    return (*lead, left[-2], right[-1]), sum(left[-1])


REDUCTIONS = ("sum", "max", "mean")
UNORDERED = ("add", "mul", "maximum", "minimum")
MOVES = ("reshape", "transpose", "broadcast")


class Scope(IntEnum):
    """Where a value is: in the device's memory, or at which point of a block."""

    DEVICE = 0
    LOOP = 1
    STILL = 2
    """Behind a loop that splits nothing, and so runs once."""
    AFTER = 3
    """Behind a loop that splits an index."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """One way to compute a class: an operator and the classes that it takes."""

    operator: str
    operands: tuple[int, ...]
    detail: str = ""
    """The kind of an accumulator, the axis of a reduction, or the side and place of a number:
    `right 0`."""


@dataclass(frozen=True, slots=True)
class ValueClass:
    """Values that no later operator can tell apart: a form, its axes, and where the values are."""

    form: int
    axes: Axes
    zone: Scope
    grid: Mask
    """The index parts that the grid walks."""
    loop: Mask
    """The index part that the loop walks."""


Split: TypeAlias = tuple[Axes, Mask, Mask]
"""Axes of a tile, and the index parts that the grid and the loop have cut off them."""


class PointwiseForms(NamedTuple):
    """What the pointwise operators make of two forms."""

    results: list[tuple[str, bool, int]]
    """Triples of an operator, whether the second form is its first operand, and the form of the
    result."""
    lost: int
    """How many results are no part of the reference."""


class DerivationGraph:
    """All classes within a space that are parts of a reference, and every derivation between them.

    `steps[n]` lists the derivations of `classes[n]`; both only grow while the graph is built.
    """

    def __init__(
        self, reference: NormalFormProgram, space: Space, going: ShouldContinue = always_continue
    ) -> None:
        self.reference = reference
        self.space = space
        self.forms = reference.forms
        self.parts = SubtermTest(self.forms, (value.form for value in reference.values.values()))
        self.classes: list[ValueClass] = []
        self.steps: list[list[Derivation]] = []
        self.pruned: Counter[str] = Counter()
        self._known: dict[ValueClass, int] = {}
        self._algebra = FormalAlgebra(self.forms, reference.sizes)
        self._by_axes: dict[Scope, dict[tuple[Axes, Mask], list[int]]] = {
            zone: {} for zone in Scope
        }
        self._axis_matches = AxisMatches()
        self._walked: list[Mask] = []
        """The index parts that the grid and the loop of each class walk."""
        self._pointwise_forms: dict[tuple[int, int, bool], PointwiseForms] = {}
        self._results: dict[tuple[str, int, int, Mask], int] = {}
        self._worklist: deque[int] = deque()
        self._accumulators = [
            kind for kind in space.accumulators if kind != "max" or self.parts.largest
        ]
        self._unary = [OPERATORS[name] for name in self._names(1)]
        inside = {*self._names(1), *self._names(2), "load", "store", "accumulate"}
        outside = {*space.kernel, *(inside - {*space.tile}), "store"}
        self._allowed = dict.fromkeys(Scope, inside) | {Scope.DEVICE: outside}
        self._unordered = [name for name in self._names(2) if name in UNORDERED]
        self.numbers = _numbers(reference)
        """The numbers that the reference computes with, each with its form."""
        # Where nothing is negative, a difference is a sum
        self._ordered = ("sub", "div") if self.parts.negative else ("div",)
        self.inputs = [self._tensor(reference.values[term]) for term in reference.program.inputs]
        self.views = {
            self._tensor(reference.values[term]): term
            for term in reference.program.terms()
            if _is_view(term)
        }
        """Inputs whose elements the reference moves, which costs nothing."""
        self._saturate(going)
        self._forms, self._units = len(self.forms.items), len(self.forms.units)
        self.targets = [
            self._target(reference.values[unmoved(term)]) for term in reference.program.outputs
        ]

    def _target(self, value: LabelledTensor) -> int | None:
        """The class of an output, whatever axes of a single element it has besides."""
        exact = self._known.get(_device(value))
        if exact is not None:
            return exact
        long_axes = [axis for axis in value.axes if axis]
        for number, cls in enumerate(self.classes):
            alike = cls.zone is Scope.DEVICE and cls.form == value.form
            if alike and [axis for axis in cls.axes if axis] == long_axes:
                return number
        return None

    def digest(self) -> str:
        """Graphs of one digest mean the same by the numbers of their classes and derivations."""
        items, units = self.forms.items[: self._forms], self.forms.units[: self._units]
        text = repr((self.classes, self.steps, items, units))
        return blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def available(self) -> set[int]:
        """The tensors that need no kernel: inputs, and their views."""
        return {*self.inputs, *self.views}

    def _names(self, operands: int) -> list[str]:
        """The operators of so many operands: those of the space, and pointwise ones of the
        reference.
        """
        pointwise = [
            term.operator.name
            for term in self.reference.program.terms()
            if term.operator.pointwise and not term.operator.parameters
        ]
        named = dict.fromkeys((*self.space.tile, *pointwise))
        return [name for name in named if OPERATORS[name].arity == operands]

    def _tensor(self, value: LabelledTensor) -> int:
        return self._enter(_device(value), None)

    def _enter(self, entered: ValueClass, step: Derivation | None) -> int:
        """The number of `entered`, to which `step` is one further way; -1 where its operator is not
        allowed there.
        """
        if step is not None and step.operator not in self._allowed[entered.zone]:
            return -1
        number = self._known.get(entered)
        if number is None:
            number = self._known[entered] = len(self.classes)
            self.classes.append(entered)
            self.steps.append([])
            self._walked.append(entered.grid | entered.loop)
            self._worklist.append(number)
        if step is not None:
            self.steps[number].append(step)
        return number

    def _saturate(self, going: ShouldContinue) -> None:
        """Takes up new classes until there are none; breadth first, so that a class meets all
        earlier ones.
        """
        while self._worklist:
            # There is no stopping early: what is missing would look as if it could not be
            going(f"computing tables: {len(self.classes):,} values so far")
            self._grow(self._worklist.popleft())

    def _grow(self, number: int) -> None:
        """Applies everything to the class `number`, alone and with each class before it."""
        cls = self.classes[number]
        # Classes are grouped by their axes and loop: whether two of them can meet is decided once
        # for a group. The class itself is in its group before it is paired, so that x·x comes
        # about.
        self._by_axes[cls.zone].setdefault((cls.axes, cls.loop), []).append(number)
        if cls.zone is Scope.DEVICE:
            self._load(number, cls)
        elif cls.zone is Scope.LOOP:
            self._accumulate(number, cls)
        else:
            self._store(number, cls)
        self._apply(number, cls)
        self._pair(number, cls)

    # Single classes

    def _apply(self, number: int, cls: ValueClass) -> None:
        """Enters the results of all operators of one operand, and of those of a number and
        `cls`.
        """
        for operator in self._unary:
            if operator.name in REDUCTIONS:
                self._reduce(number, cls, operator.name)
                continue
            if operator.name == "rms_norm" and not (cls.axes and cls.axes[-1]):
                continue
            tensor = self._meaning(operator, cls)
            self._enter_part(
                Derivation(operator.name, (number,)), cls.zone, tensor, cls.grid, cls.loop
            )
        for place, (_, form) in enumerate(self.numbers):
            self._with_number(number, cls, place, form)

    def _with_number(self, number: int, cls: ValueClass, place: int, constant: int) -> None:
        """Enters the sums, products, differences and quotients of a class and a number of the
        reference.
        """
        for name in ("add", "mul", "sub", "div"):
            for detail, form in (
                (f"right {place}", self._result(name, cls.form, constant, 0)),
                (f"left {place}", self._result(name, constant, cls.form, 0)),
            ):
                if form < 0:
                    self.pruned["no part of the reference"] += 1
                elif detail.startswith("right") or name in ("sub", "div"):
                    entered = ValueClass(form, cls.axes, cls.zone, cls.grid, cls.loop)
                    self._enter(entered, Derivation(name, (number,), detail))

    def _meaning(self, operator: Operator, cls: ValueClass) -> LabelledTensor:
        tensor: LabelledTensor = operator.meaning(self._algebra, LabelledTensor(cls.form, cls.axes))
        return tensor

    def _reduce(self, number: int, cls: ValueClass, name: str) -> None:
        """Enters reductions along single axes; in the device's memory also the sum of the partial
        results that a grid has left.
        """
        for axis, pieces in enumerate(cls.axes):
            if pieces:
                form = self._reduced(name, cls.form, sum(pieces))
                axes = (*cls.axes[:axis], ROW, *cls.axes[axis + 1 :])
                step = Derivation(name, (number,), str(axis))
                self._enter_part(step, cls.zone, LabelledTensor(form, axes), cls.grid, cls.loop)
            # An axis of several pieces was put together by a store: its first piece is a grid's,
            # and summing over just that is the second half of a reduction that was split over
            # blocks.
            if cls.zone is Scope.DEVICE and len(pieces) > 1 and name == "sum":
                form = self.forms.sum(cls.form, pieces[0])
                axes = (*cls.axes[:axis], pieces[1:], *cls.axes[axis + 1 :])
                step = Derivation("fold", (number,), str(axis))
                self._enter_part(step, cls.zone, LabelledTensor(form, axes), cls.grid, cls.loop)

    def _reduced(self, name: str, form: int, mask: Mask) -> int:
        if name == "max":
            return self.forms.largest(form, mask)
        total = self.forms.sum(form, mask)
        return total if name == "sum" else self.forms.divide(total, self.forms.size(mask))

    def _enter_part(
        self, step: Derivation, zone: Scope, tensor: LabelledTensor, grid: Mask, loop: Mask
    ) -> None:
        """Enters `tensor` by `step`, unless it is no part of the reference."""
        if tensor.form not in self.parts:
            self.pruned["no part of the reference"] += 1
            return
        self._enter(ValueClass(tensor.form, tensor.axes, zone, grid, loop), step)

    # Pairs of classes

    def _pair(self, number: int, cls: ValueClass) -> None:
        """Enters what comes of the class `number` and every class of its scope that it can meet."""
        for (axes, loop), candidates in list(self._by_axes[cls.zone].items()):
            # A block has a single loop: tiles of different loops never exist in one iteration.
            if loop and cls.loop and loop != cls.loop:
                self.pruned["loops over different indices"] += 1
                continue
            joined, across, inner = self._axis_matches.of(cls.axes, axes)
            back, within = self._reversed_product(cls.axes, axes)
            if joined is None and across is None and back is None:
                continue
            partners = self._uncrossed(cls, axes, candidates)
            if joined is not None:
                for partner in partners:
                    self._pointwise(number, partner, joined)
            if across is not None:
                for partner in partners:
                    self._product(number, partner, across, inner)
            if back is not None:
                for partner in partners:
                    if partner != number:
                        self._product(partner, number, back, within)

    def _reversed_product(self, left: Axes, right: Axes) -> tuple[Axes | None, Mask]:
        """The axes and the sum of the product in the other order, where that is another product."""
        if right == left and len(left) == 1:
            return None, 0
        _, back, within = self._axis_matches.of(right, left)
        return back, within

    def _uncrossed(self, cls: ValueClass, axes: Axes, candidates: list[int]) -> list[int]:
        """Selects those of `candidates`, all along `axes`, that can meet `cls` in one operator.

        No grid or loop of one may walk an index that the other lies along: in a block that has a
        part of the rows, no tile with all rows is at the same rows.
        """
        if (cls.grid | cls.loop) & self._axis_matches.along(axes):
            uncrossed = []
        else:
            along = self._axis_matches.along(cls.axes)
            uncrossed = [
                candidate for candidate in candidates if not self._walked[candidate] & along
            ]
        if len(uncrossed) < len(candidates):
            self.pruned["along an index that the other walks"] += len(candidates) - len(uncrossed)
        return uncrossed

    def _pointwise(self, left: int, right: int, axes: Axes) -> None:
        """Enters the pointwise results of two classes, whose axes are `axes`."""
        a, b = self.classes[left], self.classes[right]
        key = (a.form, b.form, left != right)
        forms = self._pointwise_forms.get(key)
        if forms is None:
            forms = self._pointwise_forms[key] = self._pointwise_results(*key)
        if forms.lost:
            self.pruned["no part of the reference"] += forms.lost
        for name, turned, form in forms.results:
            # a + b and b + a are one derivation: the smaller number is first.
            swapped = turned or (name in UNORDERED and right < left)
            operands = (right, left) if swapped else (left, right)
            entered = ValueClass(form, axes, a.zone, a.grid | b.grid, a.loop | b.loop)
            self._enter(entered, Derivation(name, operands))

    def _pointwise_results(self, a: int, b: int, distinct: bool) -> PointwiseForms:
        """The pointwise results of two forms; of a class with itself, quotients have one order
        only.
        """
        orders = [(name, False) for name in self._unordered]
        for name in self._ordered:
            if name in self.space.tile:
                orders += [(name, False), (name, True)] if distinct else [(name, False)]
        results = []
        for name, swapped in orders:
            first, second = (b, a) if swapped else (a, b)
            results.append((name, swapped, self._result(name, first, second, 0)))
        parts = [result for result in results if result[2] >= 0]
        return PointwiseForms(parts, len(results) - len(parts))

    def _product(self, left: int, right: int, axes: Axes, inner: Mask) -> None:
        """Enters the product of two classes along `axes`, summed over `inner`."""
        a, b = self.classes[left], self.classes[right]
        form = self._result("matmul", a.form, b.form, inner)
        if form < 0:
            self.pruned["no part of the reference"] += 1
            return
        entered = ValueClass(form, axes, a.zone, a.grid | b.grid, a.loop | b.loop)
        self._enter(entered, Derivation("matmul", (left, right)))

    def _result(self, name: str, left: int, right: int, inner: Mask) -> int:
        """The form of a result, or -1 for a form that is no part of the reference."""
        key = (name, left, right, inner)
        result = self._results.get(key)
        if result is None:
            form = self._form_of_two(name, left, right, inner)
            is_part = form in self.parts and not (
                # x + x has the form of 2x. Allowing such sums would build every multiple by
                # addition, of which none is shorter than the product with a number.
                name in ("add", "sub") and self._merges_terms(form, left, right)
            )
            result = self._results[key] = form if is_part else -1
        return result

    def _merges_terms(self, form: int, left: int, right: int) -> bool:
        """Whether terms of a sum became one: a multiple of what was there, or nothing."""
        items = self.forms.items
        return len(items[form]) < len(items[left]) + len(items[right])

    def _form_of_two(self, name: str, left: int, right: int, inner: Mask) -> int:
        forms = self.forms
        if name == "add":
            return forms.add(left, right)
        if name == "sub":
            return forms.subtract(left, right)
        if name == "mul":
            return forms.multiply(left, right)
        if name == "div":
            return forms.divide(left, right)
        if name in ("maximum", "minimum"):
            return forms.call(name, *sorted((left, right)))
        return forms.sum(forms.multiply(left, right), inner)

    # Between the device and a block

    def _load(self, number: int, cls: ValueClass) -> None:
        """Enters every tile of a tensor that a grid and a loop can cut."""
        for axes, grid, loop in self._splits(cls.axes):
            self._enter(
                ValueClass(cls.form, axes, Scope.LOOP, grid, loop), Derivation("load", (number,))
            )

    def _splits(self, axes: Axes) -> Iterator[Split]:
        """Every way in which a grid and a loop can split a tensor with these axes."""
        for splits in product(*map(self._axis_splits, axes)):
            grid = reduce(or_, (split[1] for split in splits), 0)
            loops = [split[2] for split in splits if split[2]]
            # At most one axis is split by the loop, as a block loops over one index.
            if len(loops) <= 1 and sum(split[1] > 0 for split in splits) <= self.space.grid_axes:
                yield tuple(split[0] for split in splits), grid, sum(loops)

    def _axis_splits(self, axis: Axis) -> list[tuple[Axis, Mask, Mask]]:
        """How an axis can be split: left whole, by the grid, by the loop, or by both; only its
        outermost index is.
        """
        splits: list[tuple[Axis, Mask, Mask]] = [(axis, 0, 0)]
        if not axis:
            return splits
        first, inner = axis[0], axis[1:]
        shift = label_of(first) * BITS
        part = first >> shift
        if part == WHOLE:
            splits.append((((LOOP | REST) << shift, *inner), GRID << shift, 0))
            # A loop over an index that the reference never reduces would leave its result in
            # pieces: only indices that are summed over somewhere can be looped over.
            if self.parts.bound & first:
                splits.append((((GRID | REST) << shift, *inner), 0, LOOP << shift))
                splits.append(((REST << shift, *inner), GRID << shift, LOOP << shift))
        # Partial sums that a grid has left along an axis: a later kernel may loop over them, which
        # takes the bit AGAIN and leaves LEFT.
        elif part == GRID:
            splits.append(((LEFT << shift, *inner), 0, (GRID ^ LEFT) << shift))
        return splits

    def _accumulate(self, number: int, cls: ValueClass) -> None:
        """Enters what accumulators make of a tile of the loop."""
        still = not cls.loop
        for kind in self._accumulators:
            tensor = self._accumulated(kind, cls)
            if tensor is None:
                continue
            step = Derivation("accumulate", (number,), kind)
            # A tile that the loop does not split is the same in every iteration. Its largest, mean
            # and rms over all of them are those of a single one, so they may stand behind a loop
            # that splits something else; a sum would count the tile once for each iteration.
            if still and kind != "max":
                self._enter_part(step, Scope.STILL, tensor, cls.grid, 0)
            if not still or kind in ("max", "mean", "rms"):
                self._enter_part(step, Scope.AFTER, tensor, cls.grid, 0)

    def _accumulated(self, kind: str, cls: ValueClass) -> LabelledTensor | None:
        """The tensor that an accumulator of `kind` leaves, or None where the axes do not allow
        it.
        """
        forms, axes = self.forms, cls.axes
        if kind == "none":
            return LabelledTensor(forms.sum(cls.form, cls.loop), axes)
        if kind == "max":
            return LabelledTensor(forms.largest(cls.form, cls.loop), axes)
        if not axes or not axes[-1]:
            return None
        last, row = axes[-1], (*axes[:-1], ROW)
        # redtox adds up over the loop and the outermost piece of the last axis, and keeps the inner
        # pieces as columns.
        if kind == "redtox":
            if len(last) < 2:
                return None
            return LabelledTensor(forms.sum(cls.form, cls.loop | last[0]), (*axes[:-1], last[1:]))
        mask = cls.loop | sum(last)
        if kind == "sum":
            return LabelledTensor(forms.sum(cls.form, mask), row)
        squared = forms.multiply(cls.form, cls.form) if kind == "rms" else cls.form
        mean = forms.divide(forms.sum(squared, mask), forms.size(mask))
        return LabelledTensor(forms.sqrt(mean) if kind == "rms" else mean, row)

    def _store(self, number: int, cls: ValueClass) -> None:
        """Enters the tensors that the tile `number` may be stored as."""
        for axes in self._stored(cls):
            tensor = ValueClass(cls.form, axes, Scope.DEVICE, 0, 0)
            self._enter(tensor, Derivation("store", (number,)))

    def _stored(self, cls: ValueClass) -> Iterator[Axes]:
        """The axes along which the tiles of all blocks can be put side by side."""
        bits = range(0, cls.grid.bit_length(), BITS)
        walked = [GRID << bit for bit in bits if cls.grid >> bit & GRID]
        if len(walked) > self.space.grid_axes:
            return
        open_parts: list[Mask] = []
        axes = list(cls.axes)
        for part in walked:
            # Where the tile has the remainder of an index as the outermost piece of an axis, its
            # blocks go side by side there and the index is whole again. Else the grid leaves
            # partial sums, which need an axis of their own.
            remainder = part // GRID * (LOOP | REST)
            at = next((at for at, axis in enumerate(axes) if axis and axis[0] == remainder), None)
            if at is None:
                open_parts.append(part)
            else:
                axes[at] = (part | remainder, *axes[at][1:])
        if any(not _plain(piece) for axis in axes for piece in axis):
            self.pruned["parts of an index lost"] += 1
            return
        if len(open_parts) > 1:
            self.pruned["partial sums over two indices"] += 1
            return
        for part in open_parts:
            # On another axis it would be the same program with another layout in between
            at = place_of_parts(cls.axes) if axes else -1
            if at < 0 or axes[at] != cls.axes[at]:
                return
            axes[at] = (part, *axes[at])
        yield tuple(axes)


def place_of_parts(axes: Sequence[Axis]) -> int:
    """The axis along which a grid leaves its partial sums: one of a single element, or else the
    last.

    `place_of_parts(((15,), ()))` is 1.
    """
    return min(range(len(axes)), key=lambda at: (bool(axes[at]), -at))


def unmoved(term: Term) -> Term:
    """What `term` is before its elements are moved."""
    while term.operator.name in MOVES:
        (term,) = term.arguments
    return term


def _is_view(term: Term) -> bool:
    """Whether `term` only moves elements of an input."""
    return term.operator.name in MOVES and unmoved(term).operator is INPUT


def _numbers(reference: NormalFormProgram) -> list[tuple[Term, int]]:
    """The literals of a reference, each with its form."""
    terms = [term for term in reference.program.terms() if term.operator is LITERAL]
    return [(term, reference.values[term].form) for term in terms]


def _device(value: LabelledTensor) -> ValueClass:
    """The class of a tensor in the device's memory."""
    return ValueClass(value.form, value.axes, Scope.DEVICE, 0, 0)


def _plain(piece: Mask) -> bool:
    """Whether a piece is a label that is whole, or all of what a grid leaves of it."""
    part = piece >> label_of(piece) * BITS
    return part in (WHOLE, GRID)
