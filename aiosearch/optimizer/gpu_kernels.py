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
from .kernels import KernelSource

_STEP = 4
"""Tilings side by side are much alike: every so many is taken."""


def gpu_kernel_sources(program: Program, device: Device, most: int) -> list[KernelSource]:
    """At most so many, those of a program in one kernel first.

    There are none where something cannot be printed. Raises TensorError where it cannot be lowered.
    """
    function, _ = names(program)
    plain = replace(lower(program), name=function)
    found: dict[str, KernelSource] = {}
    for module in dict.fromkeys([fused(plain), plain]):
        for one in _of(module, device, max(1, most // 2)):
            found.setdefault(one.source, one)
    return list(found.values())


def _of(module: Module, device: Device, most: int) -> list[KernelSource]:
    try:
        options = [_some(kernel, device, most) for kernel in module.kernels]
        if not all(options):
            return []
        turns = min(most, max(map(len, options), default=0))
        return [_source(module, options, turn) for turn in range(turns)]
    except CannotPrint:
        return []


def _some(kernel: Kernel, device: Device, most: int) -> list[Tiling]:
    return choices(kernel, device)[: most * _STEP : _STEP]


def _source(module: Module, options: Sequence[Sequence[Tiling]], turn: int) -> KernelSource:
    tilings = {
        kernel.name: own[min(turn, len(own) - 1)]
        for kernel, own in zip(module.kernels, options, strict=True)
    }
    told = "; ".join(str(one) for one in tilings.values())
    return KernelSource(
        f"Pallas kernels [{told}]", float(turn), write(module, tilings), module.name
    )
