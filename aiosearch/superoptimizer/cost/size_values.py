"""Named sizes evaluated for many choices of their numbers at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...tensor import Dim, ShapeError
from ...tensor.operator import NUMBERS

Figures: TypeAlias = Any
"""A number, or an array with one for each choice."""
Numbers: TypeAlias = NDArray[np.float64]
"""One number for each choice."""

CHOICES = 1 << 15
"""How many choices are looked at, at most: with two names
181 divisors of each."""


def number(dim: Dim) -> int:
    """A size that is known, as an integer."""
    return NUMBERS.number(dim, "a prediction")


def divisors(extent: int, most: int) -> list[int]:
    """The divisors of `extent`, at most `most`; of too many the powers of two first, then others,
    spread evenly.

    `divisors(96, 4)` is `[1, 2, 8, 32]`.
    """
    # Divisors come in pairs, one of which is at most the square root.
    small = [divisor for divisor in range(1, math.isqrt(extent) + 1) if extent % divisor == 0]
    every = sorted({*small, *(extent // divisor for divisor in small)})
    if len(every) <= most:
        return every
    powers = _spread([divisor for divisor in every if divisor & (divisor - 1) == 0], most)
    uneven = [divisor for divisor in every if divisor & (divisor - 1)]
    return sorted(powers + _spread(uneven, most - len(powers)))


def _spread(numbers: list[int], most: int) -> list[int]:
    """Chooses at most `most` of `numbers`, spread evenly, the first and the last among them."""
    if len(numbers) <= most:
        return numbers
    steps = max(1, most - 1)
    return [numbers[place * (len(numbers) - 1) // steps] for place in range(most)]


def takes_all(extents: Mapping[str, int]) -> bool:
    """Whether `SizeValues.of` takes every combination of divisors."""
    most = _divisors_each(extents)
    return all(len(divisors(extent, most + 1)) <= most for extent in extents.values())


def _divisors_each(extents: Mapping[str, int]) -> int:
    return int(CHOICES ** (1 / max(1, len(extents))))


class SizeValues:
    """Combinations of numbers; called with a size it gives what that comes to in each of them."""

    def __init__(self, arrays: Mapping[str, Numbers], count: int) -> None:
        self._arrays = arrays
        self._cache: dict[Dim, Numbers] = {}
        self.count = count

    @classmethod
    def of(cls, extents: Mapping[str, int]) -> SizeValues:
        """Every combination of divisors, one of each extent, as far as there are not more than
        `CHOICES`.
        """
        most = _divisors_each(extents)
        values = [divisors(extent, most) for extent in extents.values()]
        # "ij" keeps the order of names, so that a flat index means the same combination in every
        # array.
        grids = np.meshgrid(*(np.array(column, dtype=float) for column in values), indexing="ij")
        arrays = dict(zip(extents, (grid.ravel() for grid in grids), strict=True))
        return cls(arrays, math.prod(map(len, values)))

    def where(self, mask: NDArray[np.bool_]) -> SizeValues:
        """The combinations at which `mask` is true."""
        arrays = {name: numbers[mask] for name, numbers in self._arrays.items()}
        return SizeValues(arrays, int(mask.sum()))

    def sizes(self, index: int) -> dict[str, int]:
        """The combination at `index`, by name."""
        return {name: int(numbers[index]) for name, numbers in self._arrays.items()}

    def __call__(self, dim: Dim) -> Numbers:
        numbers = self._cache.get(dim)
        if numbers is None:
            numbers = self._cache[dim] = self._evaluated(dim)
        return numbers

    def _evaluated(self, dim: Dim) -> Numbers:
        if isinstance(dim, int):
            return np.full(self.count, float(dim))
        for name in dim.names - self._arrays.keys():
            raise ShapeError(f"{dim}: {name} is no number to choose")
        total = np.zeros(self.count)
        for powers, factor in dim.terms:
            term = np.full(self.count, float(factor))
            # Multiplications before divisions: what divides evenly is then exact in floats.
            for name, power in sorted(powers, key=lambda item: -item[1]):
                scale = self._arrays[name] ** abs(power)
                term = term * scale if power > 0 else term / scale
            total = total + term
        return total
