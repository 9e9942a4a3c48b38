"""Ways to run a program on a GPU as Pallas kernels, each as a source that stands alone."""

from __future__ import annotations

from dataclasses import replace

from ..codegen.fusing import fused
from ..codegen.ir import Module
from ..codegen.lowering import lower
from ..codegen.pallas import CannotPrint, Tiling, all_plans, different, modules, write
from ..codegen.plans import Plan, Plans
from ..devices import Device
from ..tensor import Program
from .emit import names
from .places import KernelSource, Place, Planned


class GpuKernels:
    """All ways to run one program, with folds in parts where that may be faster.

    Raises TensorError where it cannot be lowered. There are no ways where it cannot be printed.
    """

    def __init__(self, program: Program, device: Device) -> None:
        function, _ = names(program)
        plain = replace(lower(program), name=function)
        modules = dict.fromkeys([fused(plain), plain])
        plans = [own for module in modules for own in _plans(module, device)]
        self._planned = Planned(plans, different)

    def first(self, most: int) -> list[Place]:
        """At most so many, best predicted first, and the first of each module at any rate."""
        return self._planned.first(most)

    def beside(self, place: Place) -> list[Place]:
        """The ways that differ in one choice."""
        return self._planned.beside(place)

    def source(self, place: Place) -> KernelSource:
        """What runs it; raises IllegalPointError where there is no such place, or CannotPrint."""
        plan = self._planned.plan(place)
        text = write(plan.module, plan.schedules)
        return KernelSource(_how(plan), plan.seconds, text, plan.module.name)


def gpu_kernel_sources(program: Program, device: Device, most: int) -> list[KernelSource]:
    """At most so many, best predicted first; raises TensorError where it cannot be lowered."""
    kernels = GpuKernels(program, device)
    return [kernels.source(one) for one in kernels.first(most)]


def _plans(module: Module, device: Device) -> list[Plans[Tiling]]:
    """Of the module, as it is and in parts; nothing where it cannot be printed."""
    try:
        found = [all_plans(one, device) for one in modules(module, device)]
        for own in found:
            first = next(own.first(1, different))
            write(first.module, first.schedules)
    except CannotPrint:
        return []
    return found


def _how(plan: Plan[Tiling]) -> str:
    return f"Pallas kernels [{'; '.join(map(str, plan.schedules.values()))}]"
