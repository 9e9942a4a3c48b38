"""`fill`: the sizes of grids and loops with which a program should be fastest.

Problem: a program has a few open numbers, each of which has to divide an extent: 13 choices for a
grid over 4096 columns, and 13 times 13 with a loop. Here all are evaluated at once,
without building a program for each.

Method: a program is built once with names for its numbers. Its costs are then formulas, which are
evaluated for all choices at once; memory is planned for the best of them only (`BlockPhase.least`
is a search), and only what is given back is built again, with its numbers.

Worked example: with `extents` = {"column0": 4096, "range0": 256} there are 13 * 9 = 117 choices;
`SizeChoices.ranked` plans memory for the best until none that is still to come can be better.

Invariant: the time with all memory there is (`_KernelCosts.least`) is a lower bound of the time
with planned memory, so the order in which choices are given back is exact.

Cost: array arithmetic over at most `CHOICES` choices, and one memory plan for each choice that is
taken up.

See docs/why/superoptimizer.md, "Numbers, best first".
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
    """The choices of sizes for one program on one device."""

    def __init__(self, program: Program, extents: Mapping[str, int], device: Device) -> None:
        needed = works(program)
        every = SizeValues.of(extents)
        # Choices that cannot be tiled are dropped before anything is computed of them.
        self._values = every.where(_has_whole_tiles(needed, every))
        self._kernels = [_KernelCosts(work, self._values, device) for work in needed]
        self._traffic = sum((part.traffic for part in self._kernels), np.zeros(self._values.count))

    def least(self) -> float:
        """What no choice costs less than, with all memory there is; infinite where none fits."""
        seconds = sum((part.least for part in self._kernels), np.zeros(self._values.count))
        return float(min(seconds, default=math.inf))

    def ranked(self) -> Iterator[dict[str, int]]:
        """The choices that fit the device, the best first.

        They come in the order of what they cost with all the memory that there is. Each waits, with
        its memory planned, until none that is still to come can be better.
        """
        least = sum((part.least for part in self._kernels), np.zeros(self._values.count))
        waiting: list[tuple[tuple[float, float], int]] = []
        # lexsort takes its last key first: by the least time, and among equals by traffic, as
        # `rank` does.
        for index in np.lexsort((self._traffic, least)).tolist():
            # All that follow are infinite too, as they are sorted.
            if least[index] == math.inf:
                break
            # A waiting choice may be given back once no choice to come can be better even with all
            # memory there is.
            while waiting and waiting[0][0] <= rank(least[index], self._traffic[index]):
                yield self._values.sizes(heappop(waiting)[1])
            seconds = sum(part.seconds(index) for part in self._kernels)
            if seconds < math.inf:
                heappush(waiting, (rank(seconds, self._traffic[index]), index))
        while waiting:
            yield self._values.sizes(heappop(waiting)[1])


class _KernelCosts:
    """What one kernel costs by each choice."""

    def __init__(self, work: KernelWork, values: SizeValues, device: Device) -> None:
        load = times(work, device, values)
        self.traffic: Numbers = load.cache_bytes
        self._values, self._device = values, device
        self._serial_seconds: Numbers = load.seconds(1)
        """The seconds where a unit has room for one block, so that loads and arithmetic add up."""
        self._overlapped_seconds: Numbers = load.seconds(math.inf)
        self._plans = {} if work.kernel is None else _plans(work.kernel)
        self.least: Numbers = self._overlapped_seconds
        if work.kernel is not None:
            self._range = values(work.kernel.range)
            self.least = np.where(
                self._bound() <= device.shared_bytes, self._overlapped_seconds, math.inf
            )

    def seconds(self, index: int) -> float:
        """What the choice at `index` costs; infinite where a block needs too much memory."""
        if not self._plans:
            return float(self._overlapped_seconds[index])
        phases = self._plans[bool(self._range[index] > 1)]
        shared = max(phase.least(lambda dim: int(self._values(dim)[index])) for phase in phases)
        resident = self._device.resident(shared)
        if not resident:
            return math.inf
        return float((self._serial_seconds if resident < 2 else self._overlapped_seconds)[index])

    def _bound(self) -> Numbers:
        """The bytes of shared memory that no order of steps does without."""
        # The loop of a block of one iteration is no loop, and its memory plan another; which it is
        # depends on the choice.
        once, loop = (
            reduce(np.maximum, (phase.bound(self._values) for phase in self._plans[looped]))
            for looped in (False, True)
        )
        bytes_needed: Numbers = np.where(self._range > 1, loop, once)
        return bytes_needed


def _plans(kernel: Kernel) -> dict[bool, tuple[BlockPhase, ...]]:
    return {looped: phases(kernel, looped) for looped in (True, False)}


def _has_whole_tiles(needed: list[KernelWork], values: SizeValues) -> NDArray[np.bool_]:
    """A mask of the choices in which every tile has whole sizes of at least one."""
    fits = np.ones(values.count, dtype=bool)
    for dim in dict.fromkeys(dim for work in needed for dim in _sizes(work)):
        sizes = values(dim)
        fits &= (sizes >= 1) & (sizes == np.floor(sizes))
    return fits


def _sizes(work: KernelWork) -> Iterator[Dim]:
    """The sizes that a kernel's tiles have, and by how much a tile is folded into columns."""
    for term in work.kernel.body if work.kernel else ():
        yield from term.shape
        if term.operator is ACCUMULATE and term.parameter("kind") == "redtox":
            folded = quotient(term.arguments[0].shape[-1], term.parameter("columns"))
            if folded is not None:
                yield folded


Build: TypeAlias = Callable[[Mapping[str, Dim]], Program]
"""Makes a program with these numbers; raises ShapeError where they do not fit.

With names in their place it makes the program that all of them have in common."""


@dataclass(frozen=True)
class Filling:
    """A choice of numbers, the program that has them, and its `Prediction`."""

    sizes: dict[str, int]
    program: Program
    prediction: Prediction


def fill(build: Build, extents: Mapping[str, int], device: Device, most: int = 1) -> list[Filling]:
    """The choices with which a program should be fastest, the best first, at most `most`.

    `extents` has for each name the number that it has to divide. All divisors are tried; of many
    names, where that would be too much, powers of two and some others. There is nothing where no
    choice fits the device.
    """
    named = _named_program(build, extents)
    fillings: list[Filling] = []
    for sizes in SizeChoices(named, extents, device).ranked():
        if len(fillings) == most:
            break
        # A choice that divides every extent may still not divide what two names cut together:
        # `build` has the last word.
        try:
            program = build(sizes)
        except ShapeError:
            continue
        fillings.append(Filling(sizes, program, predict(program, device)))
    return sorted(fillings, key=lambda filling: filling.prediction.rank)


def least_of(build: Build, extents: Mapping[str, int], device: Device) -> float:
    """What no choice takes less than; 0, where there are more choices than can be tried."""
    # A bound must hold for every choice, so one over a sample of them is none.
    if not takes_all(extents):
        return 0.0
    try:
        return SizeChoices(_named_program(build, extents), extents, device).least()
    except ShapeError:
        return math.inf


def _named_program(build: Build, extents: Mapping[str, int]) -> Program:
    return build({name: Size.named(Divisor(name)) for name in extents})
