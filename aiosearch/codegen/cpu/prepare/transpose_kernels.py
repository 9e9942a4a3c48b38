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
    transposed_schedules: dict[str, Schedule] = {}
    copies: dict[tuple[Buffer, PackedLayout, DType], Buffer] = {}
    names = _unused_suffixes(module)
    for kernel in module.kernels:
        schedule = schedules.get(kernel.name, Schedule())
        assert schedule.transposed.keys().isdisjoint((*schedule.layouts, *schedule.panels)), (
            "it lies one way"
        )
        requested = {
            buffer: schedule.transposed[buffer.name]
            for buffer in kernel.inputs
            if buffer.name in schedule.transposed
        }
        held = {
            buffer: (widened_buffer(buffer) if schedule.wide else buffer).dtype
            for buffer in requested
        }
        for buffer, layout in requested.items():
            way = buffer, layout, held[buffer]
            if way not in copies:
                copy = Buffer(f"{buffer.name}.{next(names)}", held[buffer], buffer.shape)
                copies[way] = copy
                kernels.append(_transpose_kernel(buffer, copy))
                transposed_schedules[copy.name] = _schedule(copy, layout)
        read = {
            buffer: copies[buffer, layout, held[buffer]] for buffer, layout in requested.items()
        }
        kernels.append(_reading_transposes(kernel, read) if read else kernel)
        laid = {
            read[buffer].name: replace(layout, shared=True) for buffer, layout in requested.items()
        }
        transposed_schedules[kernel.name] = replace(
            schedule, layouts={**schedule.layouts, **laid}, transposed={}
        )
    return replace(module, kernels=tuple(kernels)), transposed_schedules


def _unused_suffixes(module: Module) -> Iterator[str]:
    """Endings of names that nothing in the module has."""
    buffers = {
        buffer.name for kernel in module.kernels for buffer in (*kernel.inputs, *kernel.outputs)
    }
    taken_names = (
        buffers
        | {kernel.name for kernel in module.inputs}
        | {kernel.name for kernel in module.kernels}
    )
    endings = (f"turned{number}" for number in count())
    return (
        suffix for suffix in endings if not any(name.endswith(f".{suffix}") for name in taken_names)
    )


def is_shared(stage: KernelStage, load: BufferLoad) -> bool:
    """Whether a stage folds what it reads there, whole, with something else, for several columns.

    Only that is read of a copy.
    """
    axes = zip(load.at, load.buffer.shape, strict=True)
    sized = [
        (single_index(position), size) for position, size in axes if (position, size) != _WHOLE_AXIS
    ]
    places = [place for place, _ in sized]
    whole = all(place is not None and place.size == size for place, size in sized)
    once = len(set(places)) == len(places)
    columns = set(stage.free) - set(places)
    return bool(whole and once and stage.folded and columns) and len(stage.loads) > 1


def transposing_threads(layout: PackedLayout, shape: tuple[int, ...], threads: int) -> int:
    """How many threads at most have something to turn."""
    return max(1, min(threads, -(-shape[layout.row] // _STEPS_PER_BLOCK)))


def _transpose_kernel(buffer: Buffer, copy: Buffer) -> TileKernel:
    loops = (LoopIndex(f"i{axis}", size) for axis, size in enumerate(buffer.shape))
    at = tuple(map(index, loops))
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
    inputs = tuple(buffer for buffer in (*kernel.inputs, *copies.values()) if buffer in read)
    return replace(kernel, inputs=inputs, stages=stages)


def _of_copies(stage: KernelStage, copies: Mapping[Buffer, Buffer]) -> KernelStage:
    def changed(load: BufferLoad) -> BufferLoad:
        if load.buffer not in copies or not is_shared(stage, load):
            return load
        return replace(load, buffer=copies[load.buffer])

    return replace(stage, value=map_loads(stage.value, changed))
