"""GPU kernel candidates: the schedules of a program as Pallas kernels, each as a source that stands
alone; for Mosaic the same modules as for Triton, in tilings of a warpgroup.

A schedule is a tiling for each kernel, and where a reduction is long and rows are few, its
partition (`Parted`): several blocks reduce parts of it, and one more kernel puts these together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from ...codegen.ir import Module
from ...codegen.lower.lowering import lower
from ...codegen.pallas import (
    CannotPrint,
    Parted,
    Tiling,
    different,
    mosaic_choices,
    name_of,
    write,
    write_mosaic,
)
from ...codegen.passes.kernel_fusion import fuse_kernels
from ...codegen.schedule.plans import ModulePlan, ModulePlans, best_plans
from ...codegen.schedule.space import ScheduleChoice
from ...devices import Device
from ...tensor import Program
from .candidate_names import kernels_name
from .jax_source import names
from .schedule_point import KernelSource, SchedulePoint, point_of

_TRIED = 4
"""Plans of a module that are printed until one can be: else nothing of it is offered."""


class KernelPrinter(StrEnum):
    """Which compiler the kernels are printed for."""

    TRITON = "triton"
    MOSAIC = "mosaic"


class GpuKernels:
    """All ways to run one program, with reductions in parts where that may be faster.

    Raises `TensorError` where it cannot be lowered. What cannot be printed is left out, and `tell`
    hears why. With both `printers` the kernels that suit a warpgroup are offered in two texts, as
    only a race on the device says which is faster.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        tell: Callable[[str], None] = lambda text: None,
        *,
        printers: Iterable[KernelPrinter] = (KernelPrinter.TRITON,),
    ) -> None:
        function, _ = names(program)
        plain = replace(lower(program), name=function)
        # Each reason once, in order: many tilings fail for one.
        reasons: dict[str, None] = {}
        # A `dict`, as fusion may change nothing.
        modules = dict.fromkeys([fuse_kernels(plain), plain])
        printers = set(printers)
        triton = modules if KernelPrinter.TRITON in printers else ()
        self._parted = [
            parted for module in triton if (parted := _parted(module, device, reasons)) is not None
        ]
        self._ways = [
            (at, parting)
            for at, parted in enumerate(self._parted)
            for parting in parted.promising
            if _is_printed(parted.tilings(parting), reasons)
        ]
        self._mosaic = MosaicKernels(
            list(modules) if KernelPrinter.MOSAIC in printers else [],
            device,
            len(self._parted),
            lambda reason: reasons.update({reason: None}),
        )
        for reason in reasons:
            tell(describe_missing_kernels(reason))

    def first(self, most: int) -> list[SchedulePoint]:
        """At most `most` points, best predicted first, and the first of each module at any rate."""
        ways = [
            [
                point_of(at, plan, parting)
                for plan in self._parted[at].tilings(parting).first(most, different)
            ]
            for at, parting in self._ways
        ]
        return best_plans([*ways, *self._mosaic.first(most)], most)

    def code(self, place: SchedulePoint) -> SchedulePoint:
        """The point itself: each tiling has a text of its own."""
        return place

    def neighbours(self, place: SchedulePoint) -> list[SchedulePoint]:
        """The points that differ in one choice: in a tiling, or in how a reduction is parted."""
        if self._mosaic.has(place):
            return self._mosaic.neighbours(place)
        at, parting = place.module, place.parting
        parted = self._parted[at]
        near = parted.tilings(parting).beside(place.points)
        return [
            *(point_of(at, plan, parting) for plan in near),
            *(
                point_of(at, plan, new_parting)
                for new_parting, plan in parted.beside(parting, place.points)
            ),
        ]

    def source(self, place: SchedulePoint) -> KernelSource:
        """What runs a point; raises `IllegalPointError` where there is none, or `CannotPrint`."""
        if self._mosaic.has(place):
            return self._mosaic.source(place)
        plan = self._parted[place.module].tilings(place.parting).at(place.points)
        text = write(plan.module, plan.schedules)
        how = kernels_name(plan.module.kernels, kind="Pallas")
        return KernelSource(how, plan.seconds, text, name_of(plan.module), schedule=_schedule(plan))


def gpu_kernel_sources(
    program: Program, device: Device, most: int, printer: str = KernelPrinter.TRITON
) -> list[KernelSource]:
    """At most `most` sources of one printer, best predicted first; raises `TensorError` where the
    program cannot be lowered. Mosaic's are there only for what suits a warpgroup, as
    `gpu_kernel_sources(program, device, 4, printer="mosaic")`."""
    kernels = GpuKernels(program, device, printers=[KernelPrinter(printer)])
    sources = []
    for point in kernels.first(most):
        with suppress(CannotPrint):
            sources.append(kernels.source(point))
    return sources


def describe_missing_kernels(reason: object) -> str:
    """How a user reads that there are fewer kernels than there could be."""
    return f"kernels are left out: {reason}"


def _parted(module: Module, device: Device, reasons: dict[str, None]) -> Parted | None:
    """All ways to run a module; `None` where there are none, and why is added to `reasons`."""
    try:
        return Parted(module, device)
    except CannotPrint as error:
        reasons[str(error)] = None
        return None


def _is_printed(plans: ModulePlans[Tiling], reasons: dict[str, None]) -> bool:
    """Whether one of the first plans can be printed; of others, why is added to `reasons`."""
    refusals = _refusals(plans)
    reasons.update(dict.fromkeys(refusals))
    return not refusals


def _refusals(plans: ModulePlans[Tiling]) -> list[str]:
    """Why each of the first plans has no text; nothing where one has."""
    reasons = []
    for plan in plans.first(_TRIED, different):
        try:
            write(plan.module, plan.schedules)
        except CannotPrint as error:  # a tiling may have no text where another one has
            reasons.append(str(error))
        else:
            return []
    return reasons


def _schedule(plan: ModulePlan[Tiling]) -> str:
    return f"[{'; '.join(map(str, plan.schedules.values()))}]"


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
