"""The derivation graph: every value class on the way to a reference, and each operator application
that computes it.

A class is a form, the axes it lies along and where it is: in the device's memory, in a block's loop
or behind it. Each is a small number, found once whatever the kernel, the grid or the loop; what is
no part of the reference is not taken in. Programs are then read off the tables, and no step of one
is ever tried in vain twice.

How the axes of two values meet, in a pointwise operator and in a product.
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
    """What comes of two values' axes; None where they do not go together."""

    joined: Axes | None
    """The axes of a pointwise result."""
    across: Axes | None
    """Those of a product."""
    inner: Mask
    """What the product sums over."""


class AxisMatches:
    """Each looked at once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Axes, Axes], AxisMatch] = {}
        self._along: dict[Axes, Mask] = {}

    def of(self, one: Axes, two: Axes) -> AxisMatch:
        found = self._known.get((one, two))
        if found is None:
            found = self._known[one, two] = AxisMatch(_pointwise(one, two), *_across(one, two))
        return found

    def along(self, axes: Axes) -> Mask:
        """The index parts that a value with these axes lies along."""
        found = self._along.get(axes)
        if found is None:
            found = self._along[axes] = reduce(or_, (piece for axis in axes for piece in axis), 0)
        return found


def _pointwise(one: Axes, two: Axes) -> Axes | None:
    if not one or not two:
        return one or two
    if len(one) != len(two):
        return None
    found = []
    for a, b in zip(one, two, strict=True):
        if a and b and a != b:
            return None
        found.append(a or b)
    return None if overlap(tuple(found)) else tuple(found)


def _across(one: Axes, two: Axes) -> tuple[Axes | None, Mask]:
    if len(one) != len(two) or len(one) < 2 or one[-1] != two[-2]:
        return None, 0
    lead = _pointwise(one[:-2], two[:-2]) if len(one) > 2 else ()
    if lead is None:
        return None, 0
    if overlap((*lead, one[-2], one[-1], two[-1])):
        return None, 0
    return (*lead, one[-2], two[-1]), sum(one[-1])


pass


REDUCTIONS = ("sum", "max", "mean")
UNORDERED = ("add", "mul", "maximum", "minimum")
MOVES = ("reshape", "transpose", "broadcast")


class Scope(IntEnum):
    """Where a value is."""

    DEVICE = 0
    LOOP = 1
    STILL = 2
    """Behind a loop that splits nothing, and so runs once."""
    AFTER = 3
    """Behind a loop."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """One way to come by a class: an operator and the classes that it takes."""

    operator: str
    operands: tuple[int, ...]
    detail: str = ""
    """Which accumulator, or the axis of a sum."""


@dataclass(frozen=True, slots=True)
class ValueClass:
    form: int
    axes: Axes
    zone: Scope
    grid: Mask
    """The index parts that the grid walks."""
    loop: Mask
    """The index part that the loop walks."""


Split: TypeAlias = tuple[Axes, Mask, Mask]


class PointwiseForms(NamedTuple):
    """What pointwise operators make of two forms."""

    results: list[tuple[str, bool, int]]
    """Each an operator, whether the second form is its first operand, and the form it gives."""
    lost: int
    """How many give what is no part of the reference."""


class DerivationGraph:
    """All classes within a space that are parts of a reference, and every step between them."""

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
        self._alike: dict[Scope, dict[tuple[Axes, Mask], list[int]]] = {zone: {} for zone in Scope}
        self._meetings = AxisMatches()
        self._walked: list[Mask] = []
        """The index parts that the grid and the loop of each class walk."""
        self._together: dict[tuple[int, int, bool], PointwiseForms] = {}
        self._results: dict[tuple[str, int, int, Mask], int] = {}
        self._fresh: deque[int] = deque()
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
        self.inputs = [self._tensor(reference.values[one]) for one in reference.program.inputs]
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
        """The tensor that an output is, whatever axes of one element it has besides."""
        exact = self._known.get(_device(value))
        if exact is not None:
            return exact
        wanted = [axis for axis in value.axes if axis]
        for number, own in enumerate(self.classes):
            alike = own.zone is Scope.DEVICE and own.form == value.form
            if alike and [axis for axis in own.axes if axis] == wanted:
                return number
        return None

    def digest(self) -> str:
        """Tables of one digest mean the same by the numbers of their classes and steps."""
        items, units = self.forms.items[: self._forms], self.forms.units[: self._units]
        told = repr((self.classes, self.steps, items, units))
        return blake2b(told.encode(), digest_size=8).hexdigest()

    @property
    def given(self) -> set[int]:
        """The tensors that need no kernel."""
        return {*self.inputs, *self.views}

    def _names(self, operands: int) -> list[str]:
        """The operators of so many operands: of the space, and pointwise ones of the reference."""
        own = [
            term.operator.name
            for term in self.reference.program.terms()
            if term.operator.pointwise and not term.operator.parameters
        ]
        named = dict.fromkeys((*self.space.tile, *own))
        return [name for name in named if OPERATORS[name].arity == operands]

    def _tensor(self, value: LabelledTensor) -> int:
        return self._enter(_device(value), None)

    def _enter(self, found: ValueClass, step: Derivation | None) -> int:
        if step is not None and step.operator not in self._allowed[found.zone]:
            return -1
        number = self._known.get(found)
        if number is None:
            number = self._known[found] = len(self.classes)
            self.classes.append(found)
            self.steps.append([])
            self._walked.append(found.grid | found.loop)
            self._fresh.append(number)
        if step is not None:
            self.steps[number].append(step)
        return number

    def _saturate(self, going: ShouldContinue) -> None:
        while self._fresh:
            # There is no stopping early: what is missing would look as if it could not be
            going(f"computing tables: {len(self.classes):,} values so far")
            self._grow(self._fresh.popleft())

    def _grow(self, number: int) -> None:
        own = self.classes[number]
        self._alike[own.zone].setdefault((own.axes, own.loop), []).append(number)
        if own.zone is Scope.DEVICE:
            self._load(number, own)
        elif own.zone is Scope.LOOP:
            self._accumulate(number, own)
        else:
            self._store(number, own)
        self._apply(number, own)
        self._pair(number, own)

    # Single classes

    def _apply(self, number: int, own: ValueClass) -> None:
        for operator in self._unary:
            if operator.name in REDUCTIONS:
                self._reduce(number, own, operator.name)
                continue
            if operator.name == "rms_norm" and not (own.axes and own.axes[-1]):
                continue
            found = self._meaning(operator, own)
            self._made(Derivation(operator.name, (number,)), own.zone, found, own.grid, own.loop)
        for place, (_, form) in enumerate(self.numbers):
            self._with_number(number, own, place, form)

    def _with_number(self, number: int, own: ValueClass, place: int, constant: int) -> None:
        for name in ("add", "mul", "sub", "div"):
            for detail, form in (
                (f"right {place}", self._result(name, own.form, constant, 0)),
                (f"left {place}", self._result(name, constant, own.form, 0)),
            ):
                if form < 0:
                    self.pruned["no part of the reference"] += 1
                elif detail.startswith("right") or name in ("sub", "div"):
                    found = ValueClass(form, own.axes, own.zone, own.grid, own.loop)
                    self._enter(found, Derivation(name, (number,), detail))

    def _meaning(self, operator: Operator, own: ValueClass) -> LabelledTensor:
        found: LabelledTensor = operator.meaning(self._algebra, LabelledTensor(own.form, own.axes))
        return found

    def _reduce(self, number: int, own: ValueClass, name: str) -> None:
        for axis, pieces in enumerate(own.axes):
            if pieces:
                form = self._reduced(name, own.form, sum(pieces))
                axes = (*own.axes[:axis], ROW, *own.axes[axis + 1 :])
                step = Derivation(name, (number,), str(axis))
                self._made(step, own.zone, LabelledTensor(form, axes), own.grid, own.loop)
            if own.zone is Scope.DEVICE and len(pieces) > 1 and name == "sum":
                form = self.forms.sum(own.form, pieces[0])
                axes = (*own.axes[:axis], pieces[1:], *own.axes[axis + 1 :])
                step = Derivation("fold", (number,), str(axis))
                self._made(step, own.zone, LabelledTensor(form, axes), own.grid, own.loop)

    def _reduced(self, name: str, form: int, mask: Mask) -> int:
        if name == "max":
            return self.forms.largest(form, mask)
        total = self.forms.sum(form, mask)
        return total if name == "sum" else self.forms.divide(total, self.forms.size(mask))

    def _made(
        self, step: Derivation, zone: Scope, found: LabelledTensor, grid: Mask, loop: Mask
    ) -> None:
        if found.form not in self.parts:
            self.pruned["no part of the reference"] += 1
            return
        self._enter(ValueClass(found.form, found.axes, zone, grid, loop), step)

    # Pairs of classes

    def _pair(self, number: int, own: ValueClass) -> None:
        for (axes, loop), others in list(self._alike[own.zone].items()):
            if loop and own.loop and loop != own.loop:
                self.pruned["loops over different indices"] += 1
                continue
            joined, across, inner = self._meetings.of(own.axes, axes)
            back, within = self._back(own.axes, axes)
            if joined is None and across is None and back is None:
                continue
            meeting = self._uncrossed(own, axes, others)
            if joined is not None:
                for other in meeting:
                    self._pointwise(number, other, joined)
            if across is not None:
                for other in meeting:
                    self._product(number, other, across, inner)
            if back is not None:
                for other in meeting:
                    if other != number:
                        self._product(other, number, back, within)

    def _back(self, own: Axes, axes: Axes) -> tuple[Axes | None, Mask]:
        """The axes of the product in the other order, where that is another, and what it sums."""
        if axes == own and len(own) == 1:
            return None, 0
        _, back, within = self._meetings.of(axes, own)
        return back, within

    def _uncrossed(self, own: ValueClass, axes: Axes, others: list[int]) -> list[int]:
        """The others, which lie along `axes`, that can meet `own`.

        No grid or loop of one walks an index that the other lies along.
        """
        if (own.grid | own.loop) & self._meetings.along(axes):
            found = []
        else:
            along = self._meetings.along(own.axes)
            found = [other for other in others if not self._walked[other] & along]
        if len(found) < len(others):
            self.pruned["along an index that the other walks"] += len(others) - len(found)
        return found

    def _pointwise(self, one: int, two: int, axes: Axes) -> None:
        a, b = self.classes[one], self.classes[two]
        key = (a.form, b.form, one != two)
        known = self._together.get(key)
        if known is None:
            known = self._together[key] = self._of_two(*key)
        if known.lost:
            self.pruned["no part of the reference"] += known.lost
        for name, turned, form in known.results:
            swapped = turned or (name in UNORDERED and two < one)
            operands = (two, one) if swapped else (one, two)
            found = ValueClass(form, axes, a.zone, a.grid | b.grid, a.loop | b.loop)
            self._enter(found, Derivation(name, operands))

    def _of_two(self, a: int, b: int, distinct: bool) -> PointwiseForms:
        """What comes of two forms, of the same class where that is not another."""
        ways = [(name, False) for name in self._unordered]
        for name in self._ordered:
            if name in self.space.tile:
                ways += [(name, False), (name, True)] if distinct else [(name, False)]
        results = []
        for name, turned in ways:
            first, second = (b, a) if turned else (a, b)
            results.append((name, turned, self._result(name, first, second, 0)))
        parts = [one for one in results if one[2] >= 0]
        return PointwiseForms(parts, len(results) - len(parts))

    def _product(self, one: int, two: int, axes: Axes, inner: Mask) -> None:
        a, b = self.classes[one], self.classes[two]
        form = self._result("matmul", a.form, b.form, inner)
        if form < 0:
            self.pruned["no part of the reference"] += 1
            return
        found = ValueClass(form, axes, a.zone, a.grid | b.grid, a.loop | b.loop)
        self._enter(found, Derivation("matmul", (one, two)))

    def _result(self, name: str, one: int, two: int, inner: Mask) -> int:
        """The form of a result, -1 for one that is no part of the reference."""
        key = (name, one, two, inner)
        found = self._results.get(key)
        if found is None:
            form = self._of(name, one, two, inner)
            taken = form in self.parts and not (
                name in ("add", "sub") and self._joins(form, one, two)
            )
            found = self._results[key] = form if taken else -1
        return found

    def _joins(self, form: int, one: int, two: int) -> bool:
        """Whether terms of a sum became one: a multiple of what was there, or nothing."""
        items = self.forms.items
        return len(items[form]) < len(items[one]) + len(items[two])

    def _of(self, name: str, one: int, two: int, inner: Mask) -> int:
        forms = self.forms
        if name == "add":
            return forms.add(one, two)
        if name == "sub":
            return forms.subtract(one, two)
        if name == "mul":
            return forms.multiply(one, two)
        if name == "div":
            return forms.divide(one, two)
        if name in ("maximum", "minimum"):
            return forms.call(name, *sorted((one, two)))
        return forms.sum(forms.multiply(one, two), inner)

    # Between the device and a block

    def _load(self, number: int, own: ValueClass) -> None:
        for axes, grid, loop in self._splits(own.axes):
            self._enter(
                ValueClass(own.form, axes, Scope.LOOP, grid, loop), Derivation("load", (number,))
            )

    def _splits(self, axes: Axes) -> Iterator[Split]:
        """Every way in which a grid and a loop can split a tensor."""
        for ways in product(*map(self._ways, axes)):
            grid = reduce(or_, (way[1] for way in ways), 0)
            loops = [way[2] for way in ways if way[2]]
            if len(loops) <= 1 and sum(way[1] > 0 for way in ways) <= self.space.grid_axes:
                yield tuple(way[0] for way in ways), grid, sum(loops)

    def _ways(self, axis: Axis) -> list[tuple[Axis, Mask, Mask]]:
        found: list[tuple[Axis, Mask, Mask]] = [(axis, 0, 0)]
        if not axis:
            return found
        first, rest = axis[0], axis[1:]
        shift = label_of(first) * BITS
        part = first >> shift
        if part == WHOLE:
            found.append((((LOOP | REST) << shift, *rest), GRID << shift, 0))
            if self.parts.bound & first:
                found.append((((GRID | REST) << shift, *rest), 0, LOOP << shift))
                found.append(((REST << shift, *rest), GRID << shift, LOOP << shift))
        elif part == GRID:
            found.append(((LEFT << shift, *rest), 0, (GRID ^ LEFT) << shift))
        return found

    def _accumulate(self, number: int, own: ValueClass) -> None:
        still = not own.loop
        for kind in self._accumulators:
            found = self._accumulated(kind, own)
            if found is None:
                continue
            step = Derivation("accumulate", (number,), kind)
            if still and kind != "max":
                self._made(step, Scope.STILL, found, own.grid, 0)
            if not still or kind in ("max", "mean", "rms"):
                self._made(step, Scope.AFTER, found, own.grid, 0)

    def _accumulated(self, kind: str, own: ValueClass) -> LabelledTensor | None:
        forms, axes = self.forms, own.axes
        if kind == "none":
            return LabelledTensor(forms.sum(own.form, own.loop), axes)
        if kind == "max":
            return LabelledTensor(forms.largest(own.form, own.loop), axes)
        if not axes or not axes[-1]:
            return None
        last, row = axes[-1], (*axes[:-1], ROW)
        if kind == "redtox":
            if len(last) < 2:
                return None
            return LabelledTensor(forms.sum(own.form, own.loop | last[0]), (*axes[:-1], last[1:]))
        mask = own.loop | sum(last)
        if kind == "sum":
            return LabelledTensor(forms.sum(own.form, mask), row)
        squared = forms.multiply(own.form, own.form) if kind == "rms" else own.form
        mean = forms.divide(forms.sum(squared, mask), forms.size(mask))
        return LabelledTensor(forms.sqrt(mean) if kind == "rms" else mean, row)

    def _store(self, number: int, own: ValueClass) -> None:
        for axes in self._stored(own):
            found = ValueClass(own.form, axes, Scope.DEVICE, 0, 0)
            self._enter(found, Derivation("store", (number,)))

    def _stored(self, own: ValueClass) -> Iterator[Axes]:
        """Where the blocks' tiles may be put side by side."""
        bits = range(0, own.grid.bit_length(), BITS)
        walked = [GRID << bit for bit in bits if own.grid >> bit & GRID]
        if len(walked) > self.space.grid_axes:
            return
        open_parts: list[Mask] = []
        axes = list(own.axes)
        for part in walked:
            rest = part // GRID * (LOOP | REST)
            at = next((at for at, axis in enumerate(axes) if axis and axis[0] == rest), None)
            if at is None:
                open_parts.append(part)
            else:
                axes[at] = (part | rest, *axes[at][1:])
        if any(not _plain(piece) for axis in axes for piece in axis):
            self.pruned["parts of an index lost"] += 1
            return
        if len(open_parts) > 1:
            self.pruned["partial sums over two indices"] += 1
            return
        for part in open_parts:
            # On another axis it would be the same program with another layout in between
            at = place_of_parts(own.axes) if axes else -1
            if at < 0 or axes[at] != own.axes[at]:
                return
            axes[at] = (part, *axes[at])
        yield tuple(axes)


def place_of_parts(axes: Sequence[Axis]) -> int:
    """The axis along which a grid leaves its partial sums: one of a single element, or the last."""
    return min(range(len(axes)), key=lambda at: (bool(axes[at]), -at))


def unmoved(term: Term) -> Term:
    """What a tensor is before its elements are moved."""
    while term.operator.name in MOVES:
        (term,) = term.arguments
    return term


def _is_view(term: Term) -> bool:
    return term.operator.name in MOVES and unmoved(term).operator is INPUT


def _numbers(reference: NormalFormProgram) -> list[tuple[Term, int]]:
    terms = [term for term in reference.program.terms() if term.operator is LITERAL]
    return [(term, reference.values[term].form) for term in terms]


def _device(value: LabelledTensor) -> ValueClass:
    return ValueClass(value.form, value.axes, Scope.DEVICE, 0, 0)


def _plain(piece: Mask) -> bool:
    part = piece >> label_of(piece) * BITS
    return part in (WHOLE, GRID)
