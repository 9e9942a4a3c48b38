"""The schedule space of a CPU kernel, and its schedules ranked by the cost model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...ir import ReductionKind, TileKernel
from ...native.machine import CpuMachine
from ...schedule.space import (
    ScheduleChoice,
    ScheduleConstraint,
    ScheduleParameter,
    ScheduleSpace,
    ranked_choices,
)
from ..cost.kernel_cost import KernelCost
from ..index_roles import IndexRoles, index_roles, packable_inputs
from ..schedule import Schedule
from .parameter_values import vector_width_parameter
from .reduction_space import ReductionSpace

_ELEMENTS_PER_BLOCK = 1 << 15
"""Elements of a block that maps."""


def space(
    kernel: TileKernel, machine: CpuMachine, threads: int, constant: Iterable[str] = ()
) -> ScheduleSpace[Schedule]:
    """All that is free; constant inputs may be laid out beforehand."""
    layouts = packable_inputs(kernel, constant, machine)
    own = index_roles(kernel, machine, layouts)
    predictor = KernelCost(kernel, own, machine, threads)
    if own.stage.fold is ReductionKind.NONE or own.shape.inner is None or own.along is None:
        return _ElementwiseSpace(own, machine, predictor)
    return ReductionSpace(kernel, own, machine, threads, layouts, predictor)


def choices(
    kernel: TileKernel, machine: CpuMachine, threads: int, constant: Iterable[str] = ()
) -> list[Schedule]:
    """All that keep to the limits, best predicted first."""
    found = ranked_choices(space(kernel, machine, threads, constant))
    return [one.schedule for one in found]


def dissimilar_schedules(
    found: Sequence[ScheduleChoice[Schedule]], most: int
) -> list[ScheduleChoice[Schedule]]:
    """The first, and then always the first that uses registers and tiles unlike those before.

    What is left over goes to the best predicted.
    """
    kinds: dict[tuple[object, ...], ScheduleChoice[Schedule]] = {}
    for one in found:
        schedule, wishes = one.schedule, one.schedule.wishes
        coded = any(way.coded for way in schedule.layouts.values())
        laid = bool(schedule.layouts), coded, bool(schedule.panels), bool(schedule.turned)
        held = wishes.rows, wishes.vectors, wishes.matrix
        kinds.setdefault((*held, *laid, schedule.wide, schedule.serial, schedule.keeps), one)
    chosen = list(kinds.values())[: max(1, most * 3 // 4)]
    others = [one for one in found if all(one is not other for other in chosen)]
    return [*chosen, *others[: most - len(chosen)]]


class _ElementwiseSpace:
    """Blocks of whole rows, as many as there is work for."""

    def __init__(self, own: IndexRoles, machine: CpuMachine, predictor: KernelCost) -> None:
        self._own = own
        self.parameters = (
            ScheduleParameter("block", (_ELEMENTS_PER_BLOCK, _ELEMENTS_PER_BLOCK // 8)),
            vector_width_parameter(machine),
        )
        self.constraints = (ScheduleConstraint(("block",), self._cuts_otherwise),)
        self.seconds = predictor.seconds

    def schedule(self, chosen: Mapping[str, Any]) -> Schedule:
        return Schedule(self._tiles(chosen["block"]), width=chosen["width"])

    def _cuts_otherwise(self, block: int) -> bool:
        """Than blocks of the usual size."""
        return block == _ELEMENTS_PER_BLOCK or self._tiles(block) != self._tiles(
            _ELEMENTS_PER_BLOCK
        )

    def _tiles(self, block: int) -> dict[str, int]:
        tiles: dict[str, int] = {}
        held = 1
        for one in reversed(self._own.blocked):
            tile = max(1, min(one.size, block // held))
            tiles[one.name] = tile
            held *= tile
        return tiles
