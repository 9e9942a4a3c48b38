"""The tables of a search, looked up by step; and why there is no such step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from testkit.superoptimizer.index_layout import OutsideError
from testkit.superoptimizer.recipes import Reduced

from aiosearch.superoptimizer.algebra.normal_form import BITS, REST
from aiosearch.superoptimizer.derive.derivations import (
    REDUCTIONS,
    UNORDERED,
    Derivation,
    DerivationGraph,
    Scope,
    ValueClass,
)
from aiosearch.superoptimizer.enumeration.block_graphs import DerivedBlockGraph

Key: TypeAlias = tuple[str, tuple[int, ...], str]


class MissedError(Exception):
    """Something that the search should have; the message says what."""


class Lookup:
    """The classes and steps of tables."""

    def __init__(self, tables: DerivationGraph) -> None:
        self.tables = tables
        self._numbers = {own: number for number, own in enumerate(tables.classes)}
        self._made: dict[Key, list[int]] = {}
        for number, steps in enumerate(tables.steps):
            for step in steps:
                self._made.setdefault(key(step), []).append(number)

    def number(self, own: ValueClass) -> int:
        """The number of a class."""
        if own not in self._numbers:
            raise MissedError(f"the class {own}")
        return self._numbers[own]

    def has(self, step: Derivation) -> bool:
        return key(step) in self._made

    def after(self, step: Derivation) -> list[int]:
        """The classes that a step leads to; an accumulator may lead to two."""
        found = self._made.get(key(step))
        if found is None:
            raise self._missing(step)
        return found

    def step(self, recipe: Reduced, operands: tuple[int, ...]) -> Derivation:
        """An operator with its axis, where it reduces one."""
        if not recipe.mask:
            return Derivation(recipe.operator, operands, self._number(recipe))
        adds = recipe.operator in ("sum", "fold")
        axes = self.tables.classes[operands[0]].axes
        for at, axis in enumerate(axes):
            if sum(axis) == recipe.mask:
                return Derivation("sum" if adds else recipe.operator, operands, str(at))
            if axis and axis[0] == recipe.mask and adds:
                return Derivation("fold", operands, str(at))
        raise OutsideError("a reduction of something between")

    def _number(self, recipe: Reduced) -> str:
        """Which number of the reference it takes, and on which side."""
        for place, (number, _) in enumerate(self.tables.numbers):
            if number in recipe.operands:
                left = number is recipe.operands[0] and recipe.operator in ("sub", "div")
                return f"{'left' if left else 'right'} {place}"
        return ""

    def _missing(self, step: Derivation) -> Exception:
        tile = self.tables.classes[step.operands[0]]
        within = tile.zone is not Scope.DEVICE
        if within and step.operator in REDUCTIONS and int(step.detail) != len(tile.axes) - 1:
            return OutsideError("a reduction in a block over another axis than the last")
        if "max" in (step.operator, step.detail) and not self.tables.parts.largest:
            return OutsideError("a maximum, which the reference has not")
        if within and step.operator != "accumulate" and self._unadded(step):
            return OutsideError("partial sums used before they are added up")
        if step.operator in ("add", "sub") and not step.detail and self._cancels(step):
            return OutsideError("terms that cancel or become one")
        if step.operator in ("mul", "div") and not step.detail and self._divides(step):
            return OutsideError("a quotient that only divides")
        return MissedError(f"the step {step}")

    def _unadded(self, step: Derivation) -> bool:
        """Whether it takes partial sums as if they were whole."""
        tiles = [self.tables.classes[one] for one in step.operands]
        pieces = [piece for tile in tiles for axis in tile.axes for piece in axis]
        return any(not piece >> (piece.bit_length() - 1) // BITS * BITS & REST for piece in pieces)

    def _cancels(self, step: Derivation) -> bool:
        forms = self.tables.forms
        one, two = (self.tables.classes[number].form for number in step.operands)
        found = forms.add(one, two) if step.operator == "add" else forms.subtract(one, two)
        return len(forms.items[found]) < len(forms.items[one]) + len(forms.items[two])

    def _divides(self, step: Derivation) -> bool:
        """Whether it is of use below a line only: x / (y / z) for x * z / y."""
        forms = self.tables.forms
        one, two = (self.tables.classes[number].form for number in step.operands)
        found = forms.multiply(one, two) if step.operator == "mul" else forms.divide(one, two)
        return forms.inverse(found) in self.tables.parts


def key(step: Derivation) -> Key:
    """A step, whatever the order of what may stand in any order."""
    operands = step.operands
    if step.operator in UNORDERED:
        operands = tuple(sorted(operands))
    return step.operator, operands, step.detail


def spelled(graph: DerivedBlockGraph) -> object:
    """A block graph, whatever the order of its steps and outputs."""
    steps = frozenset((number, key(step)) for number, step in graph.steps)
    return frozenset(graph.outputs), steps


def cut(graph: DerivedBlockGraph, outputs: Iterable[int]) -> DerivedBlockGraph:
    """What some tiles need of a block graph."""
    steps = dict(graph.steps)
    stack, seen = [*outputs], set()
    while stack:
        number = stack.pop()
        if number not in seen:
            seen.add(number)
            stack += steps[number].operands if steps[number].operator != "load" else ()
    kept = tuple((number, step) for number, step in graph.steps if number in seen)
    return DerivedBlockGraph(tuple(outputs), kept)
