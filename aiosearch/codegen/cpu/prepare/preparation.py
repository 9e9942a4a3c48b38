"""Changes of a kernel that its schedule asks for: copies of tiles, private tiles, 32-bit
accumulators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...ir import (
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
from ..reduce.epilogue import Epilogue, with_epilogues
from ..schedule import Schedule, blocked, serial
from .precision import buffers_of_float_sums, widened_buffer, with_widened_tiles
from .serial_passes import tiles_read_later


@dataclass(frozen=True)
class PreparedKernel:
    """A kernel as its blocks run it."""

    kernel: TileKernel
    parallel: tuple[LoopIndex, ...]
    """What is cut into blocks."""
    serial: LoopIndex | None
    """What a block goes along tile by tile."""
    panels: Mapping[Buffer, PackedLayout]
    """How tiles are laid out that are not as the rest."""
    endings: Mapping[Buffer, Epilogue]
    """What else is done to folds before they are stored, by where that is."""
    lasting: frozenset[Buffer]
    """Scratch that is there along the whole serial index, and not only for a tile of it."""
    sums: frozenset[Buffer]
    """What holds sums of floats, or what was made of some."""


def prepare_kernel(kernel: TileKernel, schedule: Schedule) -> PreparedKernel:
    """The kernel with everything that a schedule says of what it keeps and copies."""
    way = tiled_serial_index(kernel, schedule)
    copying, panels = with_input_copies(
        with_widened_tiles(kernel) if schedule.wide else kernel, schedule
    )
    summing = with_wide_accumulators(copying, way)
    parallel = blocked(summing)
    own = with_private_tiles(summing, parallel)
    laid = {one: schedule.layouts[one.name] for one in own.inputs if one.name in schedule.layouts}
    whole, endings = with_epilogues(own, way, {**laid, **panels})
    lasts = (
        tiles_read_later(whole, way) - {*whole.outputs} if schedule.keeps else frozenset[Buffer]()
    )
    assert lasts.isdisjoint(panels), "panels are of one tile"
    return PreparedKernel(whole, parallel, way, panels, endings, lasts, buffers_of_float_sums(own))


def tiled_serial_index(kernel: TileKernel, schedule: Schedule) -> LoopIndex | None:
    """The index that a block goes along, where one tile is not all of it."""
    named = (one for one in serial(kernel) if one.name == schedule.serial)
    return next((one for one in named if schedule.tile(one) < one.size), None)


def with_input_copies(
    kernel: TileKernel, schedule: Schedule
) -> tuple[TileKernel, dict[Buffer, PackedLayout]]:
    """With a stage that copies what is read of each input that is to be copied.

    And how those copies are laid out that are not as they were.
    """
    stages: list[KernelStage] = []
    copies: dict[BufferLoad, Buffer] = {}
    panels: dict[Buffer, PackedLayout] = {}
    for stage in kernel.stages:
        for load in stage.loads if stage.folded else ():
            name = load.buffer.name
            if load in copies or name not in (*schedule.staged, *schedule.panels):
                continue
            copy = _copy(load, len(copies), schedule.wide)
            if copy is not None:
                stages.append(copy)
                copies[load] = copy.target
                if name in schedule.panels:
                    panels[copy.target] = _copy_layout(schedule.panels[name], load)
        stages.append(_reading_copies(stage, copies) if stage.folded else stage)
    return replace(kernel, stages=tuple(stages)), panels


def with_separate_outputs(module: Module) -> Module:
    """With each output filled once, by a kernel: copies of inputs, and of what is given twice."""
    made = {one for kernel in module.kernels for one in kernel.outputs}
    outputs: list[Buffer] = []
    copies: list[TileKernel] = []
    for number, one in enumerate(module.outputs):
        if (one in made or one not in module.inputs) and one not in outputs:
            outputs.append(one)
            continue
        copy = replace(one, name=f"{one.name}.copy{number}")
        at = tuple(index(LoopIndex(f"i{axis}", size)) for axis, size in enumerate(one.shape))
        stage = KernelStage(copy, at, BufferLoad(one, at))
        copies.append(TileKernel(copy.name, (one,), (copy,), (stage,)))
        outputs.append(copy)
    return replace(module, outputs=tuple(outputs), kernels=(*module.kernels, *copies))


def with_wide_accumulators(kernel: TileKernel, serial: LoopIndex | None) -> TileKernel:
    """What is folded over the serial index is kept in scratch, in a type that is wide enough."""
    if serial is None:
        return kernel
    stages: list[KernelStage] = []
    for stage in kernel.stages:
        wide = stage.accumulated is stage.target.dtype
        if serial not in stage.folded or (wide and stage.target not in kernel.outputs):
            stages.append(stage)
            continue
        free = stage.free
        sizes = tuple(one.size for one in free)
        total = Buffer(f"{stage.target.name}.sum", stage.accumulated, sizes)
        places = tuple(map(index, free))
        stages.append(replace(stage, target=total, at=places))
        stages.append(KernelStage(stage.target, stage.at, BufferLoad(total, places)))
    return replace(kernel, stages=tuple(stages))


def with_private_tiles(kernel: TileKernel, parallel: Iterable[LoopIndex]) -> TileKernel:
    """With tiles of its own for each block, of outputs that one block fills and others read."""
    read = {load.buffer for stage in kernel.stages for load in stage.loads}
    own: dict[Buffer, Buffer] = {}
    stages: list[KernelStage] = []
    for stage in kernel.stages:
        value = map_loads(
            stage.value, lambda load: replace(load, buffer=own.get(load.buffer, load.buffer))
        )
        target = stage.target
        if target in kernel.outputs and target in read and not set(parallel) <= set(stage.free):
            own[target] = replace(target, name=f"{target.name}.own")
        stages.append(replace(stage, target=own.get(target, target), value=value))
        if target in own:
            stages.append(KernelStage(target, stage.at, BufferLoad(own[target], stage.at)))
    return replace(kernel, stages=tuple(stages))


def copyable_indices(load: BufferLoad) -> list[LoopIndex] | None:
    """The indices of which a tile can be copied; nothing where places are not indices alone."""
    found = [single_index(load.at[axis]) for axis in load.moving]
    free = [one for one in found if one is not None]
    return None if len(free) < len(found) or len(set(free)) < len(free) else free


def _copy(load: BufferLoad, number: int, wide: bool) -> KernelStage | None:
    """A tile with an axis for each index, where it can be copied."""
    free = copyable_indices(load)
    if free is None:
        return None
    shape = tuple(one.size for one in free)
    target = Buffer(f"{load.buffer.name}.tile{number}", load.buffer.dtype, shape)
    return KernelStage(widened_buffer(target) if wide else target, tuple(map(index, free)), load)


def _copy_layout(layout: PackedLayout, load: BufferLoad) -> PackedLayout:
    """The layout of a copy, which lacks the axes of which one place alone is read."""
    kept = load.moving.index
    return replace(layout, row=kept(layout.row), column=kept(layout.column))


def _reading_copies(stage: KernelStage, copies: Mapping[BufferLoad, Buffer]) -> KernelStage:
    """The stage with loads of the copies."""

    def change(load: BufferLoad) -> BufferLoad:
        if load not in copies:
            return load
        return BufferLoad(copies[load], tuple(load.at[axis] for axis in load.moving))

    return replace(stage, value=map_loads(stage.value, change))
