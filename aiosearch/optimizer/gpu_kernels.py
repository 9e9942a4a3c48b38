"""Ways to run a program on a GPU as Pallas kernels, each as a source that stands alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from ..codegen.fusing import fused
from ..codegen.ir import Module
from ..codegen.lowering import lower
from ..codegen.pallas import CannotPrint, Parted, Tiling, different, name_of, write
from ..codegen.plans import Plan, Plans, best
from ..devices import Device
from ..tensor import Program
from .emit import names
from .places import KernelSource, Place, place_of

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
        self._parted = [own for one in modules if (own := _parted(one, device, told)) is not None]
        self._ways = [
            (at, parting)
            for at, own in enumerate(self._parted)
            for parting in own.promising
            if _is_printed(own.tilings(parting), told)
        ]
        for reason in told:
            tell(left_out(reason))

    def first(self, most: int) -> list[Place]:
        """At most so many, best predicted first, and the first of each module at any rate."""
        ways = [
            [
                place_of(at, one, parting)
                for one in self._parted[at].tilings(parting).first(most, different)
            ]
            for at, parting in self._ways
        ]
        return best(ways, most)

    def beside(self, place: Place) -> list[Place]:
        """The ways that differ in one choice: in a tiling, or in the parts of a kernel's folds."""
        at, parting = place.module, place.parting
        own = self._parted[at]
        near = own.tilings(parting).beside(place.points)
        return [
            *(place_of(at, one, parting) for one in near),
            *(place_of(at, one, other) for other, one in own.beside(parting, place.points)),
        ]

    def source(self, place: Place) -> KernelSource:
        """What runs it; raises IllegalPointError where there is no such place, or CannotPrint."""
        plan = self._parted[place.module].tilings(place.parting).at(place.points)
        text = write(plan.module, plan.schedules)
        return KernelSource(_how(plan), plan.seconds, text, name_of(plan.module))


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


def _parted(module: Module, device: Device, told: dict[str, None]) -> Parted | None:
    """All ways to run a module; where there are none, why not."""
    try:
        return Parted(module, device)
    except CannotPrint as error:
        told[str(error)] = None
        return None


def _is_printed(found: Plans[Tiling], told: dict[str, None]) -> bool:
    """Whether one of the first plans can be; of others, why not."""
    refusals = _refusals(found)
    told.update(dict.fromkeys(refusals))
    return not refusals


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
