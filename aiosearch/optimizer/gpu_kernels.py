"""Ways to run a program on a GPU as Pallas kernels, each as a source that stands alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
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

_TRIED = 4
"""Plans of a module that are printed until one can be."""


class GpuKernels:
    """All ways to run one program, with folds in parts where that may be faster.

    Raises TensorError where it cannot be lowered. What cannot be printed is left out, and `tell`
    hears why.
    """

    def __init__(
        self, program: Program, device: Device, tell: Callable[[str], None] = lambda text: None
    ) -> None:
        function, _ = names(program)
        plain = replace(lower(program), name=function)
        told: dict[str, None] = {}
        modules = dict.fromkeys([fused(plain), plain])
        plans = [own for module in modules for own in _plans(module, device, told)]
        for reason in told:
            tell(left_out(reason))
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
    found = []
    for one in kernels.first(most):
        with suppress(CannotPrint):
            found.append(kernels.source(one))
    return found


def left_out(reason: object) -> str:
    """How it is told that there are fewer kernels than there could be."""
    return f"kernels are left out: {reason}"


def _plans(module: Module, device: Device, told: dict[str, None]) -> Iterator[Plans[Tiling]]:
    """Of the module, as it is and in parts, those that can be printed; of others, why not."""
    try:
        ways = modules(module, device)
    except CannotPrint as error:
        told[str(error)] = None
        return
    for one in ways:
        found = all_plans(one, device)
        refusals = _refusals(found)
        told.update(dict.fromkeys(refusals))
        if not refusals:
            yield found


def _refusals(found: Plans[Tiling]) -> list[str]:
    """Why each of the first plans has no text; nothing where one has."""
    reasons = []
    for one in found.first(_TRIED, different):
        try:
            write(one.module, one.schedules)
        except CannotPrint as error:  # a tiling may have no text where another one has
            reasons.append(str(error))
        else:
            return []
    return reasons


def _how(plan: Plan[Tiling]) -> str:
    return f"Pallas kernels [{'; '.join(map(str, plan.schedules.values()))}]"
