"""Kernels that transpose inputs beforehand, where rows that columns share are far apart in memory.

A product of several rows takes from each of them one element a step. Where these lie far apart, and
by a power of two as they mostly do, a first cache does not keep them until the next step; side by
side they are one line of it. It is done once for all blocks, and for all kernels that want it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from ....tensor.types import DType
from ...ir import (
    Affine,
    Buffer,
    BufferLoad,
    KernelStage,
    LoopIndex,
    Module,
    TileKernel,
    index,
    single_index,
)
from ...ir.simplification import map_loads
from ..packing import PackedLayout
from ..schedule import Schedule
from .precision import widened_buffer

_STEPS_PER_BLOCK = 512
"""Of a block."""
_WHOLE_AXIS = (Affine(), 1)
"""The only place of an axis of size one."""


def with_transposes(
    module: Module, schedules: Mapping[str, Schedule]
) -> tuple[Module, dict[str, Schedule]]:
    """The same, with nothing left to turn, and a schedule for each kernel."""
    kernels: list[TileKernel] = []
    found: dict[str, Schedule] = {}
    copies: dict[tuple[Buffer, PackedLayout, DType], Buffer] = {}
    names = _unused_suffixes(module)
    for kernel in module.kernels:
        own = schedules.get(kernel.name, Schedule())
        assert own.turned.keys().isdisjoint((*own.layouts, *own.panels)), "it lies one way"
        given = {one: own.turned[one.name] for one in kernel.inputs if one.name in own.turned}
        held = {one: (widened_buffer(one) if own.wide else one).dtype for one in given}
        for buffer, layout in given.items():
            way = buffer, layout, held[buffer]
            if way not in copies:
                copy = Buffer(f"{buffer.name}.{next(names)}", held[buffer], buffer.shape)
                copies[way] = copy
                kernels.append(_transpose_kernel(buffer, copy))
                found[copy.name] = _schedule(copy, layout)
        read = {one: copies[one, layout, held[one]] for one, layout in given.items()}
        kernels.append(_reading_transposes(kernel, read) if read else kernel)
        laid = {read[one].name: replace(layout, shared=True) for one, layout in given.items()}
        found[kernel.name] = replace(own, layouts={**own.layouts, **laid}, turned={})
    return replace(module, kernels=tuple(kernels)), found


def _unused_suffixes(module: Module) -> Iterator[str]:
    """Endings of names that nothing in the module has."""
    buffers = {one.name for kernel in module.kernels for one in (*kernel.inputs, *kernel.outputs)}
    known = buffers | {one.name for one in module.inputs} | {one.name for one in module.kernels}
    endings = (f"turned{number}" for number in count())
    return (one for one in endings if not any(name.endswith(f".{one}") for name in known))


def is_shared(stage: KernelStage, load: BufferLoad) -> bool:
    """Whether a stage folds what it reads there, whole, with something else, for several columns.

    Only that is read of a copy.
    """
    axes = zip(load.at, load.buffer.shape, strict=True)
    sized = [
        (single_index(position), size) for position, size in axes if (position, size) != _WHOLE_AXIS
    ]
    places = [one for one, _ in sized]
    whole = all(one is not None and one.size == size for one, size in sized)
    once = len(set(places)) == len(places)
    columns = set(stage.free) - set(places)
    return bool(whole and once and stage.folded and columns) and len(stage.loads) > 1


def transposing_threads(layout: PackedLayout, shape: tuple[int, ...], threads: int) -> int:
    """How many threads at most have something to turn."""
    return max(1, min(threads, -(-shape[layout.row] // _STEPS_PER_BLOCK)))


def _transpose_kernel(buffer: Buffer, copy: Buffer) -> TileKernel:
    own = (LoopIndex(f"i{axis}", size) for axis, size in enumerate(buffer.shape))
    at = tuple(map(index, own))
    return TileKernel(
        copy.name, (buffer,), (copy,), (KernelStage(copy, at, BufferLoad(buffer, at)),)
    )


def _schedule(copy: Buffer, layout: PackedLayout) -> Schedule:
    """Blocks of all rows and some steps, whose lines are mostly their own."""
    return Schedule({f"i{layout.row}": _STEPS_PER_BLOCK}, layouts={copy.name: layout})


def _reading_transposes(kernel: TileKernel, copies: Mapping[Buffer, Buffer]) -> TileKernel:
    """The kernel with products of the copies."""
    stages = tuple(_of_copies(stage, copies) for stage in kernel.stages)
    read = {load.buffer for stage in stages for load in stage.loads}
    kept = tuple(one for one in (*kernel.inputs, *copies.values()) if one in read)
    return replace(kernel, inputs=kept, stages=stages)


def _of_copies(stage: KernelStage, copies: Mapping[Buffer, Buffer]) -> KernelStage:
    def changed(load: BufferLoad) -> BufferLoad:
        if load.buffer not in copies or not is_shared(stage, load):
            return load
        return replace(load, buffer=copies[load.buffer])

    return replace(stage, value=map_loads(stage.value, changed))
