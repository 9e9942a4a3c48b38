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
    given: tuple[tuple[str, Any], ...] = ()
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

    def apply(self, name: str, *operands: V, **given: Any) -> V: ...

    def shape(self, x: V) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Terms:
    """Terms, without moves of elements that change nothing."""

    sizes: Mapping[str, int]

    def apply(self, name: str, *operands: Term, **given: Any) -> Term:
        x = operands[0]
        if name == "reshape":
            source = x.arguments[0] if named(x, "reshape") else x
            return source if source.shape == given["shape"] else apply(name, source, **given)
        if name == "transpose" and given["axes"] == tuple(range(len(given["axes"]))):
            return x
        return apply(name, *operands, **given)

    def shape(self, x: Term) -> tuple[int, ...]:
        return x.shape  # type: ignore[return-value]


@dataclass(frozen=True)
class Meanings:
    """What operators mean in an algebra."""

    sizes: Mapping[str, int]
    algebra: Algebra[Any]

    def apply(self, name: str, *operands: Any, **given: Any) -> Any:
        return find(name).meaning(self.algebra, *operands, **given)

    def shape(self, x: Any) -> tuple[int, ...]:
        return self.algebra.shape(x)  # type: ignore[return-value]


def apply_step(
    world: StepDomain[V], call: OperatorCall, step: OperatorStep, operands: Sequence[V]
) -> V:
    """The step's result; raises ShapeError where an operator refuses it."""
    if call.operator == "matmul":
        return _contracted(world, step, *operands)
    if call.operator == "diagonal":
        rest = _others(len(world.shape(operands[0])), step.axes)
        return world.apply("diagonal", _ordered(world, operands[0], [*rest, *step.axes]))
    if call.operator == "slice":
        return _cut(world, call, step, operands[0])
    if step.axes:
        return world.apply(call.operator, operands[0], axes=step.axes, keep=False)
    met = _aligned(world, step, *operands) if len(operands) == 2 else operands
    return world.apply(call.operator, *met, **dict(call.given))


def step_shape(call: OperatorCall, step: OperatorStep, shapes: Sequence[Shape]) -> Shape:
    """The shape of a step's result."""
    first, gone = shapes[0], set(step.axes)
    if call.operator == "diagonal":
        return (*(size for axis, size in enumerate(first) if axis not in gone), first[step.axes[0]])
    if call.operator == "slice":
        (axis,), given = step.axes, dict(call.given)
        length = given["stop"] - given["start"]
        kept = (length,) if length != 1 else ()
        return (*first[:axis], *kept, *first[axis + 1 :])
    own = [size for axis, size in enumerate(first) if axis not in gone]
    if len(shapes) == 1:
        return tuple(own)
    if call.operator == "matmul":
        batch = [one for one, _ in step.pairs if one not in gone]
        free = _others(len(first), [one for one, _ in step.pairs])
        own = [first[axis] for axis in (*batch, *free)]
    added = _others(len(shapes[1]), [other for _, other in step.pairs])
    return (*own, *(shapes[1][axis] for axis in added))


def _cut(world: StepDomain[V], call: OperatorCall, step: OperatorStep, x: V) -> V:
    given = dict(call.given)
    ends = {name: n if isinstance(n, int) else n.at(world.sizes) for name, n in given.items()}
    (axis,) = step.axes
    found = world.apply("slice", x, axis=axis, **ends)
    if given["stop"] - given["start"] != 1:
        return found
    shape = world.shape(found)
    return world.apply("reshape", found, shape=(*shape[:axis], *shape[axis + 1 :]))


def _others(rank: int, axes: Iterable[int]) -> tuple[int, ...]:
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
    added = _others(len(theirs), meets.values())
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
    rows = _others(len(ours), [one for one, _ in step.pairs])
    columns = _others(len(theirs), [other for _, other in step.pairs])
    if not rows and not columns:
        product = world.apply("mul", *_aligned(world, step, x, y))
        return world.apply("sum", product, axes=step.axes, keep=False)
    lead = tuple(ours[one] for one, _ in batch)
    length = prod(ours[one] for one, _ in inner)
    height, width = (ours[axis] for axis in rows), (theirs[axis] for axis in columns)
    left = _ordered(world, x, [*(a for a, _ in batch), *rows, *(a for a, _ in inner)])
    right = _ordered(world, y, [*(b for _, b in batch), *(b for _, b in inner), *columns])
    found = world.apply(
        "matmul",
        world.apply("reshape", left, shape=(*lead, prod(ours[a] for a in rows), length)),
        world.apply("reshape", right, shape=(*lead, length, prod(theirs[b] for b in columns))),
    )
    return world.apply("reshape", found, shape=(*lead, *height, *width))


pass

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
    wanted: Amounts
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
        chosen = [values[one] for one in operands]
        if made_of(call, [one.amounts for one in chosen]).within(self.wanted):
            shapes = tuple(one.shape for one in chosen)
            if (call, shapes) not in self._met:
                self._met[call, shapes] = list(self._meetings(call, shapes))
            for pairs, axes in self._met[call, shapes]:
                yield OperatorStep(number, operands, pairs, axes)

    def _meetings(self, call: OperatorCall, shapes: tuple[Shape, ...]) -> Iterator[Meeting]:
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
        self, call: OperatorCall, shapes: Sequence[Shape], pairs: Pairs, axes: tuple[int, ...]
    ) -> bool:
        found = step_shape(call, OperatorStep(0, (0, 1), pairs, axes), shapes)
        return len(found) <= max(map(len, shapes)) or spelled(found) in self.shapes


def spelled(shape: Shape) -> Spelled:
    return tuple(sorted(map(str, shape)))


def unused(steps: Sequence[OperatorStep], leaves: int) -> set[int]:
    """The steps, by their numbers, whose results no other step takes."""
    used = {one - leaves for step in steps for one in step.operands}
    return {number for number in range(len(steps)) if number not in used}


def made_of(call: OperatorCall, operands: Sequence[Amounts]) -> Amounts:
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


def _operands(call: OperatorCall, count: int) -> Iterator[tuple[int, ...]]:
    operator = find(call.operator)
    if operator.arity == 1:
        yield from ((one,) for one in range(count))
        return
    for one, other in product(range(count), repeat=2):
        if one < other or (one != other and not operator.commutative) or operator.name in _SQUARES:
            yield one, other


def _met(call: OperatorCall, x: Shape, y: Shape) -> Iterator[Meeting]:
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


pass

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
        given = tuple(one for one in sized.parameters if one[0] != "axis")
        yield OperatorCall("slice", given, sized.arguments[0].shape[term.parameter("axis")])
