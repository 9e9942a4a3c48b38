"""Choosing numbers: the sizes of grids and loops with which a program should be fastest.

A program is built once with names for its numbers. Its costs are then formulas, which are evaluated
for all choices at once; memory is planned for the best of them only, and only what is given back is
built again, with its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..devices import Device
from ..tensor import Dim, Program, ShapeError, Size
from ..tensor.sizes import Divisor
from .choices import Choices
from .predicting import Prediction, predict
from .values import takes_all

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
    for sizes in Choices(named, extents, device).ranked():
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
        return Choices(_named(build, extents), extents, device).least()
    except ShapeError:
        return math.inf


def _named(build: Build, extents: Mapping[str, int]) -> Program:
    return build({name: Size.named(Divisor(name)) for name in extents})
