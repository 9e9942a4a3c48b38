"""GPU kernel candidates for Mosaic: the same modules as for Triton, in tilings of a warpgroup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...codegen.ir import Module
from ...codegen.pallas import CannotPrint, Tiling, mosaic_choices, name_of, write_mosaic
from ...codegen.schedule.space import ScheduleChoice
from ...devices import Device
from .candidate_names import kernels_name
from .schedule_point import KernelSource, SchedulePoint


@dataclass(frozen=True)
class _WarpgroupModule:
    """A module with the choices of each of its kernels, the best predicted first."""

    module: Module
    choices: Sequence[Sequence[ScheduleChoice[Tiling]]]


class MosaicKernels:
    """All ways to run some modules as kernels of Mosaic GPU.

    `offset` is the `SchedulePoint.module` of the first one. A point of a kernel is the place of its
    tiling among those of the kernel, best predicted first. Modules with a kernel that suits no
    warpgroup are left out, and `tell` hears why.
    """

    def __init__(
        self, modules: Sequence[Module], device: Device, offset: int, tell: Callable[[str], None]
    ) -> None:
        self._offset = offset
        self._modules: list[_WarpgroupModule] = []
        for module in modules:
            try:
                choices = [mosaic_choices(kernel, device) for kernel in module.kernels]
            except CannotPrint as error:
                tell(str(error))
            else:
                self._modules.append(_WarpgroupModule(module, choices))

    def has(self, place: SchedulePoint) -> bool:
        """Whether `place` is of one of these modules, rather than of Triton's."""
        return place.module >= self._offset

    def first(self, most: int) -> list[list[SchedulePoint]]:
        """At most `most` points of each module, best predicted first."""
        return [
            [
                self._point(at, [min(rank, len(choices) - 1) for choices in planned.choices])
                for rank in range(min(most, max(map(len, planned.choices), default=0)))
            ]
            for at, planned in enumerate(self._modules)
        ]

    def neighbours(self, place: SchedulePoint) -> list[SchedulePoint]:
        """The points in which one kernel has the next better or the next worse tiling."""
        at = place.module - self._offset
        ranks = [point[0] for point in place.points]
        near = [
            [*ranks[:kernel], rank + step, *ranks[kernel + 1 :]]
            for kernel, rank in enumerate(ranks)
            for step in (-1, 1)
            if 0 <= rank + step < len(self._modules[at].choices[kernel])
        ]
        return [self._point(at, changed) for changed in near]

    def source(self, place: SchedulePoint) -> KernelSource:
        """What runs a point."""
        planned = self._modules[place.module - self._offset]
        tilings = {
            kernel.name: choices[point[0]].schedule
            for kernel, choices, point in zip(
                planned.module.kernels, planned.choices, place.points, strict=True
            )
        }
        text = write_mosaic(planned.module, tilings)
        how = kernels_name(planned.module.kernels, kind="Mosaic")
        schedule = f"[{'; '.join(map(str, tilings.values()))}]"
        return KernelSource(how, place.seconds, text, name_of(planned.module), schedule=schedule)

    def _point(self, at: int, ranks: Sequence[int]) -> SchedulePoint:
        choices = self._modules[at].choices
        seconds = tuple(ranked[rank].seconds for ranked, rank in zip(choices, ranks, strict=True))
        return SchedulePoint(self._offset + at, tuple((rank,) for rank in ranks), seconds)
