"""How a kernel goes over its data: which axes its grid and its loop split, and into how many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from testkit.random_mugraphs.regions import Axis, Region

LOOP = 3
"""The slot behind the three axes of a grid."""

MOST_BLOCKS = 16
MOST_ITERATIONS = 4


@dataclass(frozen=True)
class Schedule:
    """Three grid axes and the loop: how many each, and the class of axes that each splits."""

    counts: tuple[int, ...]
    classes: tuple[Axis | None, ...]

    def without(self, random: Random) -> Schedule:
        """The same with one of the four that splits nothing, where one did."""
        used = [slot for slot, count in enumerate(self.counts) if count > 1]
        gone = random.choice(used) if used else None
        return Schedule(
            tuple(1 if slot == gone else count for slot, count in enumerate(self.counts)),
            tuple(None if slot == gone else own for slot, own in enumerate(self.classes)),
        )


def schedule(own: Region, random: Random) -> Schedule:
    """A random one, which mostly splits what can be split."""
    draw = _Draw(own, random)
    for slot in range(random.randint(1, 3)):
        draw.split(slot, draw.contracted if random.random() < 0.3 else draw.kept)
    if random.random() < 0.75:
        draw.split(LOOP, draw.contracted)
    return Schedule(tuple(draw.counts), tuple(draw.classes))


class _Draw:
    def __init__(self, own: Region, random: Random) -> None:
        first, *others = (own.classes((output, None)) for output in own.outputs)
        self.kept = [axis for axis in first if axis and all(axis in other for other in others)]
        """The classes of axes that all outputs have."""
        summed = (axis for term in own.terms for axis in own.contracted(term))
        self.contracted = list(dict.fromkeys(summed))
        self.counts = [1] * (LOOP + 1)
        self.classes: list[Axis | None] = [None] * (LOOP + 1)
        self._left = {axis: _size(axis) for axis in (*self.kept, *self.contracted)}
        self._random = random

    def split(self, slot: int, pool: Sequence[Axis]) -> None:
        """Splits one of these classes, where it can be; two grid axes split no class both."""
        free = [axis for axis in pool if slot == LOOP or axis not in self.classes]
        if not free:
            return
        axis = self._random.choice(free)
        room = MOST_BLOCKS // math.prod(self.counts[:LOOP]) if slot < LOOP else MOST_ITERATIONS
        divisors = [n for n in (2, 3, 4) if self._left[axis] % n == 0 and n <= room]
        if divisors:
            self.counts[slot], self.classes[slot] = self._random.choice(divisors), axis
            self._left[axis] //= self.counts[slot]


def _size(axis: Axis) -> int:
    (term, _), own = axis
    size = term.shape[own]
    assert isinstance(size, int)
    return size
