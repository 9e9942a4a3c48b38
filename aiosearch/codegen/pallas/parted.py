"""All ways to run a module: kernels as they are or with folds in parts, by any of their tilings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeAlias

from .. import ir
from ..parameters import Choice, Point
from ..plans import Plan, Plans, best
from .candidates import by_tiles
from .parting import Parting, Partings
from .tiling import Tiling

if TYPE_CHECKING:
    from ...devices import Device

Points: TypeAlias = tuple[Point, ...]

_STEP = 4
"""Tilings side by side are much alike: every so many is taken."""


class Parted:
    """Of one module on a device: what stands for its kernels is one choice, their tilings another.

    Raises CannotPrint where no tiling of a kernel finds room.
    """

    def __init__(self, module: ir.Module, device: Device) -> None:
        spaces = [Partings(kernel, device) for kernel in module.kernels]
        self._plans = Plans(module, spaces)
        self._known = cache(self._tiled)
        self.promising = self._combined([_worth(one) for one in spaces])
        """The partings of kernels that may be fastest, the best predicted first."""

    def tilings(self, parting: Points) -> Plans[Tiling]:
        """Of what a parting comes to; raises IllegalPointError where it is not legal."""
        return self._known(parting)

    def beside(self, parting: Points, points: Points) -> Iterator[tuple[Points, Plan[Tiling]]]:
        """With another parting of one kernel: what then stands for it has its best tilings."""
        own = self._plans.at(parting).choices
        ends = [0, *accumulate(len(one.schedule) for one in own)]
        for other in self._plans.beside(parting):
            found: list[Point] = []
            for before, now, (begin, end) in zip(own, other.choices, pairwise(ends), strict=True):
                kept = before.point == now.point
                found += points[begin:end] if kept else (one.best.point for one in now.schedule)
            yield other.points, self.tilings(other.points).at(found)

    def _combined(self, ways: Sequence[Sequence[Choice[Parting]]]) -> list[Points]:
        """The fastest way of each kernel, then all as they are, or in parts; the best first."""
        fastest = [min(own, key=lambda way: way.seconds) for own in ways]
        found = (fastest, *([own[at] for own in ways] for at in (0, -1)))
        plans = map(self._plans.at, dict.fromkeys(tuple(one.point for one in own) for own in found))
        return [one.points for one in sorted(plans, key=lambda one: one.seconds)]

    def _tiled(self, parting: Points) -> Plans[Tiling]:
        spaces = [space for one in self._plans.at(parting).choices for space in one.schedule]
        kernels = tuple(space.kernel for space in spaces)
        return Plans(replace(self._plans.module, kernels=kernels), spaces)


def _worth(space: Partings) -> list[Choice[Parting]]:
    """The kernel as it is; then the best of those with a fold in parts, if that may pay.

    One of them alone, where the other finds no room.
    """
    found = space.ways
    whole = next((one for one in found if not any(one.point)), None)
    split = next((one for one in found if any(one.point)), None)
    if whole and split and space.is_busy and split.seconds >= whole.seconds:
        return [whole]
    return [one for one in (whole, split) if one is not None]


def modules(module: ir.Module, device: Device) -> list[ir.Module]:
    """The module, and with folds of its kernels in parts where that may be faster; best first.

    Raises CannotPrint where no tiling of a kernel finds room on the device.
    """
    parted = Parted(module, device)
    return [parted.tilings(one).module for one in parted.promising]


def plans(module: ir.Module, device: Device, most: int) -> list[Plan[Tiling]]:
    """At most so many ways to run a module, the best first: those of the same with other tilings.

    Each of the modules is there once at least, if there is room. Raises CannotPrint as they do.
    """
    parted = Parted(module, device)
    options = [list(parted.tilings(one).first(most, different)) for one in parted.promising]
    return best(options, most)


def different(found: Sequence[Choice[Tiling]], most: int) -> Sequence[Choice[Tiling]]:
    """Those that are unlike each other, the best first."""
    return by_tiles(found)[: most * _STEP : _STEP]
