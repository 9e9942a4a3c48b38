"""The inputs that candidates run on: drawn where they run, so that large arrays never travel.

Copies of them take turns, so that no cache holds what a cold call reads. With a last-level cache of
32 MB and an input of 4 MB, 2 * 32 MB must be read between two uses of the same memory: 17 copies,
used in turn. Inputs of other contenders that are read in the same round count as well, so that in a
race of many large ones two or three copies do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp

from ..candidates import Array, PyTree
from ..processor import last_cache
from ..protocol import LoadRequest
from ..random_inputs import NumPyArray, draw
from .huge_pages import free_unreferenced_arrays, in_huge_pages

RingPlace: TypeAlias = tuple[object, ...]
"""What an array of an `InputStock` is known by."""

MOST_COPIES = 1024
"""Inputs that are smaller than the cache by more than this factor cannot be made cold."""
BEYOND = 2
"""How many times what a cache holds is read before an array is read again."""


class CopyRing:
    """Copies of one array, which differ in where they lie only; `next` gives the oldest."""

    def __init__(self, array: Array, copied: Callable[[PyTree], PyTree]) -> None:
        self.copies: list[Array] = [array]
        self._copied = copied
        self._at = 0

    @property
    def size(self) -> int:
        """The bytes of one copy."""
        return int(self.copies[0].nbytes)

    def next(self) -> Array:
        self._at = (self._at + 1) % len(self.copies)
        return self.copies[self._at]

    def grow(self, count: int) -> None:
        """Makes copies until there are so many."""
        while len(self.copies) < count:
            self.copies.append(self._copied(self.copies[0]))

    def shrink(self) -> None:
        """Lets all copies but the first go."""
        del self.copies[1:]
        self._at = 0


class ColdInputs:
    """What one candidate is called on. Candidates that take the same array share its `CopyRing`."""

    def __init__(self, rings: Sequence[CopyRing]) -> None:
        self._rings = tuple(rings)
        self.rings = frozenset(rings)
        self.size = sum(ring.size for ring in self.rings)
        """Bytes that a call reads at most, of what it is given."""
        self.first = [ring.copies[0] for ring in rings]
        """Inputs for hot calls, again and again."""

    def next(self) -> list[Array]:
        """Inputs for a call that should find them in no cache."""
        turned = {ring: ring.next() for ring in self.rings}
        return [turned[ring] for ring in self._rings]

    def sets(self, copies: int) -> list[Array]:
        """So many sets of inputs in a row, none of which shares an array with another."""
        for ring in self.rings:
            ring.grow(copies)
        return [ring.copies[at] for at in range(copies) for ring in self._rings]

    def can_be_cold(self, cache: int) -> bool:
        return self.size * MOST_COPIES > cache


class CopyTurn(NamedTuple):
    """A runner's part of a round."""

    inputs: ColdInputs
    calls: int


def copies_wanted(ring: CopyRing, turns: Sequence[CopyTurn], cache: int) -> int:
    """Gives how many copies of an array it takes, if every round has each of these `turns`.

    What others read meanwhile counts: in a round in which much else is read, two or three do.
    """
    sharing = [turn for turn in turns if ring in turn.inputs.rings]
    uses = sum(turn.calls for turn in sharing)
    call_bytes = min(turn.inputs.size for turn in sharing)
    beside = {neighbour for turn in sharing for neighbour in turn.inputs.rings}
    elsewhere = {neighbour for turn in turns for neighbour in turn.inputs.rings} - beside
    round_ = sum(neighbour.size for neighbour in elsewhere)
    for count in range(1, MOST_COPIES):
        rounds = max(0, count // uses - 1)  # that lie between two uses of a copy as a whole
        if (count - 1) * call_bytes + rounds * round_ >= BEYOND * cache:
            return count
    return MOST_COPIES


class InputStock:
    """The arrays of this process: constants, and copies that rounds rotate (`CopyRing`)."""

    def __init__(self, platform: str) -> None:
        self._cache = last_cache(platform)
        self._constants: dict[int, NumPyArray] = {}
        self._rings: dict[RingPlace, CopyRing] = {}

    def keep(self, number: int, constant: NumPyArray) -> None:
        self._constants[number] = constant

    def forget(self, constants: tuple[int, ...]) -> None:
        """Lets these constants go, and of what was drawn all copies but the first."""
        for number in constants:
            del self._constants[number]
        self._keep(place for place in self._rings if place[2:] not in {(at,) for at in constants})

    def retain(self, loads: Iterable[LoadRequest], seed: int) -> None:
        """Keeps the first copies of what these candidates take, and nothing else.

        Candidates that are tried one after the other take the same arrays: to draw 64 MB anew for
        each takes longer than to time it.
        """
        self._keep(
            self._place(load, seed, position)
            for load in loads
            for position in range(len(load.text.inputs))
        )

    def _keep(self, places: Iterable[RingPlace]) -> None:
        self._rings = {place: self._rings[place] for place in places if place in self._rings}
        for ring in self._rings.values():
            ring.shrink()
        free_unreferenced_arrays()

    def inputs(self, load: LoadRequest, seed: int) -> ColdInputs:
        """Gives a candidate's inputs; those that have some in common share them."""
        positions = range(len(load.text.inputs))
        return ColdInputs([self._ring(load, seed, position) for position in positions])

    def can_be_cold(self, inputs: ColdInputs) -> bool:
        return inputs.can_be_cold(self._cache)

    def multiply(self, ring: CopyRing, turns: Sequence[CopyTurn]) -> None:
        """Makes as many copies of an array as cold turns take."""
        ring.grow(copies_wanted(ring, turns, self._cache))

    def _ring(self, load: LoadRequest, seed: int, position: int) -> CopyRing:
        type_, number = load.text.inputs[position], load.constants.get(position)
        place = self._place(load, seed, position)
        if place not in self._rings:
            if number is None:
                value = draw(type_, seed, position, load.draws.get(position))
                self._rings[place] = CopyRing(jnp.array(value, type_.dtype), _copy)
            else:
                value = self._constants[number]
                self._rings[place] = CopyRing(_kept_copy(value, type_.dtype), _kept_copy)
        return self._rings[place]

    def _place(self, load: LoadRequest, seed: int, position: int) -> RingPlace:
        """What an input is known by: its type, and the constant or the draw that it is."""
        number = load.constants.get(position)
        drawn = (seed, position, load.draws.get(position))
        origin = drawn if number is None else (number,)
        return (load.text.inputs[position], load.text.x64, *origin)


def _copy(array: Array) -> Array:
    return jnp.array(array, copy=True)


def _kept_copy(array: Array, dtype: str | None = None) -> Array:
    """A copy as a prepared constant would lie: `in_huge_pages`."""
    return in_huge_pages(jnp.array(array, dtype, copy=True))
