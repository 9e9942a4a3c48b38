"""The steps that there are from some values to another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, product
from typing import Any, TypeAlias

from ...tensor.operator import find
from ...tensor.types import Shape
from .ingredients import Amounts, Ingredients
from .steps import Call, Pairs, Step, shaped

LONGEST = 4
"""Steps towards one value."""

Meeting: TypeAlias = tuple[Pairs, tuple[int, ...]]
Spelled: TypeAlias = tuple[str, ...]
"""A shape, whatever the order of its axes."""

_SQUARES = ("mul", "matmul")
"""What is worth doing to a value and itself."""
_INGREDIENTS: Any = Ingredients()


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What has to be known of a value to go on from it."""

    shape: Shape
    """In named sizes."""
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class Choices:
    """Steps that may lead to one value."""

    calls: tuple[Call, ...]
    wanted: Amounts
    """What the value is made of: nothing on the way to it is made of more."""
    shapes: frozenset[Spelled]
    """Those in which values of more axes than their operands come about."""
    _met: dict[tuple[Call, tuple[Shape, ...]], list[Meeting]] = field(default_factory=dict)

    def after(self, before: Sequence[Step], values: Sequence[Given]) -> Iterator[Step]:
        """The steps that may follow, none twice in whatever order, each of use in the end.

        The values are what there is, the results of the steps before last.
        """
        leaves = len(values) - len(before)
        waiting = {leaves + number for number in unused(before, leaves)}
        for number, call in enumerate(self.calls):
            for operands in _operands(call, len(values)):
                if len(waiting.difference(operands)) >= LONGEST - len(before):
                    continue
                fresh = not before or len(values) - 1 in operands
                if fresh or (number, operands) >= (before[-1].call, before[-1].operands):
                    for step in self._steps(number, call, operands, values):
                        if fresh or step > before[-1]:
                            yield step

    def _steps(
        self, number: int, call: Call, operands: tuple[int, ...], values: Sequence[Given]
    ) -> Iterator[Step]:
        chosen = [values[one] for one in operands]
        if made_of(call, [one.amounts for one in chosen]).within(self.wanted):
            shapes = tuple(one.shape for one in chosen)
            if (call, shapes) not in self._met:
                self._met[call, shapes] = list(self._meetings(call, shapes))
            for pairs, axes in self._met[call, shapes]:
                yield Step(number, operands, pairs, axes)

    def _meetings(self, call: Call, shapes: tuple[Shape, ...]) -> Iterator[Meeting]:
        (x, *others), pointwise = shapes, find(call.operator).pointwise
        if others:
            yield from (one for one in _met(call, x, *others) if self._fits(call, shapes, *one))
        elif pointwise:
            yield (), ()
        elif call.operator == "diagonal":
            pairs = combinations(range(len(x)), 2)
            yield from (((), (one, other)) for one, other in pairs if x[one] == x[other])
        elif call.operator == "slice":
            yield from (((), (axis,)) for axis, size in enumerate(x) if size == call.size)
        else:
            yield from (((), axes) for axes in _some(range(len(x))))

    def _fits(
        self, call: Call, shapes: Sequence[Shape], pairs: Pairs, axes: tuple[int, ...]
    ) -> bool:
        found = shaped(call, Step(0, (0, 1), pairs, axes), shapes)
        return len(found) <= max(map(len, shapes)) or spelled(found) in self.shapes


def spelled(shape: Shape) -> Spelled:
    return tuple(sorted(map(str, shape)))


def unused(steps: Sequence[Step], leaves: int) -> set[int]:
    """The steps, by their numbers, whose results no other step takes."""
    used = {one - leaves for step in steps for one in step.operands}
    return {number for number in range(len(steps)) if number not in used}


def made_of(call: Call, operands: Sequence[Amounts]) -> Amounts:
    """What the result of a call is made of."""
    if call.operator == "matmul":
        found: Amounts = _INGREDIENTS.multiply(*operands)
    elif find(call.operator).pointwise:
        found = find(call.operator).meaning(_INGREDIENTS, *operands, **dict(call.given))
    elif call.operator in ("max", "min"):
        found = _INGREDIENTS.largest(operands[0], ())
    else:
        (found,) = operands
    return found


def _operands(call: Call, count: int) -> Iterator[tuple[int, ...]]:
    operator = find(call.operator)
    if operator.arity == 1:
        yield from ((one,) for one in range(count))
        return
    for one, other in product(range(count), repeat=2):
        if one < other or (one != other and not operator.commutative) or operator.name in _SQUARES:
            yield one, other


def _met(call: Call, x: Shape, y: Shape) -> Iterator[Meeting]:
    for pairs in _pairs(x, y):
        if call.operator == "matmul":
            yield from ((pairs, axes) for axes in _some([one for one, _ in pairs]))
        else:
            yield pairs, ()


def _pairs(x: Shape, y: Shape, start: int = 0) -> Iterator[Pairs]:
    """Every way in which axes of equal sizes meet, each at most one."""
    yield ()
    for one in range(start, len(x)):
        for other, size in enumerate(y):
            if size == x[one]:
                for rest in _pairs(x, y, one + 1):
                    if all(other != taken for _, taken in rest):
                        yield ((one, other), *rest)


def _some(axes: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Every choice of at least one."""
    return chain.from_iterable(combinations(axes, count + 1) for count in range(len(axes)))
