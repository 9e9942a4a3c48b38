"""What candidates are run on: drawn where they run, so that large arrays never travel."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from .caches import last_cache
from .drawing import draw
from .moving import in_large_pages, let_go
from .protocol import Load

MOST_SETS = 1024
"""Inputs that are smaller than the cache by more than this cannot be made cold."""


class Stock:
    """The arrays of this process: constants that were given, and copies that rounds rotate."""

    def __init__(self, platform: str) -> None:
        self._cache = last_cache(platform)
        self._constants: dict[int, np.ndarray[Any, Any]] = {}
        self._arrays: dict[tuple[object, ...], list[Any]] = {}

    def keep(self, number: int, constant: np.ndarray[Any, Any]) -> None:
        self._constants[number] = constant

    def forget(self, constants: tuple[int, ...]) -> None:
        """Lets these constants go, and everything that was drawn."""
        for number in constants:
            del self._constants[number]
        self.clear()

    def clear(self) -> None:
        self._arrays.clear()
        let_go()

    def sets(self, load: Load, seed: int, count: int) -> list[list[Any]]:
        """Gives sets of a candidate's inputs, which differ in where they lie only.

        Candidates whose arguments have the same types, and of which as many are asked, share them.
        """
        positions = range(len(load.text.inputs))
        columns = [self._copies(load, seed, position, count) for position in positions]
        return [[column[index] for column in columns] for index in range(count)]

    def sets_beyond_cache(self, load: Load) -> int:
        """How many sets are twice as large as the last cache together, and one more."""
        return min(MOST_SETS, 2 * self._cache // max(_size(load), 1) + 2)

    def can_be_cold(self, load: Load) -> bool:
        return _size(load) * self.sets_beyond_cache(load) > self._cache

    def _copies(self, load: Load, seed: int, position: int, count: int) -> list[Any]:
        type_ = load.text.inputs[position]
        number = load.constants.get(position)
        wanted = load.draws.get(position)
        origin = (seed, position, wanted) if number is None else (number,)
        place = (count, type_, load.text.x64, *origin)
        if place not in self._arrays:
            if number is None:
                value = draw(type_, seed, position, wanted)
            else:
                value = self._constants[number]
            copies = (jnp.array(value, type_.dtype, copy=True) for _ in range(count))
            kept = number is not None  # as what is made beforehand is where it is used
            self._arrays[place] = [in_large_pages(one) if kept else one for one in copies]
        return self._arrays[place]


def _size(load: Load) -> int:
    return sum(math.prod(each.shape) * jnp.dtype(each.dtype).itemsize for each in load.text.inputs)
