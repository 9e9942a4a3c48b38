"""The steps that enumeration may take: an operator applied to values, as terms or as arrays.

Problem: from values that are there, list the applications of operators that may lead to a target,
each once, and few of them.

Example: with x [m, k], y [k, n] and the target `x @ y` of shape [m, n], `matmul` has one step: axis
1 of x meets axis 0 of y and is summed, `OperatorStep(call, (0, 1), pairs=((1, 0),), axes=(1,))`.
`mul` of the two has the step with the same pair, which makes [m, k, n]: three axes where none of
its operands has, so that it is offered only if the program has a value of these sizes already.

A step is data: `apply_step` carries it out wherever there is a `StepDomain`, on `Terms` for the
program and on `Meanings` for arrays of the finite field.

Invariants: `StepChoices.after` gives each set of steps in one order; a value has no axes of size
one, so that an axis is told by the name of its size.

Cost: `_pairs` lists every partial matching of axes with equal sizes: few, as a program gives its
sizes different names; they are remembered by call and shapes.
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
"""Which axis of the first operand meets which of the second."""


class OperatorCall(Struct, frozen=True):
    """An operator, with the parameters that are no axes."""

    operator: str
    parameters: tuple[tuple[str, Any], ...] = ()
    """Name and value of each, in named sizes: `(("exponent", -0.5),)`."""
    size: Dim | None = None
    """The named size of the axes that a `slice` may be taken of."""


class OperatorStep(Struct, frozen=True, order=True, array_like=True):
    """An `OperatorCall` on values, by their numbers.

    The order of the fields is that of steps: `StepChoices.after` compares them.
    """

    call: int
    """Index into `StepChoices.calls`."""
    operands: tuple[int, ...]
    pairs: Pairs = ()
    """Which axis of the first operand meets which of the second; others are repeated."""
    axes: tuple[int, ...] = ()
    """Axes of the first operand that are reduced or cut; for `diagonal` the two that become one."""


class StepDomain(Protocol[V]):
    """What steps are carried out on: `Terms`, or arrays of an algebra as `Meanings`."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """What each named size is in this domain."""

    def apply(self, name: str, *operands: V, **parameters: Any) -> V: ...

    def shape(self, x: V) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Terms:
    """Steps on terms, at the real sizes, without moves of elements that change nothing."""

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
        return x.shape  # type: ignore[return-value]  # sizes of the program are known


@dataclass(frozen=True)
class Meanings:
    """Steps on what an `Algebra` computes with, at its own sizes."""

    sizes: Mapping[str, int]
    algebra: Algebra[Any]

    def apply(self, name: str, *operands: Any, **parameters: Any) -> Any:
        return find(name).meaning(self.algebra, *operands, **parameters)

    def shape(self, x: Any) -> tuple[int, ...]:
        return self.algebra.shape(x)  # type: ignore[return-value]  # its sizes are integers


def apply_step(
    world: StepDomain[V], call: OperatorCall, step: OperatorStep, operands: Sequence[V]
) -> V:
    """The result of a step; raises `ShapeError` where an operator refuses it."""
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
    """The shape of a step's result, in named sizes, without computing it."""
    first, gone = shapes[0], set(step.axes)
    if call.operator == "diagonal":
        # The diagonal comes last, as `apply_step` transposes its two axes to the end.
        return (*(size for axis, size in enumerate(first) if axis not in gone), first[step.axes[0]])
    if call.operator == "slice":
        (axis,), parameters = step.axes, dict(call.parameters)
        length = parameters["stop"] - parameters["start"]
        # Values have no axes of size one: a slice of one element loses its axis.
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
    """A slice along the step's axis, without that axis where one element is left."""
    parameters = dict(call.parameters)
    ends = {name: n if isinstance(n, int) else n.at(world.sizes) for name, n in parameters.items()}
    (axis,) = step.axes
    piece = world.apply("slice", x, axis=axis, **ends)
    if parameters["stop"] - parameters["start"] != 1:
        return piece
    shape = world.shape(piece)
    return world.apply("reshape", piece, shape=(*shape[:axis], *shape[axis + 1 :]))


def _remaining_axes(rank: int, axes: Iterable[int]) -> tuple[int, ...]:
    """The axes of a value of this rank that are not in `axes`."""
    chosen = set(axes)
    return tuple(axis for axis in range(rank) if axis not in chosen)


def _ordered(world: StepDomain[V], x: V, axes: Sequence[int]) -> V:
    return world.apply("transpose", x, axes=tuple(axes))


def _aligned(world: StepDomain[V], step: OperatorStep, x: V, y: V) -> tuple[V, V]:
    """Both operands with the axes of the first, and behind them those that only the second has.

    Example: x [m, k] and y [k, n], where axis 1 meets axis 0, become [m, k, 1] and [1, k, n].
    """
    ours, theirs = world.shape(x), world.shape(y)
    # A scalar meets everything as it is: operators broadcast it.
    if not ours or not theirs:
        return x, y
    meets = dict(step.pairs)
    added = _remaining_axes(len(theirs), meets.values())
    turned = _ordered(world, y, [*(meets[axis] for axis in sorted(meets)), *added])
    # The second operand is spread over the axes of the first: size one where it has none that
    # meets.
    repeated = [theirs[meets[axis]] if axis in meets else 1 for axis in range(len(ours))]
    wide = world.apply("reshape", x, shape=(*ours, *(1 for _ in added)))
    return wide, world.apply(
        "reshape", turned, shape=(*repeated, *(theirs[axis] for axis in added))
    )


def _contracted(world: StepDomain[V], step: OperatorStep, x: V, y: V) -> V:
    """A matrix product of two values of any rank: pairs that are in `axes` are summed, others are
    the batch.

    Where neither operand has an axis of its own it is a product of elements and a sum, which XLA
    fuses.
    """
    ours, theirs = world.shape(x), world.shape(y)
    batch = [pair for pair in step.pairs if pair[0] not in step.axes]
    inner = [pair for pair in step.pairs if pair[0] in step.axes]
    rows = _remaining_axes(len(ours), [axis for axis, _ in step.pairs])
    columns = _remaining_axes(len(theirs), [axis for _, axis in step.pairs])
    # A matmul of one row and one column would be a kernel of its own for each pair.
    if not rows and not columns:
        product = world.apply("mul", *_aligned(world, step, x, y))
        return world.apply("sum", product, axes=step.axes, keep=False)
    lead = tuple(ours[axis] for axis, _ in batch)
    length = prod(ours[axis] for axis, _ in inner)
    height, width = (ours[axis] for axis in rows), (theirs[axis] for axis in columns)
    # Batch, then rows, then what is summed: reshapes merge each group into one axis.
    left = _ordered(world, x, [*(a for a, _ in batch), *rows, *(a for a, _ in inner)])
    right = _ordered(world, y, [*(b for _, b in batch), *(b for _, b in inner), *columns])
    contracted = world.apply(
        "matmul",
        world.apply("reshape", left, shape=(*lead, prod(ours[a] for a in rows), length)),
        world.apply("reshape", right, shape=(*lead, length, prod(theirs[b] for b in columns))),
    )
    return world.apply("reshape", contracted, shape=(*lead, *height, *width))


LONGEST = 4
"""Steps towards one value: the search is exponential in it, and further ways are found by going on
from an answer."""

Meeting: TypeAlias = tuple[Pairs, tuple[int, ...]]
"""How two operands meet: `OperatorStep.pairs` and `OperatorStep.axes`."""
Spelled: TypeAlias = tuple[str, ...]
"""The names of a shape's sizes in order: a shape, whatever the order of its axes."""

_SQUARES = ("mul", "matmul")
"""Operators that are worth applying to a value and itself."""
_INGREDIENTS: Any = Ingredients()


@dataclass(frozen=True, slots=True, eq=False)
class KnownValue:
    """What has to be known of a value to go on from it."""

    shape: Shape
    """The shape in named sizes, without axes of size one."""
    amounts: Amounts
    """How often each input and function takes part in it."""


@dataclass(frozen=True, slots=True)
class StepChoices:
    """The steps that may lead to one target."""

    calls: tuple[OperatorCall, ...]
    """The operators to apply, as `vocabulary` gives them; a step has its index."""
    limit: Amounts
    """What the target is made of: nothing on the way to it is made of more."""
    shapes: frozenset[Spelled]
    """Sizes of values with more axes than each operand that may come about: those of the program.
    """
    # Shapes are few and operands many: how they can meet is worked out once for each pair of
    # shapes.
    _met: dict[tuple[OperatorCall, tuple[Shape, ...]], list[Meeting]] = field(default_factory=dict)
    """The meetings of a call for operands of these shapes."""

    def after(
        self, before: Sequence[OperatorStep], values: Sequence[KnownValue]
    ) -> Iterator[OperatorStep]:
        """The steps that may follow `before`, none twice in whatever order, each of use in the end.

        `values` are the leaves, and behind them the results of `before`, in order.
        """
        leaves = len(values) - len(before)
        waiting = {leaves + number for number in unused(before, leaves)}
        for number, call in enumerate(self.calls):
            for operands in _operands(call, len(values)):
                # Each step uses two values and makes one: more unused results than steps that are
                # left can never all be used.
                if len(waiting.difference(operands)) >= LONGEST - len(before):
                    continue
                # A step that takes the last result has to come after it. Any other could have come
                # before, and is taken only in ascending order: of two independent steps that gives
                # one sequence in place of two.
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
        """The steps of one call on these operands, if the result is made of no more than the
        target."""
        chosen = [values[operand] for operand in operands]
        # The cheapest test comes first, and rejects most: it needs no shape and no array.
        if made_of(call, [operand.amounts for operand in chosen]).within(self.limit):
            shapes = tuple(operand.shape for operand in chosen)
            if (call, shapes) not in self._met:
                self._met[call, shapes] = list(self._meetings(call, shapes))
            for pairs, axes in self._met[call, shapes]:
                yield OperatorStep(number, operands, pairs, axes)

    def _meetings(self, call: OperatorCall, shapes: tuple[Shape, ...]) -> Iterator[Meeting]:
        """How operands of these shapes can meet in a call."""
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
        """Whether a result has no more axes than its operands, or sizes that the program has."""
        shape = step_shape(call, OperatorStep(0, (0, 1), pairs, axes), shapes)
        return len(shape) <= max(map(len, shapes)) or spelled(shape) in self.shapes


def spelled(shape: Shape) -> Spelled:
    """The names of the sizes of `shape`, sorted."""
    return tuple(sorted(map(str, shape)))


def unused(steps: Sequence[OperatorStep], leaves: int) -> set[int]:
    """The steps, by their numbers, whose results no other step takes."""
    used = {operand - leaves for step in steps for operand in step.operands}
    return {number for number in range(len(steps)) if number not in used}


def made_of(call: OperatorCall, operands: Sequence[Amounts]) -> Amounts:
    """What the result of a call is made of, by the algebra `Ingredients`."""
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
    """The operands that a call may take among `count` values: commutative ones in one order, a
    value with itself only where that is of use."""
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
    """The meetings of two operands; a product sums some of the axes that meet."""
    for pairs in _pairs(x, y):
        if call.operator == "matmul":
            yield from ((pairs, axes) for axes in _nonempty_subsets([axis for axis, _ in pairs]))
        else:
            yield pairs, ()


def _pairs(x: Shape, y: Shape, start: int = 0) -> Iterator[Pairs]:
    """Every way in which axes of equal sizes meet, each axis at most once."""
    yield ()
    for axis in range(start, len(x)):
        for partner, size in enumerate(y):
            if size == x[axis]:
                for tail in _pairs(x, y, axis + 1):
                    if all(partner != taken_axis for _, taken_axis in tail):
                        yield ((axis, partner), *tail)


def _nonempty_subsets(axes: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Every choice of at least one of `axes`."""
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
"""Operators that an operator of the program may turn into, such as a quotient of logarithms into a
difference."""


def vocabulary(terms: Iterable[tuple[Term, Term]]) -> tuple[OperatorCall, ...]:
    """The calls that the terms are made with, and those that these may turn into; each term is
    given with its named sizes."""
    calls = set(map(OperatorCall, _ALWAYS))
    for term, sized in terms:
        calls.update(map(OperatorCall, _BRINGS.get(term.operator.name, ())))
        calls.update(_calls(term, sized))
    # Sets have another order in each process, and indices of calls are part of a node.
    return tuple(sorted(calls, key=repr))


def _calls(term: Term, sized: Term) -> Iterator[OperatorCall]:
    """The call of a term, if it is one that steps can make: no gather, no convolution, no slice
    with gaps."""
    operator = term.operator
    if operator.pointwise and operator.arity in (1, 2):
        yield OperatorCall(operator.name, term.parameters)
    elif named(term, "sum", "mean", "max", "min", "diagonal"):
        yield OperatorCall(operator.name)
    elif named(term, "slice") and term.parameter("step") == 1:
        parameters = tuple(parameter for parameter in sized.parameters if parameter[0] != "axis")
        yield OperatorCall("slice", parameters, sized.arguments[0].shape[term.parameter("axis")])
