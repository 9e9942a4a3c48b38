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
    roles = index_roles(kernel, machine, layouts)
    predictor = KernelCost(kernel, roles, machine, threads)
    if roles.stage.fold is ReductionKind.NONE or roles.shape.inner is None or roles.along is None:
        return _ElementwiseSpace(roles, machine, predictor)
    return ReductionSpace(kernel, roles, machine, threads, layouts, predictor)


def choices(
    kernel: TileKernel, machine: CpuMachine, threads: int, constant: Iterable[str] = ()
) -> list[Schedule]:
    """All that keep to the limits, best predicted first."""
    ranked = ranked_choices(space(kernel, machine, threads, constant))
    return [choice.schedule for choice in ranked]


def dissimilar_schedules(
    ranked: Sequence[ScheduleChoice[Schedule]], most: int
) -> list[ScheduleChoice[Schedule]]:
    """The first, and then always the first that uses registers and tiles unlike those before.

    What is left over goes to the best predicted.
    """
    kinds: dict[tuple[object, ...], ScheduleChoice[Schedule]] = {}
    for choice in ranked:
        schedule, request = choice.schedule, choice.schedule.registers
        coded = any(way.coded for way in schedule.layouts.values())
        laid = bool(schedule.layouts), coded, bool(schedule.panels), bool(schedule.transposed)
        held = request.rows, request.vectors, request.matrix
        kinds.setdefault((*held, *laid, schedule.wide, schedule.serial, schedule.keeps), choice)
    chosen = list(kinds.values())[: max(1, most * 3 // 4)]
    remaining = [choice for choice in ranked if all(choice is not picked for picked in chosen)]
    return [*chosen, *remaining[: most - len(chosen)]]


class _ElementwiseSpace:
    """Blocks of whole rows, as many as there is work for."""

    def __init__(self, roles: IndexRoles, machine: CpuMachine, predictor: KernelCost) -> None:
        self._roles = roles
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
        for index in reversed(self._roles.blocked):
            tile = max(1, min(index.size, block // held))
            tiles[index.name] = tile
            held *= tile
        return tiles
