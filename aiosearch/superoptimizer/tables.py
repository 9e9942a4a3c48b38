"""Everything that can be computed on the way to a reference, and out of what: tables of classes.

A class is a form, the axes it lies along and where it is: in the device's memory, in a block's loop
or behind it. Each is a small number, found once whatever the kernel, the grid or the loop; what is
no part of the reference is not taken in. Programs are then read off the tables, and no step of one
is ever tried in vain twice.
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

from ..tensor import Term
from ..tensor.operator import OPERATORS, Operator
from ..tensor.terms import INPUT, LITERAL
from .formal import ROW, Axes, Axis, Formal, FormalAlgebra, Reference
from .forms import BITS, GRID, LEFT, LOOP, REST, WHOLE, Mask, label_of
from .going import Going, always
from .meeting import Meetings
from .parts import Parts
from .space import Space

REDUCTIONS = ("sum", "max", "mean")
UNORDERED = ("add", "mul", "maximum", "minimum")
MOVES = ("reshape", "transpose", "broadcast")


class Zone(IntEnum):
    """Where a value is."""

    DEVICE = 0
    LOOP = 1
    STILL = 2
    """Behind a loop that splits nothing, and so runs once."""
    AFTER = 3
    """Behind a loop."""


@dataclass(frozen=True, slots=True)
class Step:
    """One way to come by a class: an operator and the classes that it takes."""

    operator: str
    operands: tuple[int, ...]
    detail: str = ""
    """Which accumulator, or the axis of a sum."""


@dataclass(frozen=True, slots=True)
class Class:
    form: int
    axes: Axes
    zone: Zone
    grid: Mask
    """The index parts that the grid walks."""
    loop: Mask
    """The index part that the loop walks."""


Split: TypeAlias = tuple[Axes, Mask, Mask]


class Together(NamedTuple):
    """What pointwise operators make of two forms."""

    results: list[tuple[str, bool, int]]
    """Each an operator, whether the second form is its first operand, and the form it gives."""
    lost: int
    """How many give what is no part of the reference."""


class Tables:
    """All classes within a space that are parts of a reference, and every step between them."""

    def __init__(self, reference: Reference, space: Space, going: Going = always) -> None:
        self.reference = reference
        self.space = space
        self.forms = reference.forms
        self.parts = Parts(self.forms, (value.form for value in reference.values.values()))
        self.classes: list[Class] = []
        self.steps: list[list[Step]] = []
        self.pruned: Counter[str] = Counter()
        self._known: dict[Class, int] = {}
        self._algebra = FormalAlgebra(self.forms, reference.sizes)
        self._alike: dict[Zone, dict[tuple[Axes, Mask], list[int]]] = {zone: {} for zone in Zone}
        self._meetings = Meetings()
        self._walked: list[Mask] = []
        """The index parts that the grid and the loop of each class walk."""
        self._together: dict[tuple[int, int, bool], Together] = {}
        self._results: dict[tuple[str, int, int, Mask], int] = {}
        self._fresh: deque[int] = deque()
        self._accumulators = [
            kind for kind in space.accumulators if kind != "max" or self.parts.largest
        ]
        self._unary = [OPERATORS[name] for name in self._names(1)]
        inside = {*self._names(1), *self._names(2), "load", "store", "accumulate"}
        outside = {*space.kernel, *(inside - {*space.tile}), "store"}
        self._allowed = dict.fromkeys(Zone, inside) | {Zone.DEVICE: outside}
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

    def _target(self, value: Formal) -> int | None:
        """The tensor that an output is, whatever axes of one element it has besides."""
        exact = self._known.get(_device(value))
        if exact is not None:
            return exact
        wanted = [axis for axis in value.axes if axis]
        for number, own in enumerate(self.classes):
            alike = own.zone is Zone.DEVICE and own.form == value.form
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

    def _tensor(self, value: Formal) -> int:
        return self._enter(_device(value), None)

    def _enter(self, found: Class, step: Step | None) -> int:
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

    def _saturate(self, going: Going) -> None:
        while self._fresh:
            # There is no stopping early: what is missing would look as if it could not be
            going(f"computing tables: {len(self.classes):,} values so far")
            self._grow(self._fresh.popleft())

    def _grow(self, number: int) -> None:
        own = self.classes[number]
        self._alike[own.zone].setdefault((own.axes, own.loop), []).append(number)
        if own.zone is Zone.DEVICE:
            self._load(number, own)
        elif own.zone is Zone.LOOP:
            self._accumulate(number, own)
        else:
            self._store(number, own)
        self._apply(number, own)
        self._pair(number, own)

    # Single classes

    def _apply(self, number: int, own: Class) -> None:
        for operator in self._unary:
            if operator.name in REDUCTIONS:
                self._reduce(number, own, operator.name)
                continue
            if operator.name == "rms_norm" and not (own.axes and own.axes[-1]):
                continue
            found = self._meaning(operator, own)
            self._made(Step(operator.name, (number,)), own.zone, found, own.grid, own.loop)
        for place, (_, form) in enumerate(self.numbers):
            self._with_number(number, own, place, form)

    def _with_number(self, number: int, own: Class, place: int, constant: int) -> None:
        for name in ("add", "mul", "sub", "div"):
            for detail, form in (
                (f"right {place}", self._result(name, own.form, constant, 0)),
                (f"left {place}", self._result(name, constant, own.form, 0)),
            ):
                if form < 0:
                    self.pruned["no part of the reference"] += 1
                elif detail.startswith("right") or name in ("sub", "div"):
                    found = Class(form, own.axes, own.zone, own.grid, own.loop)
                    self._enter(found, Step(name, (number,), detail))

    def _meaning(self, operator: Operator, own: Class) -> Formal:
        found: Formal = operator.meaning(self._algebra, Formal(own.form, own.axes))
        return found

    def _reduce(self, number: int, own: Class, name: str) -> None:
        for axis, pieces in enumerate(own.axes):
            if pieces:
                form = self._reduced(name, own.form, sum(pieces))
                axes = (*own.axes[:axis], ROW, *own.axes[axis + 1 :])
                step = Step(name, (number,), str(axis))
                self._made(step, own.zone, Formal(form, axes), own.grid, own.loop)
            if own.zone is Zone.DEVICE and len(pieces) > 1 and name == "sum":
                form = self.forms.sum(own.form, pieces[0])
                axes = (*own.axes[:axis], pieces[1:], *own.axes[axis + 1 :])
                step = Step("fold", (number,), str(axis))
                self._made(step, own.zone, Formal(form, axes), own.grid, own.loop)

    def _reduced(self, name: str, form: int, mask: Mask) -> int:
        if name == "max":
            return self.forms.largest(form, mask)
        total = self.forms.sum(form, mask)
        return total if name == "sum" else self.forms.divide(total, self.forms.size(mask))

    def _made(self, step: Step, zone: Zone, found: Formal, grid: Mask, loop: Mask) -> None:
        if found.form not in self.parts:
            self.pruned["no part of the reference"] += 1
            return
        self._enter(Class(found.form, found.axes, zone, grid, loop), step)

    # Pairs of classes

    def _pair(self, number: int, own: Class) -> None:
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

    def _uncrossed(self, own: Class, axes: Axes, others: list[int]) -> list[int]:
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
            found = Class(form, axes, a.zone, a.grid | b.grid, a.loop | b.loop)
            self._enter(found, Step(name, operands))

    def _of_two(self, a: int, b: int, distinct: bool) -> Together:
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
        return Together(parts, len(results) - len(parts))

    def _product(self, one: int, two: int, axes: Axes, inner: Mask) -> None:
        a, b = self.classes[one], self.classes[two]
        form = self._result("matmul", a.form, b.form, inner)
        if form < 0:
            self.pruned["no part of the reference"] += 1
            return
        found = Class(form, axes, a.zone, a.grid | b.grid, a.loop | b.loop)
        self._enter(found, Step("matmul", (one, two)))

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

    def _load(self, number: int, own: Class) -> None:
        for axes, grid, loop in self._splits(own.axes):
            self._enter(Class(own.form, axes, Zone.LOOP, grid, loop), Step("load", (number,)))

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

    def _accumulate(self, number: int, own: Class) -> None:
        still = not own.loop
        for kind in self._accumulators:
            found = self._accumulated(kind, own)
            if found is None:
                continue
            step = Step("accumulate", (number,), kind)
            if still and kind != "max":
                self._made(step, Zone.STILL, found, own.grid, 0)
            if not still or kind in ("max", "mean", "rms"):
                self._made(step, Zone.AFTER, found, own.grid, 0)

    def _accumulated(self, kind: str, own: Class) -> Formal | None:
        forms, axes = self.forms, own.axes
        if kind == "none":
            return Formal(forms.sum(own.form, own.loop), axes)
        if kind == "max":
            return Formal(forms.largest(own.form, own.loop), axes)
        if not axes or not axes[-1]:
            return None
        last, row = axes[-1], (*axes[:-1], ROW)
        if kind == "redtox":
            if len(last) < 2:
                return None
            return Formal(forms.sum(own.form, own.loop | last[0]), (*axes[:-1], last[1:]))
        mask = own.loop | sum(last)
        if kind == "sum":
            return Formal(forms.sum(own.form, mask), row)
        squared = forms.multiply(own.form, own.form) if kind == "rms" else own.form
        mean = forms.divide(forms.sum(squared, mask), forms.size(mask))
        return Formal(forms.sqrt(mean) if kind == "rms" else mean, row)

    def _store(self, number: int, own: Class) -> None:
        for axes in self._stored(own):
            found = Class(own.form, axes, Zone.DEVICE, 0, 0)
            self._enter(found, Step("store", (number,)))

    def _stored(self, own: Class) -> Iterator[Axes]:
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


def _numbers(reference: Reference) -> list[tuple[Term, int]]:
    terms = [term for term in reference.program.terms() if term.operator is LITERAL]
    return [(term, reference.values[term].form) for term in terms]


def _device(value: Formal) -> Class:
    return Class(value.form, value.axes, Zone.DEVICE, 0, 0)


def _plain(piece: Mask) -> bool:
    part = piece >> label_of(piece) * BITS
    return part in (WHOLE, GRID)
