"""One operator applied to values, whichever of their axes meet: as terms, or as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from ...tensor import Term, apply
from ...tensor.algebra import Algebra
from ...tensor.operator import find
from ...tensor.sizes import Dim
from ...tensor.types import Shape
from .building import named

V = TypeVar("V")
Pairs: TypeAlias = tuple[tuple[int, int], ...]


class Call(Struct, frozen=True):
    """An operator, with the parameters that are no axes."""

    operator: str
    given: tuple[tuple[str, Any], ...] = ()
    """In named sizes."""
    size: Dim | None = None
    """Of the axes that a slice is taken of."""


class Step(Struct, frozen=True, order=True, array_like=True):
    """A call on values, by their numbers. Values have no axes of size one."""

    call: int
    operands: tuple[int, ...]
    pairs: Pairs = ()
    """Which axis of the first operand meets which of the second; others are repeated."""
    axes: tuple[int, ...] = ()
    """The axes of the first operand that are reduced or cut; or the two that a diagonal is of."""


class World(Protocol[V]):
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


def taken(world: World[V], call: Call, step: Step, operands: Sequence[V]) -> V:
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


def shaped(call: Call, step: Step, shapes: Sequence[Shape]) -> Shape:
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


def _cut(world: World[V], call: Call, step: Step, x: V) -> V:
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


def _ordered(world: World[V], x: V, axes: Sequence[int]) -> V:
    return world.apply("transpose", x, axes=tuple(axes))


def _aligned(world: World[V], step: Step, x: V, y: V) -> tuple[V, V]:
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


def _contracted(world: World[V], step: Step, x: V, y: V) -> V:
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
