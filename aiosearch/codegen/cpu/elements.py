"""The value of an expression at one element, or at neighbours along one index at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...tensor.types import DType
from ..ir import (
    Affine,
    Apply,
    Buffer,
    Constant,
    Count,
    Expression,
    Index,
    Load,
    Mixed,
    Operation,
    Position,
    Quotient,
    Remainder,
    Round,
    Within,
    indices,
)
from ..positions import bounds
from .arithmetic import Arithmetic
from .linear import Linear, linear
from .memory import Memory, Storage
from .packed import Packed
from .writer import Value, Whole, Writer


@dataclass(frozen=True)
class Spot:
    """Where the indices are, and along which one of them lanes lie."""

    places: Mapping[Index, Linear]
    along: Index | None = None
    lanes: int = 1
    mask: Value | None = None
    """The lanes that count; all, where there is none."""
    guarded: bool = False
    """Whether even one element that all lanes share may not be there, unless a lane counts."""

    def at(self, more: Mapping[Index, Linear]) -> Spot:
        return replace(self, places={**self.places, **more})

    def moves(self, position: Position) -> bool:
        """Whether a position differs from lane to lane."""
        return self.along is not None and self.lanes > 1 and self.along in set(indices(position))


@dataclass
class Elements:
    """Computes expressions where a writer stands."""

    writer: Writer
    memory: Memory
    arithmetic: Arithmetic
    storages: Mapping[Buffer, Storage | Packed]
    working: str
    """What numbers that are not whole are written in."""
    known: dict[tuple[Value, DType, Linear, int, Value | None], Value] = field(default_factory=dict)
    """Loads that need not be done again; emptied by whoever writes, or leaves a loop."""

    def value(self, expression: Expression, spot: Spot) -> Value:
        match expression:
            case Constant():
                scalar = "i32" if _whole(expression.value) else self.working
                return self.arithmetic.constant(expression.value, scalar)
            case Count():
                return self._count(expression.position, spot)
            case Load():
                return self._load(expression, spot)
            case Apply():
                operands = [self.value(one, spot) for one in expression.arguments]
                return self.arithmetic.apply(expression.operation, operands, self.working)
            case Round():
                return self.arithmetic.rounded(self.value(expression.value, spot), expression.dtype)
            case Within():
                return self._within(expression, spot)

    def place(self, position: Position, spot: Spot) -> Linear:
        """Of the first lane."""
        if isinstance(position, Affine):
            found = Linear((), position.offset)
            for one, factor in position.terms:
                found += spot.places[one] * factor
            return found
        if isinstance(position, Mixed):
            found = self.place(position.rest, spot)
            for part, factor in position.terms:
                found += self.place(part, spot) * factor
            return found
        up = _up(position)
        inner = (self.place(position.position, spot) + up).whole(self.writer)
        if isinstance(position, Quotient):
            return linear(self.writer.divide(inner, position.by)) + -(up // position.by)
        return linear(self.writer.remainder(inner, position.by))

    def step(self, position: Position, along: Index | None) -> int | None:
        """How far a position moves from lane to lane; nothing where that is not always the same."""
        if along is None or along not in set(indices(position)):
            return 0
        if isinstance(position, Affine):
            return dict(position.terms)[along]
        if isinstance(position, Mixed) and all(
            along not in set(indices(p)) for p, _ in position.terms
        ):
            return dict(position.rest.terms)[along]
        return None

    def stride(self, storage: Storage, at: tuple[Position, ...], along: Index | None) -> int | None:
        """How far apart the elements of neighbouring lanes are."""
        steps = [self.step(position, along) for position in at]
        if None in steps:
            return None
        return sum(step * own for step, own in zip(steps, storage.strides, strict=True) if step)

    def offsets(self, storage: Storage, at: tuple[Position, ...], spot: Spot) -> Value:
        """How far into a buffer the element of each lane is."""
        first = storage.offset([self.place(position, spot) for position in at])
        start = self.arithmetic.spread(_i64(first.whole(self.writer)), spot.lanes)
        stride = self.stride(storage, at, spot.along)
        if stride is not None:
            steps = ", ".join(f"i64 {lane * stride}" for lane in range(spot.lanes))
            return self.writer.pure(f"add {start}, <{steps}>", "i64", spot.lanes)
        found = self._wide(0, spot.lanes)
        for position, origin, own in zip(at, storage.origin, storage.strides, strict=True):
            places = self._places(position, spot)
            back = self.arithmetic.spread(_i64(origin.whole(self.writer)), spot.lanes)
            local = self._two("sub", places, back)
            found = self._two("add", found, self._two("mul", local, self._wide(own, spot.lanes)))
        return found

    def store(self, target: Buffer, at: tuple[Position, ...], value: Value, spot: Spot) -> None:
        """Where lanes lie along an index, the places follow it."""
        storage = self.storages[target]
        assert isinstance(storage, Storage)
        stored = self.arithmetic.narrowed(self.arithmetic.spread(value, spot.lanes), target.dtype)
        if spot.lanes == 1 or self.stride(storage, at, spot.along) == 1:
            offset = storage.offset([self.place(position, spot) for position in at])
            self.memory.store(storage, offset, stored, spot.mask)
        else:
            self.memory.scatter(storage, self.offsets(storage, at, spot), stored, spot.mask)

    def _load(self, load: Load, spot: Spot) -> Value:
        return self.arithmetic.widened(self.stored(load, spot), load.buffer.dtype)

    def stored(self, load: Load, spot: Spot) -> Value:
        """Of each lane, or the one that all share, as it is in memory."""
        storage = self.storages[load.buffer]
        if isinstance(storage, Packed):
            return self.packed(storage, load, spot)
        stride = self.stride(storage, load.at, spot.along) if spot.lanes > 1 else 0
        if stride not in (0, 1):
            return self.memory.gather(storage, self.offsets(storage, load.at, spot), spot.mask)
        lanes = 1 if stride == 0 else spot.lanes
        offset = storage.offset([self.place(position, spot) for position in load.at])
        mask = spot.mask if lanes == spot.lanes else self._any(spot)
        return self.once(storage, offset, lanes, mask)

    def once(self, storage: Storage, offset: Linear, lanes: int, mask: Value | None) -> Value:
        """What is stored there, loaded where it was not yet."""
        key = (storage.pointer, storage.dtype, offset, lanes, mask)
        if key not in self.known:
            self.known[key] = self.memory.load(storage, offset, lanes, mask)
        return self.known[key]

    def _any(self, spot: Spot) -> Value | None:
        """Whether a lane counts at all, where that matters to what they share."""
        if not spot.guarded or spot.mask is None or spot.mask.lanes == 1:
            return spot.mask if spot.guarded else None
        name = f"llvm.vector.reduce.or.v{spot.mask.lanes}i1"
        return self.writer.call(name, "i1", 1, [str(spot.mask)])

    def packed(self, storage: Packed, load: Load, spot: Spot) -> Value:
        """From a packed buffer: whole panels, which are there to their end."""
        offset, odd = self.unpacked(storage, load, spot)
        moved = self.step(load.at[storage.column], spot.along) if spot.lanes > 1 else 0
        if not moved:
            return self.once(storage.flat, offset, 1, None)
        place = self.place(load.at[storage.column], spot) - storage.origin[storage.column]
        assert place.divisible(spot.lanes), "a vector lies in one panel"
        if not storage.pairs:
            return self.once(storage.flat, offset, spot.lanes, None)
        both = self.once(storage.flat, offset - odd, 2 * spot.lanes, None)
        if not odd.terms:
            return self._one_of(both, odd.constant)
        truth = self.arithmetic.spread(self._odd(odd), spot.lanes)
        return self.arithmetic.choose(truth, self._one_of(both, 1), self._one_of(both, 0))

    def first(self, count: Whole, lanes: int) -> Value:
        """A mask of so many lanes."""
        steps = ", ".join(f"i64 {lane}" for lane in range(lanes))
        limit = self.arithmetic.spread(_i64(count), lanes)
        return self.writer.pure(f"icmp slt <{lanes} x i64> <{steps}>, {limit.text}", "i1", lanes)

    def interleaved(self, first: Value, second: Value) -> Value:
        """The lanes of two values by turns."""
        lanes = first.lanes
        order = ", ".join(f"i32 {lane}, i32 {lanes + lane}" for lane in range(lanes))
        text = f"shufflevector {first}, {second}, <{2 * lanes} x i32> <{order}>"
        return self.writer.pure(text, first.scalar, 2 * lanes)

    def unpacked(self, storage: Packed, load: Load, spot: Spot) -> tuple[Linear, Linear]:
        """How far into a packed buffer an element is, and which one of a pair."""
        return storage.offset(load, lambda position: self.place(position, spot), self.writer)

    def _odd(self, which: Linear) -> Value:
        return self.writer.pure(f"icmp ne i64 {_i64(which.whole(self.writer)).text}, 0", "i1")

    def _one_of(self, pairs: Value, which: int) -> Value:
        lanes = pairs.lanes // 2
        picks = ", ".join(f"i32 {2 * lane + which}" for lane in range(lanes))
        text = f"shufflevector {pairs}, {pairs.type} poison, <{lanes} x i32> <{picks}>"
        return self.writer.pure(text, pairs.scalar, lanes)

    def fetch(self, load: Load, spot: Spot) -> None:
        """Has it brought near, for later."""
        storage = self.storages[load.buffer]
        if isinstance(storage, Packed):
            self.memory.prefetch(storage.flat, self.unpacked(storage, load, spot)[0])
        else:
            offset = storage.offset([self.place(position, spot) for position in load.at])
            self.memory.prefetch(storage, offset)

    def _count(self, position: Position, spot: Spot) -> Value:
        places = self._places(position, spot)
        if not places.text.startswith("%"):
            return Value(places.text, "i32")
        type_ = f"<{places.lanes} x i32>" if places.lanes > 1 else "i32"
        return self.writer.pure(f"trunc {places} to {type_}", "i32", places.lanes)

    def _places(self, position: Position, spot: Spot) -> Value:
        """Of every lane."""
        if not spot.moves(position):
            return _i64(self.place(position, spot).whole(self.writer))
        step = self.step(position, spot.along)
        if step is not None:
            first = _i64(self.place(position, spot).whole(self.writer))
            steps = ", ".join(f"i64 {lane * step}" for lane in range(spot.lanes))
            start = self.arithmetic.spread(first, spot.lanes)
            return self.writer.pure(f"add {start}, <{steps}>", "i64", spot.lanes)
        if isinstance(position, Mixed):
            found = self._wide(0, spot.lanes)
            parts = [(position.rest, 1), *position.terms]
            for part, factor in parts:
                own = self.arithmetic.spread(self._places(part, spot), spot.lanes)
                found = self._two(
                    "add", found, self._two("mul", own, self._wide(factor, spot.lanes))
                )
            return found
        assert not isinstance(position, Affine)
        up, by = _up(position), self._wide(position.by, spot.lanes)
        inner = self._two("add", self._places(position.position, spot), self._wide(up, spot.lanes))
        if isinstance(position, Remainder):
            return self._two("urem", inner, by)
        down = self._wide(-(up // position.by), spot.lanes)
        return self._two("add", self._two("udiv", inner, by), down)

    def _within(self, expression: Within, spot: Spot) -> Value:
        inside = self._inside(expression, spot)
        outside = self.writer.pure(f"xor {inside}, {self._true(inside.lanes)}", "i1", inside.lanes)
        value = self.value(expression.value, self._only(spot, inside))
        otherwise = self.value(expression.otherwise, self._only(spot, outside))
        return self.arithmetic.apply(Operation.SELECT, [inside, value, otherwise])

    def _only(self, spot: Spot, where: Value) -> Spot:
        """The lanes that count, of those where something holds."""
        mask = self.arithmetic.spread(where, spot.lanes)
        if spot.mask is not None:
            mask = self._and(mask, spot.mask)
        return replace(spot, mask=mask, guarded=True)

    def _true(self, lanes: int) -> str:
        return self.arithmetic.constant(True, "i1", lanes).text

    def _inside(self, expression: Within, spot: Spot) -> Value:
        found = Value("true", "i1")
        for position, low, high in expression.limits:
            places = self._places(position, spot)
            for how, limit in (("sge", low), ("slt", high)):
                edge = self._wide(limit, places.lanes)
                truth = self.writer.pure(f"icmp {how} {places}, {edge.text}", "i1", places.lanes)
                found = self._and(found, truth)
        return found

    def _and(self, a: Value, b: Value) -> Value:
        lanes = max(a.lanes, b.lanes)
        a, b = self.arithmetic.spread(a, lanes), self.arithmetic.spread(b, lanes)
        return self.writer.pure(f"and {a}, {b.text}", "i1", lanes)

    def _two(self, how: str, a: Value, b: Value) -> Value:
        return self.writer.pure(f"{how} {a}, {b.text}", a.scalar, a.lanes)

    def _wide(self, number: int, lanes: int) -> Value:
        return self.arithmetic.constant(number, "i64", lanes)


def _up(position: Quotient | Remainder) -> int:
    """What to add before a division, so that it is none of a number below zero."""
    return max(0, -(bounds(position.position)[0] // position.by) * position.by)


def _whole(value: float) -> bool:
    """Whether a number can be written as a whole one: zero below zero cannot."""
    if value == 0:
        return math.copysign(1, value) > 0
    return float(value).is_integer() and abs(value) < 2**31


def _i64(value: Whole) -> Value:
    return value if isinstance(value, Value) else Value(str(value), "i64")
