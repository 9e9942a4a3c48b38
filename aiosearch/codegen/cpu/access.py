"""Elements of buffers, read and written at a spot: one, neighbours, those that lie apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from ..ir import Buffer, Index, Load, Position
from .coded import Coded, decoded
from .codes import TOGETHER
from .linear import Linear
from .locating import Locator
from .memory import Memory, Storage
from .packed import Packed
from .spots import Spot
from .values import Value, i64
from .vectors import Vectors

Storages: TypeAlias = Mapping[Buffer, Storage | Packed]
"""Where each buffer lies."""


class Access:
    """Reads and writes where a writer stands. What was read before is not read again."""

    def __init__(self, storages: Storages, memory: Memory, vectors: Vectors) -> None:
        self.storages = storages
        self.memory = memory
        self.vectors = vectors
        self.locator = Locator(vectors)
        self._known: dict[tuple[object, ...], Value] = {}
        self._held: dict[tuple[object, ...], Value] = {}

    @contextmanager
    def holding(self, loads: Iterable[Load], spot: Spot) -> Iterator[None]:
        """Reads what is the same wherever lanes go from here, and nobody writes meanwhile."""
        self.forget()
        for load in loads:
            self.stored(load, spot)
        self._held = self._known
        self.forget()
        yield
        self._held = {}
        self.forget()

    def forget(self) -> None:
        """For whoever has written to memory, or begins or leaves a turn of a loop."""
        self._known = dict(self._held)

    def stored(self, load: Load, spot: Spot) -> Value:
        """Of each lane, or the one that all share, as it is in memory."""
        storage = self.storages[load.buffer]
        if isinstance(storage, Packed):
            return self._of_panel(storage, load, spot)
        stride = self.stride(storage, load.at, spot.along) if spot.lanes > 1 else 0
        if stride not in (0, 1):
            return self.memory.gather(storage, self._offsets(storage, load.at, spot), spot.mask)
        lanes = 1 if stride == 0 else spot.lanes
        offset = self.offset(storage, load.at, spot)
        mask = spot.mask if lanes == spot.lanes else self._any(spot)
        return self.once(storage, offset, lanes, mask)

    def store(self, target: Buffer, at: tuple[Position, ...], value: Value, spot: Spot) -> None:
        """Of a value as it is stored. Where lanes lie along an index, the places follow it."""
        storage = self.storages[target]
        assert isinstance(storage, Storage)
        if spot.lanes == 1 or self.stride(storage, at, spot.along) == 1:
            self.memory.store(storage, self.offset(storage, at, spot), value, spot.mask)
        else:
            self.memory.scatter(storage, self._offsets(storage, at, spot), value, spot.mask)

    def fetch(self, load: Load, spot: Spot, nearest: bool) -> None:
        """Has it brought near, for later: into the second cache, or into the first."""
        storage = self.storages[load.buffer]
        if isinstance(storage, Coded) and storage.names:
            self._fetch_coded(storage, load, spot, nearest)
        elif isinstance(storage, Packed):
            self.memory.prefetch(storage.flat, self.in_panels(storage, load, spot)[0], nearest)
        else:
            self.memory.prefetch(storage, self.offset(storage, load.at, spot), nearest)

    def once(self, storage: Storage, offset: Linear, lanes: int, mask: Value | None) -> Value:
        """What is stored there, loaded where it was not yet."""
        key = (storage.pointer, offset, lanes, mask)
        if key not in self._known:
            self._known[key] = self.memory.load(storage, offset, lanes, mask)
        return self._known[key]

    def pair(self, storage: Storage, offset: Linear) -> Value:
        """An element of 16 bits and the one behind it as one number, loaded the same way."""
        key = (storage.pointer, offset, "i32")
        if key not in self._known:
            self._known[key] = self.memory.read(storage, offset, "i32")
        return self._known[key]

    def stride(self, storage: Storage, at: tuple[Position, ...], along: Index | None) -> int | None:
        """How far apart neighbouring lanes' elements are; nothing where that is not the same."""
        steps = [self.locator.step(position, along) for position in at]
        if None in steps:
            return None
        return sum(step * own for step, own in zip(steps, storage.strides, strict=True) if step)

    def offset(self, storage: Storage, at: tuple[Position, ...], spot: Spot) -> Linear:
        """How far into a buffer the first lane's element is."""
        return storage.offset([self.locator.first(position, spot) for position in at])

    def pairs(self, storage: Packed, load: Load, spot: Spot) -> Value:
        """Two rows of panels that hold them interleaved, as `<2n x i16>`."""
        if isinstance(storage, Coded):
            return self._decoded(storage, load, spot)
        offset, odd = self.in_panels(storage, load, spot)
        assert odd == Linear(), "pairs of rows begin at even ones"
        return self.once(storage.flat, offset, 2 * spot.lanes, None)

    def in_panels(self, storage: Packed, load: Load, spot: Spot) -> tuple[Linear, Linear]:
        """How far into a packed buffer it is, and which one of a pair."""
        return storage.offset(self._places(load, spot), self.vectors.writer)

    def _places(self, load: Load, spot: Spot) -> list[Linear]:
        return [self.locator.first(position, spot) for position in load.at]

    def _decoded(self, storage: Coded, load: Load, spot: Spot) -> Value:
        """One of two vectors, both of which are known then."""
        writer = self.vectors.writer
        panel, within, odd = storage.parted(self._places(load, spot), writer)
        which = within.constant % TOGETHER
        within += -which
        assert odd == Linear(), "pairs of rows begin at even ones"
        assert within.divisible(TOGETHER), "vectors are coded two by two"
        keys = [(storage.flat.pointer, "pairs", panel, within, part) for part in range(2)]
        if keys[0] not in self._known:
            assert storage.names, "a panel has told its names"
            low, codes = storage.places(panel, within, writer)
            values = (
                self.memory.read(storage.bytes, low, "i8", TOGETHER),
                self.memory.read(storage.bytes, codes, "i8", TOGETHER // 2),
            )
            found = decoded(self.vectors, *values, storage.names)
            self._known.update(zip(keys, found, strict=True))
        return self._known[keys[which * 2 // TOGETHER]]

    def _fetch_coded(self, storage: Coded, load: Load, spot: Spot, nearest: bool) -> None:
        """A line of bytes is two vectors, one of codes four."""
        writer = self.vectors.writer
        panel, within, _ = storage.parted(self._places(load, spot), writer)
        low, codes = storage.places(panel, within, writer)
        if within.constant % TOGETHER == 0:
            self.memory.prefetch(storage.bytes, low, nearest)
        if within.constant % (2 * TOGETHER) == 0:
            self.memory.prefetch(storage.bytes, codes, nearest)

    def _offsets(self, storage: Storage, at: tuple[Position, ...], spot: Spot) -> Value:
        """How far into a buffer each lane's element is."""
        vectors, lanes = self.vectors, spot.lanes
        stride = self.stride(storage, at, spot.along)
        if stride is not None:
            first = self.offset(storage, at, spot).whole(vectors.writer)
            return vectors.steps(first, stride, lanes)
        found = vectors.constant(0, "i64", lanes)
        for position, origin, own in zip(at, storage.origin, storage.strides, strict=True):
            back = vectors.spread(i64(origin.whole(vectors.writer)), lanes)
            there = vectors.spread(self.locator.all(position, spot), lanes)
            local = vectors.two("sub", there, back)
            moved = vectors.two("mul", local, vectors.constant(own, "i64", lanes))
            found = vectors.two("add", found, moved)
        return found

    def _of_panel(self, storage: Packed, load: Load, spot: Spot) -> Value:
        """From a packed buffer: panels are there to their end, whatever counts of them."""
        assert not isinstance(storage, Coded), "only products of pairs read what is coded"
        offset, odd = self.in_panels(storage, load, spot)
        position, origin = load.at[storage.column], storage.origin[storage.column]
        if spot.lanes == 1 or not self.locator.step(position, spot.along):
            return self.once(storage.flat, offset, 1, None)
        place = self.locator.first(position, spot) - origin
        assert place.divisible(spot.lanes), "a vector lies in one panel"
        if not storage.pairs:
            return self.once(storage.flat, offset, spot.lanes, None)
        return self._one_of(self.once(storage.flat, offset - odd, 2 * spot.lanes, None), odd)

    def _one_of(self, pairs: Value, which: Linear) -> Value:
        """One of two rows that are interleaved; which one may be known only when it runs."""
        vectors = self.vectors
        if not which.terms:
            return vectors.every_second(pairs, which.constant)
        odd = i64(which.whole(vectors.writer))
        truth = vectors.spread(vectors.writer.pure(f"icmp ne {odd}, 0", "i1"), pairs.lanes // 2)
        second, first = vectors.every_second(pairs, 1), vectors.every_second(pairs, 0)
        return vectors.choose(truth, second, first)

    def _any(self, spot: Spot) -> Value | None:
        """Whether a lane counts at all, where that matters to what they share."""
        if not spot.guarded or spot.mask is None or spot.mask.lanes == 1:
            return spot.mask if spot.guarded else None
        return self.vectors.some(spot.mask)
