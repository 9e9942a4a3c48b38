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
"""One for each choice."""

CHOICES = 1 << 15
"""How many choices are looked at, at most."""


def number(dim: Dim) -> int:
    """A size that is known."""
    return NUMBERS.number(dim, "a prediction")


def divisors(extent: int, most: int) -> list[int]:
    """A number's divisors; of too many the powers of two first, then others, spread evenly."""
    small = [each for each in range(1, math.isqrt(extent) + 1) if extent % each == 0]
    found = sorted({*small, *(extent // each for each in small)})
    if len(found) <= most:
        return found
    powers = _spread([each for each in found if each & (each - 1) == 0], most)
    others = [each for each in found if each & (each - 1)]
    return sorted(powers + _spread(others, most - len(powers)))


def _spread(found: list[int], most: int) -> list[int]:
    """As many as that, the first and the last among them."""
    if len(found) <= most:
        return found
    steps = max(1, most - 1)
    return [found[place * (len(found) - 1) // steps] for place in range(most)]


def takes_all(extents: Mapping[str, int]) -> bool:
    """Whether `Values.of` takes every combination."""
    most = _most(extents)
    return all(len(divisors(extent, most + 1)) <= most for extent in extents.values())


def _most(extents: Mapping[str, int]) -> int:
    return int(CHOICES ** (1 / max(1, len(extents))))


class SizeValues:
    """Combinations of numbers; called with a size it gives what that comes to in each of them."""

    def __init__(self, arrays: Mapping[str, Numbers], count: int) -> None:
        self._arrays = arrays
        self._known: dict[Dim, Numbers] = {}
        self.count = count

    @classmethod
    def of(cls, extents: Mapping[str, int]) -> SizeValues:
        """Every combination of divisors, one of each extent, as far as there are not too many."""
        most = _most(extents)
        values = [divisors(extent, most) for extent in extents.values()]
        grids = np.meshgrid(*(np.array(each, dtype=float) for each in values), indexing="ij")
        arrays = dict(zip(extents, (grid.ravel() for grid in grids), strict=True))
        return cls(arrays, math.prod(map(len, values)))

    def where(self, mask: NDArray[np.bool_]) -> SizeValues:
        """Some of the combinations."""
        arrays = {name: numbers[mask] for name, numbers in self._arrays.items()}
        return SizeValues(arrays, int(mask.sum()))

    def sizes(self, index: int) -> dict[str, int]:
        """One combination."""
        return {name: int(numbers[index]) for name, numbers in self._arrays.items()}

    def __call__(self, dim: Dim) -> Numbers:
        found = self._known.get(dim)
        if found is None:
            found = self._known[dim] = self._evaluated(dim)
        return found

    def _evaluated(self, dim: Dim) -> Numbers:
        if isinstance(dim, int):
            return np.full(self.count, float(dim))
        for name in dim.names - self._arrays.keys():
            raise ShapeError(f"{dim}: {name} is no number to choose")
        total = np.zeros(self.count)
        for powers, factor in dim.terms:
            term = np.full(self.count, float(factor))
            for name, power in sorted(powers, key=lambda item: -item[1]):
                own = self._arrays[name] ** abs(power)
                term = term * own if power > 0 else term / own
            total = total + term
        return total
