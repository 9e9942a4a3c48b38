"""Split-K candidates: modules whose reductions are shared among more blocks, and their tilings.

Problem: a second kernel costs a launch, and what the parts come to goes through memory. So a
reduction is split until a kernel's blocks leave no multiprocessor idle, or into a few parts where
they do not anyway. How many kernels there are depends on that choice, so the tilings of each choice
are a space of their own.

Worked example, on an H200 with 132 multiprocessors: a product of bf16[64, 4096] by [4096, 4096] has
128 blocks in its best tiling. `modules` gives it with its reduction in parts first, `p_parts` and
`p`, and then as it is.

Invariant: at most one index of a kernel is split; both kernels of a split have a legal tiling;
parts take no more bytes than the inputs.

Cost: a tiling space for each split that is asked about, which `cache` computes once.

See docs/why/kernels.md, "Folds in parts".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeAlias

from ....tensor.types import BYTES
from ... import ir
from ...errors import CannotPrint
from ...schedule.plans import ModulePlan, ModulePlans, best_plans
from ...schedule.space import (
    ParameterValues,
    Point,
    ScheduleChoice,
    ScheduleConstraint,
    ScheduleParameter,
    ranked_choices,
)
from ..dialect import LEAST_DOT_SIZE
from ..layout import Tiling, serial
from ..nodes import TileNodes
from .split_reduction import split_kernels
from .tiling_space import TilingSpace, by_tiles, no_tiling_error

if TYPE_CHECKING:
    from ....devices import Device

_MOST_BLOCKS_PER_MULTIPROCESSOR = 4
"""Blocks for each multiprocessor that parts may give, at most."""
_FEW_PARTS = 4
"""Into no more parts a reduction is split that has blocks enough."""

SplitTilings: TypeAlias = tuple[TilingSpace, ...]
"""The tilings of the kernels that stand for one kernel."""


class SplitSpace:
    """The space of what stands for `kernel` on `device`: for each reduced index, into how many
    parts.
    """

    def __init__(self, kernel: ir.TileKernel, device: Device) -> None:
        self._kernel, self._device = kernel, device
        self._whole = (TilingSpace(kernel, device),)
        # Three constraints and the schedule ask for the same split: it is made once.
        self._halves = cache(self._halved)
        folded = serial(TileNodes(kernel))
        self.parameters = [
            ScheduleParameter(loop_index.name, (1, *_split_powers(loop_index)))
            for loop_index in folded
        ]
        names = tuple(loop_index.name for loop_index in folded)
        self.constraints = [
            *([ScheduleConstraint(names, _one_at_most)] if names else []),
            *([ScheduleConstraint(names, self._is_somewhere)] if names else []),
            *(
                ScheduleConstraint((loop_index.name,), partial(holds, loop_index))
                for loop_index in folded
                for holds in (
                    _are_equal,
                    self._suit_units,
                    self._may_be_joined,
                    self._are_small,
                    self._find_room,
                )
            ),
        ]

    def schedule(self, chosen: ParameterValues) -> SplitTilings:
        named = next(((name, parts) for name, parts in chosen.items() if parts > 1), None)
        tilings = self._whole if named is None else self._halves(*named)
        assert tilings is not None, "a reduction that cannot be split is not legal"
        return tilings

    @property
    def ways(self) -> list[ScheduleChoice[SplitTilings]]:
        """All choices, the best first; raises CannotPrint where there are none."""
        ranked = ranked_choices(self)
        if not ranked:
            raise no_tiling_error(self._kernel, self._device)
        return ranked

    def seconds(self, schedule: SplitTilings) -> float:
        """The sum of the kernels in `schedule`, each by its best tiling; raises CannotPrint where
        one has none.
        """
        return sum(space.best.seconds for space in schedule)

    @property
    def is_busy(self) -> bool:
        """Whether the kernel as it is leaves no multiprocessor idle."""
        return self._blocks >= self._device.units

    @property
    def _blocks(self) -> int:
        """The blocks of the kernel as it is; one, where it only finds room in parts."""
        (whole,) = self._whole
        return whole.demand(whole.best.schedule).blocks if whole.finds_room else 1

    def _halved(self, name: str, parts: int) -> SplitTilings | None:
        """The tilings of both kernels of a split of `name` into `parts`; None where the parts
        cannot be combined.
        """
        with suppress(CannotPrint):
            return tuple(
                TilingSpace(half, self._device) for half in split_kernels(self._kernel, name, parts)
            )
        return None

    def _is_somewhere(self, *parts: int) -> bool:
        """Whether the kernel finds room where it is not split."""
        (whole,) = self._whole
        return max(parts) > 1 or whole.finds_room

    def _suit_units(self, loop_index: ir.LoopIndex, parts: int) -> bool:
        """Whether `parts` give idle multiprocessors a block each, as far as may be, and not too
        many blocks.
        """
        if parts == 1 or self.is_busy:
            return parts <= _FEW_PARTS
        # With few equal parts to choose from, not all multiprocessors can have a block: then the
        # most parts are right.
        most = max(
            count for count in (1, *_split_powers(loop_index)) if _are_equal(loop_index, count)
        )
        least = min(self._device.units, self._blocks * most)
        return least <= self._blocks * parts <= _MOST_BLOCKS_PER_MULTIPROCESSOR * self._device.units

    def _may_be_joined(self, loop_index: ir.LoopIndex, parts: int) -> bool:
        """Whether the parts can be combined."""
        return parts == 1 or self._halves(loop_index.name, parts) is not None

    def _are_small(self, loop_index: ir.LoopIndex, parts: int) -> bool:
        """Whether the parts take no more bytes than the inputs."""
        halves = self._halves(loop_index.name, parts) if parts > 1 else None
        return halves is None or _bytes(halves[0].kernel.outputs) <= _bytes(self._kernel.inputs)

    def _find_room(self, loop_index: ir.LoopIndex, parts: int) -> bool:
        """Whether both kernels have a tiling."""
        halves = self._halves(loop_index.name, parts) if parts > 1 else None
        return halves is None or all(half.finds_room for half in halves)


def _split_powers(loop_index: ir.LoopIndex) -> list[int]:
    """Powers of two that leave at least `LEAST_DOT_SIZE` of an index to each part."""
    return [1 << bits for bits in range(1, (loop_index.size // LEAST_DOT_SIZE).bit_length())]


def _one_at_most(*parts: int) -> bool:
    """Whether no more than one index is split."""
    return sum(count > 1 for count in parts) <= 1


def _are_equal(loop_index: ir.LoopIndex, parts: int) -> bool:
    """Whether `parts` are equally large."""
    return loop_index.size % parts == 0


def _bytes(buffers: Iterable[ir.Buffer]) -> int:
    return sum(math.prod(buffer.shape) * BYTES[buffer.dtype] for buffer in buffers)


SplitPoints: TypeAlias = tuple[Point, ...]
"""A point of each kernel's space."""

_SPLIT_PLAN_STEP = 4
"""Tilings next to each other in rank are much alike: one in so many is taken."""


class Parted:
    """The plans of one module on a device: what stands for its kernels is one choice, their tilings
    another.

    Raises CannotPrint where no tiling of a kernel finds room.
    """

    def __init__(self, module: ir.Module, device: Device) -> None:
        spaces = [SplitSpace(kernel, device) for kernel in module.kernels]
        self._plans = ModulePlans(module, spaces)
        self._known = cache(self._tiled)
        self.promising = self._combined([_promising_splits(space) for space in spaces])
        """The partings of kernels that may be fastest, the best predicted first."""

    def tilings(self, parting: SplitPoints) -> ModulePlans[Tiling]:
        """The plans of a choice of splits; raises IllegalPointError where it is not legal."""
        return self._known(parting)

    def beside(
        self, parting: SplitPoints, points: SplitPoints
    ) -> Iterator[tuple[SplitPoints, ModulePlan[Tiling]]]:
        """Other splits of one kernel: what then stands for it has its best tilings, other kernels
        keep theirs.
        """
        choices = self._plans.at(parting).choices
        # `points` has the tilings of all kernels in one row; these are the borders of what stands
        # for each.
        ends = [0, *accumulate(len(choice.schedule) for choice in choices)]
        for plan in self._plans.beside(parting):
            combined: list[Point] = []
            for before, now, (begin, end) in zip(
                choices, plan.choices, pairwise(ends), strict=True
            ):
                unchanged = before.point == now.point
                combined += (
                    points[begin:end]
                    if unchanged
                    else (choice.best.point for choice in now.schedule)
                )
            yield plan.points, self.tilings(plan.points).at(combined)

    def _combined(
        self, ways: Sequence[Sequence[ScheduleChoice[SplitTilings]]]
    ) -> list[SplitPoints]:
        """Splits of all kernels, the best predicted first: the fastest of each, all as they are,
        and all in parts.
        """
        fastest = [min(options, key=lambda way: way.seconds) for options in ways]
        combinations = (fastest, *([options[at] for options in ways] for at in (0, -1)))
        plans = map(
            self._plans.at,
            dict.fromkeys(tuple(choice.point for choice in options) for options in combinations),
        )
        return [choice.points for choice in sorted(plans, key=lambda choice: choice.seconds)]

    def _tiled(self, parting: SplitPoints) -> ModulePlans[Tiling]:
        """The plans of the tilings of all kernels that stand for the module's."""
        spaces = [space for choice in self._plans.at(parting).choices for space in choice.schedule]
        kernels = tuple(space.kernel for space in spaces)
        return ModulePlans(replace(self._plans.module, kernels=kernels), spaces)


def _promising_splits(space: SplitSpace) -> list[ScheduleChoice[SplitTilings]]:
    """The kernel as it is; then the best of those with a reduction in parts, if that may pay.

    It is one of them alone, where the other finds no room.
    """
    ranked = space.ways
    whole = next((choice for choice in ranked if not any(choice.point)), None)
    split = next((choice for choice in ranked if any(choice.point)), None)
    # With enough blocks a split only pays by prediction; with idle multiprocessors it is tried even
    # if predicted slower.
    if whole and split and space.is_busy and split.seconds >= whole.seconds:
        return [whole]
    return [choice for choice in (whole, split) if choice is not None]


def modules(module: ir.Module, device: Device) -> list[ir.Module]:
    """The module, and with reductions of its kernels in parts where that may be faster; best first.

    Raises CannotPrint where no tiling of a kernel finds room on the device.
    """
    parted = Parted(module, device)
    return [parted.tilings(parting).module for parting in parted.promising]


def plans(module: ir.Module, device: Device, most: int) -> list[ModulePlan[Tiling]]:
    """At most `most` ways to run a module, the best first, with tilings that differ.

    Each of `modules` is there once at least, if there is room. Raises CannotPrint as they do.
    """
    parted = Parted(module, device)
    options = [list(parted.tilings(parting).first(most, different)) for parting in parted.promising]
    return best_plans(options, most)


def different(
    ranked: Sequence[ScheduleChoice[Tiling]], most: int
) -> Sequence[ScheduleChoice[Tiling]]:
    """Choices that are unlike each other, the best first, at most `most`."""
    return by_tiles(ranked)[: most * _SPLIT_PLAN_STEP : _SPLIT_PLAN_STEP]
