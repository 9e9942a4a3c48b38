"""`fill`: the sizes of grids and loops with which a program should be fastest.

A program is built once with names for its numbers. Its costs are then formulas, which are evaluated
for all choices at once; memory is planned for the best of them only, and only what is given back is
built again, with its numbers.

The choices of numbers for the named sizes of a program, ranked by what they should cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...devices import Device
from ...tensor import Dim, Kernel, Program, ShapeError, Size
from ...tensor.mugraph import ACCUMULATE
from ...tensor.sizes import Divisor, quotient
from .prediction import Prediction, predict, rank, times
from .shared_memory import BlockPhase, phases
from .size_values import Numbers, SizeValues, takes_all
from .work import KernelWork, works


class SizeChoices:
    """The choices for one program on one device."""

    def __init__(self, program: Program, extents: Mapping[str, int], device: Device) -> None:
        needed = works(program)
        every = SizeValues.of(extents)
        self._values = every.where(_whole(needed, every))
        self._parts = [_Part(work, self._values, device) for work in needed]
        self._traffic = sum((part.traffic for part in self._parts), np.zeros(self._values.count))

    def least(self) -> float:
        """What none costs less than, with all memory there is; infinite where none fits."""
        seconds = sum((part.least for part in self._parts), np.zeros(self._values.count))
        return float(min(seconds, default=math.inf))

    def ranked(self) -> Iterator[dict[str, int]]:
        """Those that fit the device, the best first.

        They come in the order of what they cost with all the memory that there is. Each waits, with
        its memory planned, until none that is still to come can be better.
        """
        least = sum((part.least for part in self._parts), np.zeros(self._values.count))
        waiting: list[tuple[tuple[float, float], int]] = []
        for index in np.lexsort((self._traffic, least)).tolist():
            if least[index] == math.inf:
                break
            while waiting and waiting[0][0] <= rank(least[index], self._traffic[index]):
                yield self._values.sizes(heappop(waiting)[1])
            seconds = sum(part.seconds(index) for part in self._parts)
            if seconds < math.inf:
                heappush(waiting, (rank(seconds, self._traffic[index]), index))
        while waiting:
            yield self._values.sizes(heappop(waiting)[1])


class _Part:
    """What one kernel costs by each choice."""

    def __init__(self, work: KernelWork, values: SizeValues, device: Device) -> None:
        load = times(work, device, values)
        self.traffic: Numbers = load.cache_bytes
        self._values, self._device = values, device
        self._alone: Numbers = load.seconds(1)
        """The seconds where a unit has room for one block."""
        self._shared: Numbers = load.seconds(math.inf)
        self._plans = {} if work.kernel is None else _plans(work.kernel)
        self.least: Numbers = self._shared
        if work.kernel is not None:
            self._range = values(work.kernel.range)
            self.least = np.where(self._bound() <= device.shared_bytes, self._shared, math.inf)

    def seconds(self, index: int) -> float:
        """What one choice costs; infinite where a block needs too much memory."""
        if not self._plans:
            return float(self._shared[index])
        phases = self._plans[bool(self._range[index] > 1)]
        shared = max(phase.least(lambda dim: int(self._values(dim)[index])) for phase in phases)
        resident = self._device.resident(shared)
        if not resident:
            return math.inf
        return float((self._alone if resident < 2 else self._shared)[index])

    def _bound(self) -> Numbers:
        """No order of steps needs less memory."""
        once, loop = (
            reduce(np.maximum, (phase.bound(self._values) for phase in self._plans[looped]))
            for looped in (False, True)
        )
        found: Numbers = np.where(self._range > 1, loop, once)
        return found


def _plans(kernel: Kernel) -> dict[bool, tuple[BlockPhase, ...]]:
    return {looped: phases(kernel, looped) for looped in (True, False)}


def _whole(needed: list[KernelWork], values: SizeValues) -> NDArray[np.bool_]:
    """Where every tile has whole sizes."""
    fits = np.ones(values.count, dtype=bool)
    for dim in dict.fromkeys(dim for work in needed for dim in _sizes(work)):
        found = values(dim)
        fits &= (found >= 1) & (found == np.floor(found))
    return fits


def _sizes(work: KernelWork) -> Iterator[Dim]:
    """The sizes that a kernel's tiles have, and how often one is folded."""
    for term in work.kernel.body if work.kernel else ():
        yield from term.shape
        if term.operator is ACCUMULATE and term.parameter("kind") == "redtox":
            folded = quotient(term.arguments[0].shape[-1], term.parameter("columns"))
            if folded is not None:
                yield folded


pass


Build: TypeAlias = Callable[[Mapping[str, Dim]], Program]
"""Makes a program with these numbers; raises ShapeError where they do not fit.

With names in their place it makes the program that all of them have in common.
"""


@dataclass(frozen=True)
class Filling:
    """A choice of numbers, and what comes of it."""

    sizes: dict[str, int]
    program: Program
    prediction: Prediction


def fill(build: Build, extents: Mapping[str, int], device: Device, most: int = 1) -> list[Filling]:
    """The choices with which a program should be fastest, the best first.

    `extents` has for each name the number that it has to divide. All divisors are tried; of many
    names, where that would be too much, powers of two and some others. There is nothing where no
    choice fits the device.
    """
    named = _named(build, extents)
    found: list[Filling] = []
    for sizes in SizeChoices(named, extents, device).ranked():
        if len(found) == most:
            break
        try:
            program = build(sizes)
        except ShapeError:
            continue
        found.append(Filling(sizes, program, predict(program, device)))
    return sorted(found, key=lambda filling: filling.prediction.rank)


def least_of(build: Build, extents: Mapping[str, int], device: Device) -> float:
    """What no choice takes less than; nothing, where there are more than can be tried."""
    if not takes_all(extents):
        return 0.0
    try:
        return SizeChoices(_named(build, extents), extents, device).least()
    except ShapeError:
        return math.inf


def _named(build: Build, extents: Mapping[str, int]) -> Program:
    return build({name: Size.named(Divisor(name)) for name in extents})
