"""The operator applications that enumeration may take, as terms or as arrays, and the operators
worth applying.

The steps that there are from some values to another.

The operators that steps towards a value may apply.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, product
from math import prod
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from ...capture.jax_types import PyTree
from ...tensor import Term, apply
from ...tensor.algebra import Algebra
from ...tensor.operator import find
from ...tensor.sizes import Dim
from ...tensor.types import Shape
from .fingerprints import Amounts, Ingredients
from .terms import named

V = TypeVar("V")
Pairs: TypeAlias = tuple[tuple[int, int], ...]


class OperatorCall(Struct, frozen=True):
    """An operator, with the parameters that are no axes."""

    operator: str
    parameters: tuple[tuple[str, Any], ...] = ()
    """In named sizes."""
    size: Dim | None = None
    """Of the axes that a slice is taken of."""


class OperatorStep(Struct, frozen=True, order=True, array_like=True):
    """A call on values, by their numbers. Values have no axes of size one."""

    call: int
    operands: tuple[int, ...]
    pairs: Pairs = ()
    """Which axis of the first operand meets which of the second; others are repeated."""
    axes: tuple[int, ...] = ()
    """The axes of the first operand that are reduced or cut; or the two that a diagonal is of."""


class StepDomain(Protocol[V]):
    """Where steps are taken."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """What each named size is there."""

    def apply(self, name: str, *operands: V, **parameters: Any) -> V: ...

    def shape(self, x: V) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Terms:
    """Terms, without moves of elements that change nothing."""

    sizes: Mapping[str, int]

    def apply(self, name: str, *operands: Term, **parameters: Any) -> Term:
        x = operands[0]
        if name == "reshape":
            source = x.arguments[0] if named(x, "reshape") else x
            return (
                source if source.shape == parameters["shape"] else apply(name, source, **parameters)
            )
        if name == "transpose" and parameters["axes"] == tuple(range(len(parameters["axes"]))):
            return x
        return apply(name, *operands, **parameters)

    def shape(self, x: Term) -> tuple[int, ...]:
        return x.shape  # type: ignore[return-value]


@dataclass(frozen=True)
class Meanings:
    """What operators mean in an algebra."""

    sizes: Mapping[str, int]
    algebra: Algebra[Any]

    def apply(self, name: str, *operands: V, **parameters: Any) -> PyTree:
        return find(name).meaning(self.algebra, *operands, **parameters)

    def shape(self, x: Any) -> tuple[int, ...]:
        return self.algebra.shape(x)  # type: ignore[return-value]


def apply_step(
    world: StepDomain[V], call: OperatorCall, step: OperatorStep, operands: Sequence[V]
) -> V:
    """The step's result; raises ShapeError where an operator refuses it."""
    if call.operator == "matmul":
        return _contracted(world, step, *operands)
    if call.operator == "diagonal":
        lead = _remaining_axes(len(world.shape(operands[0])), step.axes)
        return world.apply("diagonal", _ordered(world, operands[0], [*lead, *step.axes]))
    if call.operator == "slice":
        return _sliced(world, call, step, operands[0])
    if step.axes:
        return world.apply(call.operator, operands[0], axes=step.axes, keep=False)
    met = _aligned(world, step, *operands) if len(operands) == 2 else operands
    return world.apply(call.operator, *met, **dict(call.parameters))


def step_shape(call: OperatorCall, step: OperatorStep, shapes: Sequence[Shape]) -> Shape:
    """The shape of a step's result."""
    first, gone = shapes[0], set(step.axes)
    if call.operator == "diagonal":
        return (*(size for axis, size in enumerate(first) if axis not in gone), first[step.axes[0]])
    if call.operator == "slice":
        (axis,), parameters = step.axes, dict(call.parameters)
        length = parameters["stop"] - parameters["start"]
        remaining = (length,) if length != 1 else ()
        return (*first[:axis], *remaining, *first[axis + 1 :])
    sizes = [size for axis, size in enumerate(first) if axis not in gone]
    if len(shapes) == 1:
        return tuple(sizes)
    if call.operator == "matmul":
        batch = [axis for axis, _ in step.pairs if axis not in gone]
        free = _remaining_axes(len(first), [axis for axis, _ in step.pairs])
        sizes = [first[axis] for axis in (*batch, *free)]
    added = _remaining_axes(len(shapes[1]), [axis for _, axis in step.pairs])
    return (*sizes, *(shapes[1][axis] for axis in added))


def _sliced(world: StepDomain[V], call: OperatorCall, step: OperatorStep, x: V) -> V:
    parameters = dict(call.parameters)
    ends = {name: n if isinstance(n, int) else n.at(world.sizes) for name, n in parameters.items()}
    (axis,) = step.axes
    piece = world.apply("slice", x, axis=axis, **ends)
    if parameters["stop"] - parameters["start"] != 1:
        return piece
    shape = world.shape(piece)
    return world.apply("reshape", piece, shape=(*shape[:axis], *shape[axis + 1 :]))


def _remaining_axes(rank: int, axes: Iterable[int]) -> tuple[int, ...]:
    chosen = set(axes)
    return tuple(axis for axis in range(rank) if axis not in chosen)


def _ordered(world: StepDomain[V], x: V, axes: Sequence[int]) -> V:
    return world.apply("transpose", x, axes=tuple(axes))


def _aligned(world: StepDomain[V], step: OperatorStep, x: V, y: V) -> tuple[V, V]:
    """Both with the axes of the first, and behind them those that only the second has."""
    ours, theirs = world.shape(x), world.shape(y)
    if not ours or not theirs:
        return x, y
    meets = dict(step.pairs)
    added = _remaining_axes(len(theirs), meets.values())
    turned = _ordered(world, y, [*(meets[axis] for axis in sorted(meets)), *added])
    repeated = [theirs[meets[axis]] if axis in meets else 1 for axis in range(len(ours))]
    wide = world.apply("reshape", x, shape=(*ours, *(1 for _ in added)))
    return wide, world.apply(
        "reshape", turned, shape=(*repeated, *(theirs[axis] for axis in added))
    )


def _contracted(world: StepDomain[V], step: OperatorStep, x: V, y: V) -> V:
    """A product of matrices; or a sum of products, where there is neither row nor column."""
    ours, theirs = world.shape(x), world.shape(y)
    batch = [pair for pair in step.pairs if pair[0] not in step.axes]
    inner = [pair for pair in step.pairs if pair[0] in step.axes]
    rows = _remaining_axes(len(ours), [axis for axis, _ in step.pairs])
    columns = _remaining_axes(len(theirs), [axis for _, axis in step.pairs])
    if not rows and not columns:
        product = world.apply("mul", *_aligned(world, step, x, y))
        return world.apply("sum", product, axes=step.axes, keep=False)
    lead = tuple(ours[axis] for axis, _ in batch)
    length = prod(ours[axis] for axis, _ in inner)
    height, width = (ours[axis] for axis in rows), (theirs[axis] for axis in columns)
    left = _ordered(world, x, [*(a for a, _ in batch), *rows, *(a for a, _ in inner)])
    right = _ordered(world, y, [*(b for _, b in batch), *(b for _, b in inner), *columns])
    contracted = world.apply(
        "matmul",
        world.apply("reshape", left, shape=(*lead, prod(ours[a] for a in rows), length)),
        world.apply("reshape", right, shape=(*lead, length, prod(theirs[b] for b in columns))),
    )
    return world.apply("reshape", contracted, shape=(*lead, *height, *width))


LONGEST = 4
"""Steps towards one value."""

Meeting: TypeAlias = tuple[Pairs, tuple[int, ...]]
Spelled: TypeAlias = tuple[str, ...]
"""A shape, whatever the order of its axes."""

_SQUARES = ("mul", "matmul")
"""What is worth doing to a value and itself."""
_INGREDIENTS: Any = Ingredients()


@dataclass(frozen=True, slots=True, eq=False)
class KnownValue:
    """What has to be known of a value to go on from it."""

    shape: Shape
    """In named sizes."""
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class StepChoices:
    """Steps that may lead to one value."""

    calls: tuple[OperatorCall, ...]
    limit: Amounts
    """What the value is made of: nothing on the way to it is made of more."""
    shapes: frozenset[Spelled]
    """Those in which values of more axes than their operands come about."""
    _met: dict[tuple[OperatorCall, tuple[Shape, ...]], list[Meeting]] = field(default_factory=dict)

    def after(
        self, before: Sequence[OperatorStep], values: Sequence[KnownValue]
    ) -> Iterator[OperatorStep]:
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
        self,
        number: int,
        call: OperatorCall,
        operands: tuple[int, ...],
        values: Sequence[KnownValue],
    ) -> Iterator[OperatorStep]:
        chosen = [values[operand] for operand in operands]
        if made_of(call, [operand.amounts for operand in chosen]).within(self.limit):
            shapes = tuple(operand.shape for operand in chosen)
            if (call, shapes) not in self._met:
                self._met[call, shapes] = list(self._meetings(call, shapes))
            for pairs, axes in self._met[call, shapes]:
                yield OperatorStep(number, operands, pairs, axes)

    def _meetings(self, call: OperatorCall, shapes: tuple[Shape, ...]) -> Iterator[Meeting]:
        (x, *tail), pointwise = shapes, find(call.operator).pointwise
        if tail:
            yield from (
                meeting for meeting in _met(call, x, *tail) if self._fits(call, shapes, *meeting)
            )
        elif pointwise:
            yield (), ()
        elif call.operator == "diagonal":
            pairs = combinations(range(len(x)), 2)
            yield from (((), (first, second)) for first, second in pairs if x[first] == x[second])
        elif call.operator == "slice":
            yield from (((), (axis,)) for axis, size in enumerate(x) if size == call.size)
        else:
            yield from (((), axes) for axes in _nonempty_subsets(range(len(x))))

    def _fits(
        self, call: OperatorCall, shapes: Sequence[Shape], pairs: Pairs, axes: tuple[int, ...]
    ) -> bool:
        shape = step_shape(call, OperatorStep(0, (0, 1), pairs, axes), shapes)
        return len(shape) <= max(map(len, shapes)) or spelled(shape) in self.shapes


def spelled(shape: Shape) -> Spelled:
    return tuple(sorted(map(str, shape)))


def unused(steps: Sequence[OperatorStep], leaves: int) -> set[int]:
    """The steps, by their numbers, whose results no other step takes."""
    used = {operand - leaves for step in steps for operand in step.operands}
    return {number for number in range(len(steps)) if number not in used}


def made_of(call: OperatorCall, operands: Sequence[Amounts]) -> Amounts:
    """What the result of a call is made of."""
    if call.operator == "matmul":
        amounts: Amounts = _INGREDIENTS.multiply(*operands)
    elif find(call.operator).pointwise:
        amounts = find(call.operator).meaning(_INGREDIENTS, *operands, **dict(call.parameters))
    elif call.operator in ("max", "min"):
        amounts = _INGREDIENTS.largest(operands[0], ())
    else:
        (amounts,) = operands
    return amounts


def _operands(call: OperatorCall, count: int) -> Iterator[tuple[int, ...]]:
    operator = find(call.operator)
    if operator.arity == 1:
        yield from ((first,) for first in range(count))
        return
    for first, second in product(range(count), repeat=2):
        if (
            first < second
            or (first != second and not operator.commutative)
            or operator.name in _SQUARES
        ):
            yield first, second


def _met(call: OperatorCall, x: Shape, y: Shape) -> Iterator[Meeting]:
    for pairs in _pairs(x, y):
        if call.operator == "matmul":
            yield from ((pairs, axes) for axes in _nonempty_subsets([axis for axis, _ in pairs]))
        else:
            yield pairs, ()


def _pairs(x: Shape, y: Shape, start: int = 0) -> Iterator[Pairs]:
    """Every way in which axes of equal sizes meet, each at most one."""
    yield ()
    for axis in range(start, len(x)):
        for partner, size in enumerate(y):
            if size == x[axis]:
                for tail in _pairs(x, y, axis + 1):
                    if all(partner != taken_axis for _, taken_axis in tail):
                        yield ((axis, partner), *tail)


def _nonempty_subsets(axes: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Every choice of at least one."""
    return chain.from_iterable(combinations(axes, count + 1) for count in range(len(axes)))


_ALWAYS = ("matmul", "mul", "sum")
_BRINGS: Mapping[str, tuple[str, ...]] = {
    "add": ("sub",),
    "exp": ("add", "sub", "sigmoid"),
    "log": ("div",),
    "neg": ("sub",),
    "power": ("square",),
    "reciprocal": ("div",),
    "rsqrt": ("sqrt", "div"),
    "select": ("add",),
    "sub": ("add",),
}
"""Operators that others may turn into."""


def vocabulary(terms: Iterable[tuple[Term, Term]]) -> tuple[OperatorCall, ...]:
    """What terms, each given in named sizes too, are made with, and what that may turn into."""
    calls = set(map(OperatorCall, _ALWAYS))
    for term, sized in terms:
        calls.update(map(OperatorCall, _BRINGS.get(term.operator.name, ())))
        calls.update(_calls(term, sized))
    return tuple(sorted(calls, key=repr))


def _calls(term: Term, sized: Term) -> Iterator[OperatorCall]:
    operator = term.operator
    if operator.pointwise and operator.arity in (1, 2):
        yield OperatorCall(operator.name, term.parameters)
    elif named(term, "sum", "mean", "max", "min", "diagonal"):
        yield OperatorCall(operator.name)
    elif named(term, "slice") and term.parameter("step") == 1:
        parameters = tuple(parameter for parameter in sized.parameters if parameter[0] != "axis")
        yield OperatorCall("slice", parameters, sized.arguments[0].shape[term.parameter("axis")])
