"""What candidates are run on: drawn where they run, so that large arrays never travel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .caches import last_cache
from .drawing import draw
from .moving import in_large_pages, let_go
from .protocol import Load
from .rotating import Inputs, Ring, Turn, copies_wanted


class Stock:
    """The arrays of this process: constants that were given, and copies that rounds rotate."""

    def __init__(self, platform: str) -> None:
        self._cache = last_cache(platform)
        self._constants: dict[int, np.ndarray[Any, Any]] = {}
        self._rings: dict[tuple[object, ...], Ring] = {}

    def keep(self, number: int, constant: np.ndarray[Any, Any]) -> None:
        self._constants[number] = constant

    def forget(self, constants: tuple[int, ...]) -> None:
        """Lets these constants go, and everything that was drawn."""
        for number in constants:
            del self._constants[number]
        self.clear()

    def clear(self) -> None:
        self._rings.clear()
        let_go()

    def inputs(self, load: Load, seed: int) -> Inputs:
        """Gives a candidate's inputs; those that have some in common share them."""
        positions = range(len(load.text.inputs))
        return Inputs([self._ring(load, seed, position) for position in positions])

    def can_be_cold(self, inputs: Inputs) -> bool:
        return inputs.can_be_cold(self._cache)

    def multiply(self, ring: Ring, turns: Sequence[Turn]) -> None:
        """Makes as many copies of an array as cold turns take."""
        ring.grow(copies_wanted(ring, turns, self._cache))

    def _ring(self, load: Load, seed: int, position: int) -> Ring:
        type_ = load.text.inputs[position]
        number = load.constants.get(position)
        wanted = load.draws.get(position)
        origin = (seed, position, wanted) if number is None else (number,)
        place = (type_, load.text.x64, *origin)
        if place not in self._rings:
            if number is None:
                value = draw(type_, seed, position, wanted)
                self._rings[place] = Ring(jnp.array(value, type_.dtype), _copy)
            else:
                value = self._constants[number]
                self._rings[place] = Ring(_kept_copy(value, type_.dtype), _kept_copy)
        return self._rings[place]


def _copy(array: Any) -> Any:
    return jnp.array(array, copy=True)


def _kept_copy(array: Any, dtype: str | None = None) -> Any:
    """As what is made beforehand lies where it is used."""
    return in_large_pages(jnp.array(array, dtype, copy=True))
