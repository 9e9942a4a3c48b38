"""Modules in which what schedules want turned is turned, by kernels of their own.

A product of several rows takes from each of them one element a step. Where these lie far apart, and
by a power of two as they mostly do, a first cache does not keep them until the next step; side by
side they are one line of it. It is done once for all blocks, and for all kernels that want it so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..expressions import reloaded
from ..ir import Buffer, Index, Kernel, Load, Module, Stage, index
from .packed import Layout
from .schedule import Schedule

_STEPS = 512
"""Of a block."""


def with_turned(
    module: Module, schedules: Mapping[str, Schedule]
) -> tuple[Module, dict[str, Schedule]]:
    """The same, with nothing left to turn."""
    kernels: dict[str, Kernel] = {}
    found = dict(schedules)
    for kernel in module.kernels:
        own = schedules.get(kernel.name, Schedule())
        copies: dict[Buffer, Buffer] = {}
        for one in kernel.inputs:
            layout = own.turned.get(one.name)
            if layout is None:
                continue
            copies[one] = copy = replace(one, name=f"{one.name}.turned{layout.row}.{layout.width}")
            if copy.name not in kernels:
                kernels[copy.name] = _turning(one, copy)
                found[copy.name] = _schedule(copy, layout)
        kernels[kernel.name] = _reading(kernel, copies) if copies else kernel
        laid = {copies[one].name: replace(own.turned[one.name], shared=True) for one in copies}
        found[kernel.name] = replace(own, layouts={**own.layouts, **laid}, turned={})
    return replace(module, kernels=tuple(kernels.values())), found


def _turning(buffer: Buffer, copy: Buffer) -> Kernel:
    own = (Index(f"i{axis}", size) for axis, size in enumerate(buffer.shape))
    at = tuple(map(index, own))
    return Kernel(copy.name, (buffer,), (copy,), (Stage(copy, at, Load(buffer, at)),))


def _schedule(copy: Buffer, layout: Layout) -> Schedule:
    """Blocks of all rows and some steps: no two of them write the same line."""
    return Schedule({f"i{layout.row}": _STEPS}, layouts={copy.name: layout})


def _reading(kernel: Kernel, copies: Mapping[Buffer, Buffer]) -> Kernel:
    """The kernel with products of the copies."""

    def changed(load: Load) -> Load:
        return replace(load, buffer=copies.get(load.buffer, load.buffer))

    stages = tuple(
        replace(one, value=reloaded(one.value, changed)) if is_product(one) else one
        for one in kernel.stages
    )
    read = {load.buffer for stage in stages for load in stage.loads}
    kept = tuple(one for one in (*kernel.inputs, *copies.values()) if one in read)
    return replace(kernel, inputs=kept, stages=stages)


def is_product(stage: Stage) -> bool:
    """Whether it folds something of several factors."""
    return bool(stage.folded) and len(stage.loads) > 1
