"""The inputs that candidates run on: drawn where they run, so that large arrays never travel."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from ..cache_sizes import last_cache
from ..candidates import Array
from ..protocol import LoadRequest
from ..random_inputs import NumPyArray, draw
from .cold_inputs import ColdInputs, CopyRing, CopyTurn, copies_wanted
from .huge_pages import free_unreferenced_arrays, in_huge_pages


class InputStock:
    """The arrays of this process: constants, and copies that rounds rotate (`CopyRing`)."""

    def __init__(self, platform: str) -> None:
        self._cache = last_cache(platform)
        self._constants: dict[int, NumPyArray] = {}
        self._rings: dict[tuple[object, ...], CopyRing] = {}

    def keep(self, number: int, constant: NumPyArray) -> None:
        self._constants[number] = constant

    def forget(self, constants: tuple[int, ...]) -> None:
        """Lets these constants go, and everything that was drawn."""
        for number in constants:
            del self._constants[number]
        self.clear()

    def clear(self) -> None:
        self._rings.clear()
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
        type_ = load.text.inputs[position]
        number = load.constants.get(position)
        distribution = load.draws.get(position)
        origin = (seed, position, distribution) if number is None else (number,)
        place = (type_, load.text.x64, *origin)
        if place not in self._rings:
            if number is None:
                value = draw(type_, seed, position, distribution)
                self._rings[place] = CopyRing(jnp.array(value, type_.dtype), _copy)
            else:
                value = self._constants[number]
                self._rings[place] = CopyRing(_kept_copy(value, type_.dtype), _kept_copy)
        return self._rings[place]


def _copy(array: Array) -> Array:
    return jnp.array(array, copy=True)


def _kept_copy(array: Array, dtype: str | None = None) -> Array:
    """A copy as a prepared constant would lie: `in_huge_pages`."""
    return in_huge_pages(jnp.array(array, dtype, copy=True))
