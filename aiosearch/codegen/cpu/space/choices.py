"""The schedule space of a CPU kernel, and its schedules ranked by the cost model.

A kernel whose main stage reduces has the space of `reduction_space`; any other has
`_ElementwiseSpace`, as it streams its inputs once and only block size and vector width are left to
choose. `choices` evaluates `KernelCost` for every point that the constraints allow and sorts;
nothing is compiled here. `docs/why/kernels.md` lists what is free and what limits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...ir import ReductionKind, TileKernel
from ...native.machine import CpuMachine
from ...schedule.space import (
    ParameterValues,
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
"""Elements that one block of an elementwise kernel computes: 128 KiB of f32, so that starting a
block costs little and all threads get some. Fitted to the elementwise rows of
`benchmarks/kernels.py`.
"""


def schedule_space(
    kernel: TileKernel, machine: CpuMachine, threads: int, constant: Iterable[str] = ()
) -> ScheduleSpace[Schedule]:
    """The schedule space of a kernel on a machine with so many threads.

    `constant` names the inputs whose packed layouts may be made beforehand, such as weights.
    """
    layouts = packable_inputs(kernel, constant, machine)
    roles = index_roles(kernel, machine, layouts)
    predictor = KernelCost(kernel, roles, machine, threads)
    # Without an inner index to reduce there is no register tile to choose.
    if (
        roles.stage.reduction is ReductionKind.NONE
        or roles.shape.inner is None
        or roles.along is None
    ):
        return _ElementwiseSpace(roles, machine, predictor)
    return ReductionSpace(kernel, roles, machine, threads, layouts, predictor)


def choices(
    kernel: TileKernel, machine: CpuMachine, threads: int, constant: Iterable[str] = ()
) -> list[Schedule]:
    """All schedules that satisfy the constraints of `space`, the best predicted first."""
    ranked = ranked_choices(schedule_space(kernel, machine, threads, constant))
    return [choice.schedule for choice in ranked]


def dissimilar_schedules(
    ranked: Sequence[ScheduleChoice[Schedule]], most: int
) -> list[ScheduleChoice[Schedule]]:
    """At most `most` of the `ranked` schedules to time first: three quarters unlike each other, the
    remaining ones best predicted.

    Two schedules are alike if they agree in register tile, in which inputs are packed and how, in
    widening, in the serial index and in `Schedule.keeps`. The cost model orders tile sizes within
    such a kind better than it compares kinds, so each kind gets a trial before a second tiling of
    another does.
    """
    # Keys hold what changes the machine code's structure; tile sizes and prefetch distances only
    # change its constants.
    kinds: dict[tuple[object, ...], ScheduleChoice[Schedule]] = {}
    for choice in ranked:
        schedule, request = choice.schedule, choice.schedule.registers
        coded = any(way.coded for way in schedule.layouts.values())
        laid = bool(schedule.layouts), coded, bool(schedule.panels), bool(schedule.transposed)
        held = request.rows, request.vectors, request.matrix
        # The first of each kind stays, which is the best predicted, as `ranked` is sorted.
        kinds.setdefault((*held, *laid, schedule.wide, schedule.serial, schedule.keeps), choice)
    chosen = list(kinds.values())[: max(1, most * 3 // 4)]
    remaining = [choice for choice in ranked if all(choice is not picked for picked in chosen)]
    return [*chosen, *remaining[: most - len(chosen)]]


class ElementwiseValues(NamedTuple):
    """The values of a point of the space of kernels without a reduction."""

    block: int
    """The most elements of a block."""
    width: int
    """Bytes of a vector; 0 stands for the widest."""


class _ElementwiseSpace:
    """The space of kernels without a reduction worth a register tile: blocks of whole rows, and the
    width of vectors."""

    def __init__(self, roles: IndexRoles, machine: CpuMachine, predictor: KernelCost) -> None:
        self._roles = roles
        self.parameters = (
            ScheduleParameter("block", (_ELEMENTS_PER_BLOCK, _ELEMENTS_PER_BLOCK // 8)),
            vector_width_parameter(machine),
        )
        self.constraints = (ScheduleConstraint(("block",), self._cuts_otherwise),)
        self.seconds = predictor.seconds

    def schedule(self, chosen: ParameterValues) -> Schedule:
        values = ElementwiseValues(**chosen)
        return Schedule(self._tiles(values.block), width=values.width)

    def _cuts_otherwise(self, block: int) -> bool:
        """Whether blocks of this size have other tiles than blocks of `_ELEMENTS_PER_BLOCK`; small
        outputs are one block either way."""
        return block == _ELEMENTS_PER_BLOCK or self._tiles(block) != self._tiles(
            _ELEMENTS_PER_BLOCK
        )

    def _tiles(self, block: int) -> dict[str, int]:
        # Innermost first, so that a block is contiguous in row-major outputs and the hardware
        # prefetcher follows it.
        """Tile sizes, filled from the innermost index outwards until a block holds `block`
        elements."""
        tiles: dict[str, int] = {}
        held = 1
        for index in reversed(self._roles.blocked):
            tile = max(1, min(index.size, block // held))
            tiles[index.name] = tile
            held *= tile
        return tiles
