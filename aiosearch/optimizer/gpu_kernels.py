"""Ways to run a program on a GPU as Pallas kernels, each as a source that stands alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..codegen.fusing import fused
from ..codegen.ir import Module
from ..codegen.lowering import lower
from ..codegen.pallas import CannotPrint, Tiling, all_plans, different, modules, write
from ..codegen.plans import Plan, Plans
from ..devices import Device
from ..tensor import Program
from .emit import names
from .places import KernelSource, Place, best


class GpuKernels:
    """All ways to run one program, with folds in parts where that may be faster.

    Raises TensorError where it cannot be lowered. There are no ways where it cannot be printed.
    """

    def __init__(self, program: Program, device: Device) -> None:
        function, _ = names(program)
        plain = replace(lower(program), name=function)
        self._plans: list[Plans[Tiling]] = []
        for module in dict.fromkeys([fused(plain), plain]):
            self._plans += _plans(module, device)

    def first(self, most: int) -> list[Place]:
        """At most so many, best predicted first, and the first of each module at any rate."""
        return best([list(self._first(at, most)) for at in range(len(self._plans))], most)

    def beside(self, place: Place) -> list[Place]:
        """The ways that differ in one choice."""
        plans = self._plans[place.module].beside(place.points)
        return [Place(place.module, one.points, one.seconds) for one in plans]

    def source(self, place: Place) -> KernelSource:
        """What runs it; raises LookupError where there is no such place, or it does not print."""
        plan = self._plans[place.module].at(place.points)
        try:
            text = write(plan.module, plan.schedules)
        except CannotPrint as error:
            raise LookupError(str(error)) from None
        return KernelSource(_how(plan), plan.seconds, text, plan.module.name)

    def _first(self, module: int, most: int) -> Iterator[Place]:
        for one in self._plans[module].first(most, different):
            yield Place(module, one.points, one.seconds)


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
