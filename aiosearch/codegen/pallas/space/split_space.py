"""Split-K candidates: modules whose reductions are shared among more blocks, and their tilings.

A second kernel costs a launch, and what the parts come to goes through memory. So a fold is split
until a kernel's blocks leave no multiprocessor idle, or into a few parts where they do not anyway.

All ways to run a module: kernels as they are or with folds in parts, by any of their tilings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from ....tensor.types import BYTES
from ... import ir
from ...schedule.plans import ModulePlan, ModulePlans, best_plans
from ...schedule.space import (
    Point,
    ScheduleChoice,
    ScheduleConstraint,
    ScheduleParameter,
    ranked_choices,
)
from ..dialect import LEAST_DOT_SIZE
from ..errors import CannotPrint
from ..layout import Tiling, serial
from ..nodes import TileNodes
from .split_reduction import split_kernels
from .tiling_space import TilingSpace, by_tiles, no_tiling_error

if TYPE_CHECKING:
    from ....devices import Device

_MOST_SPLIT_INDICES = 4
"""Blocks for each multiprocessor that parts may give."""
_FEW_PARTS = 4
"""Into no more parts a fold is split that has blocks enough."""

SplitTilings: TypeAlias = tuple[TilingSpace, ...]
"""The tilings of the kernels that stand for one."""


class SplitSpace:
    """The space of what stands for a kernel on a device: of each folded index, its parts."""

    def __init__(self, kernel: ir.TileKernel, device: Device) -> None:
        self._kernel, self._device = kernel, device
        self._whole = (TilingSpace(kernel, device),)
        self._halves = cache(self._halved)
        folded = serial(TileNodes(kernel))
        self.parameters = [ScheduleParameter(one.name, (1, *_split_powers(one))) for one in folded]
        names = tuple(one.name for one in folded)
        self.constraints = [
            *([ScheduleConstraint(names, _one_at_most)] if names else []),
            *([ScheduleConstraint(names, self._is_somewhere)] if names else []),
            *(
                ScheduleConstraint((one.name,), partial(holds, one))
                for one in folded
                for holds in (
                    _are_equal,
                    self._suit_units,
                    self._may_be_joined,
                    self._are_small,
                    self._find_room,
                )
            ),
        ]

    def schedule(self, chosen: Mapping[str, Any]) -> SplitTilings:
        named = next(((name, parts) for name, parts in chosen.items() if parts > 1), None)
        found = self._whole if named is None else self._halves(*named)
        assert found is not None, "a fold that cannot be split is not legal"
        return found

    @property
    def ways(self) -> list[ScheduleChoice[SplitTilings]]:
        """All of them, the best first; raises CannotPrint where there are none."""
        found = ranked_choices(self)
        if not found:
            raise no_tiling_error(self._kernel, self._device)
        return found

    def seconds(self, schedule: SplitTilings) -> float:
        """Each by its best tiling; raises CannotPrint where it has none."""
        return sum(one.best.seconds for one in schedule)

    @property
    def is_busy(self) -> bool:
        """Whether the kernel as it is leaves no multiprocessor idle."""
        return self._blocks >= self._device.units

    @property
    def _blocks(self) -> int:
        """Of the kernel as it is; one, where it only finds room in parts."""
        (whole,) = self._whole
        return whole.demand(whole.best.schedule).blocks if whole.finds_room else 1

    def _halved(self, name: str, parts: int) -> SplitTilings | None:
        """Nothing where what the parts come to cannot be put together."""
        with suppress(CannotPrint):
            return tuple(
                TilingSpace(one, self._device) for one in split_kernels(self._kernel, name, parts)
            )
        return None

    def _is_somewhere(self, *parts: int) -> bool:
        """Whether the kernel as it is finds room, where it is that."""
        (whole,) = self._whole
        return max(parts) > 1 or whole.finds_room

    def _suit_units(self, one: ir.LoopIndex, parts: int) -> bool:
        """Whether units that were idle have a block each, as far as may be, and none too many."""
        if parts == 1 or self.is_busy:
            return parts <= _FEW_PARTS
        most = max(each for each in (1, *_split_powers(one)) if _are_equal(one, each))
        least = min(self._device.units, self._blocks * most)
        return least <= self._blocks * parts <= _MOST_SPLIT_INDICES * self._device.units

    def _may_be_joined(self, one: ir.LoopIndex, parts: int) -> bool:
        return parts == 1 or self._halves(one.name, parts) is not None

    def _are_small(self, one: ir.LoopIndex, parts: int) -> bool:
        """Whether what they come to takes no more bytes than the inputs."""
        found = self._halves(one.name, parts) if parts > 1 else None
        return found is None or _bytes(found[0].kernel.outputs) <= _bytes(self._kernel.inputs)

    def _find_room(self, one: ir.LoopIndex, parts: int) -> bool:
        """Whether both kernels have a tiling."""
        found = self._halves(one.name, parts) if parts > 1 else None
        return found is None or all(half.finds_room for half in found)


def _split_powers(one: ir.LoopIndex) -> list[int]:
    """Powers of two that leave enough of an index to each part."""
    return [1 << bits for bits in range(1, (one.size // LEAST_DOT_SIZE).bit_length())]


def _one_at_most(*parts: int) -> bool:
    return sum(each > 1 for each in parts) <= 1


def _are_equal(one: ir.LoopIndex, parts: int) -> bool:
    return one.size % parts == 0


def _bytes(buffers: Iterable[ir.Buffer]) -> int:
    return sum(math.prod(one.shape) * BYTES[one.dtype] for one in buffers)


pass


SplitPoints: TypeAlias = tuple[Point, ...]

_SPLIT_PLAN_STEP = 4
"""Tilings side by side are much alike: every so many is taken."""


class Parted:
    """Of one module on a device: what stands for its kernels is one choice, their tilings another.

    Raises CannotPrint where no tiling of a kernel finds room.
    """

    def __init__(self, module: ir.Module, device: Device) -> None:
        spaces = [SplitSpace(kernel, device) for kernel in module.kernels]
        self._plans = ModulePlans(module, spaces)
        self._known = cache(self._tiled)
        self.promising = self._combined([_promising_splits(one) for one in spaces])
        """The partings of kernels that may be fastest, the best predicted first."""

    def tilings(self, parting: SplitPoints) -> ModulePlans[Tiling]:
        """Of what a parting comes to; raises IllegalPointError where it is not legal."""
        return self._known(parting)

    def beside(
        self, parting: SplitPoints, points: SplitPoints
    ) -> Iterator[tuple[SplitPoints, ModulePlan[Tiling]]]:
        """With another parting of one kernel: what then stands for it has its best tilings."""
        own = self._plans.at(parting).choices
        ends = [0, *accumulate(len(one.schedule) for one in own)]
        for other in self._plans.beside(parting):
            found: list[Point] = []
            for before, now, (begin, end) in zip(own, other.choices, pairwise(ends), strict=True):
                kept = before.point == now.point
                found += points[begin:end] if kept else (one.best.point for one in now.schedule)
            yield other.points, self.tilings(other.points).at(found)

    def _combined(
        self, ways: Sequence[Sequence[ScheduleChoice[SplitTilings]]]
    ) -> list[SplitPoints]:
        """The fastest way of each kernel, then all as they are, or in parts; the best first."""
        fastest = [min(own, key=lambda way: way.seconds) for own in ways]
        found = (fastest, *([own[at] for own in ways] for at in (0, -1)))
        plans = map(self._plans.at, dict.fromkeys(tuple(one.point for one in own) for own in found))
        return [one.points for one in sorted(plans, key=lambda one: one.seconds)]

    def _tiled(self, parting: SplitPoints) -> ModulePlans[Tiling]:
        spaces = [space for one in self._plans.at(parting).choices for space in one.schedule]
        kernels = tuple(space.kernel for space in spaces)
        return ModulePlans(replace(self._plans.module, kernels=kernels), spaces)


def _promising_splits(space: SplitSpace) -> list[ScheduleChoice[SplitTilings]]:
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


def plans(module: ir.Module, device: Device, most: int) -> list[ModulePlan[Tiling]]:
    """At most so many ways to run a module, the best first: those of the same with other tilings.

    Each of the modules is there once at least, if there is room. Raises CannotPrint as they do.
    """
    parted = Parted(module, device)
    options = [list(parted.tilings(one).first(most, different)) for one in parted.promising]
    return best_plans(options, most)


def different(
    found: Sequence[ScheduleChoice[Tiling]], most: int
) -> Sequence[ScheduleChoice[Tiling]]:
    """Those that are unlike each other, the best first."""
    return by_tiles(found)[: most * _SPLIT_PLAN_STEP : _SPLIT_PLAN_STEP]
