"""Kernels that transpose inputs beforehand, where the rows that columns share are strided in
memory.

A register tile of r rows loads one element of each row per step. Rows are mostly a power of two
apart and so compete for one set of L1: with more rows than L1 has ways, a line is evicted before
its next element is read. In a transposed copy, in panels of r rows, the elements of a step are
contiguous, one line or less. The copy is made once for all blocks, and for all kernels of a module
that want the same.

Example: X[16, 4096] of f32 has rows 16 KiB apart, which share one of the 64 sets of an L1 with 8
ways. Transposed into panels of 16, step k loads 64 contiguous bytes.
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
"""Elements of each row that one block of a transposing kernel copies: long enough that a block's
lines are mostly its own."""
_WHOLE_AXIS = (Affine(), 1)
"""Position and size of an axis of size one."""


def with_transposes(
    module: Module, schedules: Mapping[str, Schedule]
) -> tuple[Module, dict[str, Schedule]]:
    """The module with a transposing kernel for each input that a schedule transposes, and schedules
    in which nothing is left to transpose."""
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
            # Two kernels that ask for the same layout and element type share one copy.
            if way not in copies:
                copy = Buffer(f"{buffer.name}.{next(names)}", held[buffer], buffer.shape)
                copies[way] = copy
                kernels.append(_transpose_kernel(buffer, copy))
                transposed_schedules[copy.name] = _schedule(copy, layout)
        read = {
            buffer: copies[buffer, layout, held[buffer]] for buffer, layout in requested.items()
        }
        kernels.append(_reading_transposes(kernel, read) if read else kernel)
        # To the kernel, the copy is an input in a packed layout whose columns all lanes share.
        laid = {
            read[buffer].name: replace(layout, shared=True) for buffer, layout in requested.items()
        }
        transposed_schedules[kernel.name] = replace(
            schedule, layouts={**schedule.layouts, **laid}, transposed={}
        )
    return replace(module, kernels=tuple(kernels)), transposed_schedules


def _unused_suffixes(module: Module) -> Iterator[str]:
    """Yields `turned0`, `turned1`, ... as far as no buffer or kernel has a name that ends so."""
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
    """Whether a stage reduces a whole input with another operand, for several columns that all read
    the same rows.

    Only such loads read the transposed copy; other loads of the input are left as they are.
    """
    axes = zip(load.at, load.buffer.shape, strict=True)
    sized = [
        (single_index(position), size) for position, size in axes if (position, size) != _WHOLE_AXIS
    ]
    places = [place for place, _ in sized]
    # A copy of the whole input serves every block; a part of it would be transposed for elements
    # nobody reads.
    whole = all(place is not None and place.size == size for place, size in sized)
    once = len(set(places)) == len(places)
    columns = set(stage.free) - set(places)
    return bool(whole and once and stage.folded and columns) and len(stage.loads) > 1


def transposing_threads(layout: PackedLayout, shape: tuple[int, ...], threads: int) -> int:
    """Threads that have a block to transpose, at most."""
    return max(1, min(threads, -(-shape[layout.row] // _STEPS_PER_BLOCK)))


def _transpose_kernel(buffer: Buffer, copy: Buffer) -> TileKernel:
    """The kernel that copies a `buffer`; the layout of the copy's schedule makes it a transpose."""
    loops = (LoopIndex(f"i{axis}", size) for axis, size in enumerate(buffer.shape))
    at = tuple(map(index, loops))
    return TileKernel(
        copy.name, (buffer,), (copy,), (KernelStage(copy, at, BufferLoad(buffer, at)),)
    )


def _schedule(copy: Buffer, layout: PackedLayout) -> Schedule:
    """Blocks of all rows and `_STEPS_PER_BLOCK` steps."""
    return Schedule({f"i{layout.row}": _STEPS_PER_BLOCK}, layouts={copy.name: layout})


def _reading_transposes(kernel: TileKernel, copies: Mapping[Buffer, Buffer]) -> TileKernel:
    """The `kernel` with its shared loads served by the copies."""
    stages = tuple(_of_copies(stage, copies) for stage in kernel.stages)
    read = {load.buffer for stage in stages for load in stage.loads}
    inputs = tuple(buffer for buffer in (*kernel.inputs, *copies.values()) if buffer in read)
    return replace(kernel, inputs=inputs, stages=stages)


def _of_copies(stage: KernelStage, copies: Mapping[Buffer, Buffer]) -> KernelStage:
    """The `stage` with its shared loads served by the copies."""

    def changed(load: BufferLoad) -> BufferLoad:
        if load.buffer not in copies or not is_shared(stage, load):
            return load
        return replace(load, buffer=copies[load.buffer])

    return replace(stage, value=map_loads(stage.value, changed))
