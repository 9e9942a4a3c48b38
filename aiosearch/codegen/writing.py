"""One stage's expression: what of its value is written in place, and what is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..tensor.types import DType
from .expressions import applied, converted, of_whole_literals, settled, simple, within
from .ir import (
    Affine,
    Apply,
    Constant,
    Count,
    Expression,
    Fold,
    Index,
    Load,
    Operation,
    Position,
    index,
    indices,
    used,
    walk,
)
from .moves import Move, Places, met, replaced
from .positions import shifted
from .uses import DEAR, Uses
from .values import (
    Cast,
    Folding,
    Given,
    Joining,
    Kept,
    Number,
    Padding,
    Pointwise,
    Product,
    Ramp,
    Value,
)


class Shelf(Protocol):
    """Where values are kept."""

    def __contains__(self, value: Value) -> bool:
        """Whether a value has its buffer already."""

    def load(self, value: Value, at: Places) -> Load:
        """An element of a value, which is kept from now on."""


@dataclass(slots=True)
class Body:
    """The stage being written: the indices that it runs along."""

    running: set[Index]
    folded: list[Index] = field(default_factory=list)
    fold: Fold = Fold.NONE


class Writer:
    """Writes the expressions of stages, and has kept what they are to load."""

    def __init__(self, uses: Uses, shelf: Shelf, fresh: Callable[[int], Index]) -> None:
        self._uses = uses
        self._shelf = shelf
        self._fresh = fresh

    def write(self, value: Value, at: Places) -> tuple[Expression, Body]:
        """What a value's stage computes for one place, and what it is folded over."""
        body = Body({one for place in at for one in indices(place)})
        return self._top(value, at, body), body

    def _top(self, value: Value, at: Places, body: Body) -> Expression:
        """All of a stage: a fold, if the value is nothing but moved elements of one."""
        match value.what:
            case Folding():
                return self._folded(value, value.what, at, body)
            case Kept():
                return self._under(value.arguments[0], at, body)
            case Move():
                return self._under(value.arguments[0], value.what.places(at), body)
        return self._written(value, at, body)

    def _under(self, value: Value, at: Places, body: Body) -> Expression:
        fold, what, places = self._fold(value, at)
        if what is not None and _covers(places, body):
            return self._folded(fold, what, places, body)
        return self._value(value, at, body)

    def _fold(self, value: Value, at: Places) -> tuple[Value, Folding | None, Places]:
        """The fold that a value consists of, where nothing else is made of it."""
        while isinstance(value.what, Move) and value not in self._shelf:
            if not self._uses.moves(value) and not self._uses.once(value):
                break
            at, value = value.what.places(at), value.arguments[0]
        if isinstance(value.what, Folding) and self._uses.once(value) and value not in self._shelf:
            return value, value.what, at
        return value, None, at

    def _folded(self, value: Value, what: Folding, at: Places, body: Body) -> Expression:
        body.fold, inner = what.fold, list(at)
        for axis in what.axes:
            one = self._fresh(value.arguments[0].shape[axis])
            body.folded.append(one)
            inner[axis] = index(one)
        body.running.update(body.folded)
        return self._inside(value.arguments[0], tuple(inner), body)

    def _inside(self, value: Value, at: Places, body: Body) -> Expression:
        """What is folded; a fold of a fold is one over both."""
        if isinstance(value.what, Product):
            operands = [self._operand(one, met(one.shape, at), body) for one in value.arguments]
            return applied(Operation.MULTIPLY, *operands)
        fold, what, places = self._fold(value, at)
        if what is not None and what.fold is body.fold and _covers(places, body):
            return self._folded(fold, what, places, body)
        return self._value(value, at, body)

    def _operand(self, value: Value, at: Places, body: Body) -> Expression:
        """A product's, which is prepared in a stage of its own where it is met more than once."""
        source, places = value, at
        while self._uses.moves(source):
            assert isinstance(source.what, Move)
            places, source = source.what.places(places), source.arguments[0]
        rounds = isinstance(source.what, Cast) and self._uses.feeds(source)
        if rounds and not _covers(places, body):
            return self._shelf.load(source, places)
        found = self._value(value, at, body)
        if simple(found) or body.running <= set(used(found)):
            return found
        value, at = source, places
        if isinstance(value.what, Joining) and _single(at[value.what.axis]):
            return self._joined(value.arguments, value.what.axis, at, body, self._operand)
        return self._shelf.load(value, at)

    def _value(self, value: Value, at: Places, body: Body) -> Expression:
        if not value.size:
            return Constant(0.0)
        if value in self._shelf or value in self._uses.kept:
            return self._shelf.load(value, at)
        if body.folded and isinstance(value.what, Pointwise) and self._repeats(value, at, body):
            return self._shelf.load(value, at)
        return self._written(value, at, body)

    def _repeats(self, value: Value, at: Places, body: Body) -> bool:
        """Whether a fold would compute the same costly value again and again."""
        found = self._written(value, at, Body(body.running))
        return any(map(_dear, walk(found))) and not body.running <= set(used(found))

    def _written(self, value: Value, at: Places, body: Body) -> Expression:
        match value.what:
            case Given(buffer):
                return Load(buffer, at)
            case Number(number):
                return Constant(number)
            case Ramp(axis):
                return Count(at[axis])
            case Pointwise(operation):
                return _applied(operation, value, self._operands(value, at, body))
            case Product():
                return applied(Operation.MULTIPLY, *self._operands(value, at, body))
            case Cast():
                (found,) = self._operands(value, at, body)
                return converted(found, value.arguments[0].dtype, value.dtype)
            case Padding():
                return self._padded(value.arguments[0], value.what, at, body)
            case Joining(axis):
                return self._joined(value.arguments, axis, at, body, self._value)
            case Move():
                return self._value(value.arguments[0], value.what.places(at), body)
        raise TypeError("a value that is always kept is written only where it is filled")

    def _operands(self, value: Value, at: Places, body: Body) -> Iterator[Expression]:
        return (self._value(one, met(one.shape, at), body) for one in value.arguments)

    def _padded(self, value: Value, what: Padding, at: Places, body: Body) -> Expression:
        place = shifted(at[what.axis], -what.low)
        inside = self._value(value, replaced(at, what.axis, place), body)
        return within([(place, 0, value.shape[what.axis])], inside, Constant(what.fill))

    def _joined(
        self,
        values: Sequence[Value],
        axis: int,
        at: Places,
        body: Body,
        write: Callable[[Value, Places, Body], Expression],
    ) -> Expression:
        """The first one where it reaches, else those behind it."""
        first, *others = values
        size = first.shape[axis]
        if not others:
            return write(first, at, body)
        behind = replaced(at, axis, shifted(at[axis], -size))
        otherwise = self._joined(others, axis, behind, body, write)
        inside = write(first, at, body) if size else Constant(0.0)
        return within([(at[axis], 0, size)], inside, otherwise)


def _applied(operation: Operation, value: Value, given: Iterable[Expression]) -> Expression:
    """A function of values, where what is whole may wrap: numbers too, when it runs."""
    operands = _meeting(value, given)
    found = applied(operation, *operands)
    beyond = isinstance(found, Constant) and not of_whole_literals(found)
    if beyond and value.dtype is DType.I32 and all(map(of_whole_literals, operands)):
        return Apply(operation, tuple(map(settled, operands)))
    return found


def _meeting(value: Value, operands: Iterable[Expression]) -> list[Expression]:
    """Operands; of literals is made what whole numbers meet as such, and what floats meet."""
    whole = any(one.dtype is DType.I32 for one in value.arguments)
    return [
        settled(one) if whole and not isinstance(one, Constant) and of_whole_literals(one) else one
        for one in operands
    ]


def _covers(at: Places, body: Body) -> bool:
    """Whether nothing is computed again by a fold in the stage that is at such places."""
    return body.running <= {one for place in at for one in indices(place)}


def _dear(value: Expression) -> bool:
    match value:
        case Apply(operation=Operation.DIVIDE, arguments=(_, Constant())):
            return False
        case Apply():
            return value.operation in DEAR
    return False


def _single(position: Position) -> bool:
    """Whether a place depends on one index, by which a fold can be cut."""
    return isinstance(position, Affine) and [factor for _, factor in position.terms] == [1]
