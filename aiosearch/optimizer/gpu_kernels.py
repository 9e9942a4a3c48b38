"""Ways to run a program on a GPU as Pallas kernels, each as a source that stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..codegen.fusing import fused
from ..codegen.ir import Kernel, Module
from ..codegen.lowering import lower
from ..codegen.pallas import CannotPrint, Tiling, choices, write
from ..devices import Device
from ..tensor import Program
from .emit import names
from .places import KernelSource, Place

_STEP = 4
"""Tilings side by side are much alike: every so many is taken."""


class GpuKernels:
    """All ways to run one program; raises TensorError where it cannot be lowered."""

    def __init__(self, program: Program, device: Device) -> None:
        function, _ = names(program)
        plain = replace(lower(program), name=function)
        self._modules = list(dict.fromkeys([fused(plain), plain]))
        self._options = [_options(module, device) for module in self._modules]

    def first(self, most: int) -> list[Place]:
        """At most so many, those of a program in one kernel first.

        There are none where something cannot be printed.
        """
        found = [
            Place(module, tuple((min(turn, len(own) - 1),) for own in options), 1.0 + turn)
            for module, options in enumerate(self._options)
            for turn in range(min(max(1, most // 2), max(map(len, options), default=0)))
        ]
        return found[:most]

    def beside(self, place: Place) -> list[Place]:
        return []

    def source(self, place: Place) -> KernelSource:
        """What runs it; raises LookupError where there is no such place."""
        module, options = self._modules[place.module], self._options[place.module]
        tilings = {
            kernel.name: own[at]
            for kernel, own, (at,) in zip(module.kernels, options, place.points, strict=True)
        }
        told = "; ".join(map(str, tilings.values()))
        return KernelSource(
            f"Pallas kernels [{told}]", place.seconds, write(module, tilings), module.name
        )


def gpu_kernel_sources(program: Program, device: Device, most: int) -> list[KernelSource]:
    """At most so many; raises TensorError where it cannot be lowered."""
    kernels = GpuKernels(program, device)
    return [kernels.source(one) for one in kernels.first(most)]


def _options(module: Module, device: Device) -> Sequence[Sequence[Tiling]]:
    """Of each kernel; nothing where one cannot be printed."""
    try:
        found = [_some(kernel, device) for kernel in module.kernels]
        write(
            module, {kernel.name: own[0] for kernel, own in zip(module.kernels, found, strict=True)}
        )
    except CannotPrint:
        return []
    return found


def _some(kernel: Kernel, device: Device) -> list[Tiling]:
    return choices(kernel, device)[::_STEP]
