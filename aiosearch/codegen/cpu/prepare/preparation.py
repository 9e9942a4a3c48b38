"""A kernel as its blocks run it: copies of tiles, private tiles, 32-bit accumulators and fused
epilogues, as a `Schedule` asks.

Each change is a function from `TileKernel` to `TileKernel`, in the order of `prepare_kernel`: the
later ones see the buffers that the earlier ones made. Values do not change.

Example: `out[i, j] = sum over k of X[i, k] * W[k, j]` into bf16, serial index k with tile 512, X
copied. There are three stages then: `X.tile0[i, k] = X[i, k]`; `out.sum[i, j] = sum over k of
X.tile0[i, k] * W[k, j]`, f32 accumulators that live across the tiles of k; and `out[i, j] =
out.sum[i, j]`, which rounds once at the end.
"""

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
    """A kernel with everything that its schedule adds to it."""

    kernel: TileKernel
    parallel: tuple[LoopIndex, ...]
    """The indices that are cut into blocks."""
    serial: LoopIndex | None
    """The index along which a block loops tile by tile."""
    panels: Mapping[Buffer, PackedLayout]
    """The packed layouts of tiles that a block packs."""
    endings: Mapping[Buffer, Epilogue]
    """The epilogue of each reduction that has one, by the buffer that it stores."""
    lasting: frozenset[Buffer]
    """Scratch that holds the whole serial index rather than one tile of it."""
    sums: frozenset[Buffer]
    """The result of `buffers_of_float_sums`."""


def prepare_kernel(kernel: TileKernel, schedule: Schedule) -> PreparedKernel:
    """The kernel as `schedule` says: widened, copied, accumulated, private, with epilogues, in this
    order."""
    way = tiled_serial_index(kernel, schedule)
    copying, panels = with_input_copies(
        with_widened_tiles(kernel) if schedule.wide else kernel, schedule
    )
    summing = with_wide_accumulators(copying, way)
    parallel = blocked(summing)
    # Private tiles come after accumulators, as an accumulated output is scratch by then; epilogues
    # last, as they remove stages that others would read.
    tiled = with_private_tiles(summing, parallel)
    laid = {
        buffer: schedule.layouts[buffer.name]
        for buffer in tiled.inputs
        if buffer.name in schedule.layouts
    }
    whole, endings = with_epilogues(tiled, way, {**laid, **panels})
    # Outputs are whole in memory already.
    lasts = (
        tiles_read_later(whole, way) - {*whole.outputs} if schedule.keeps else frozenset[Buffer]()
    )
    assert lasts.isdisjoint(panels), "panels are of one tile"
    return PreparedKernel(
        whole, parallel, way, panels, endings, lasts, buffers_of_float_sums(tiled)
    )


def tiled_serial_index(kernel: TileKernel, schedule: Schedule) -> LoopIndex | None:
    """The serial index of the schedule; `None` if the schedule names none or one tile covers it."""
    named = (loop_index for loop_index in serial(kernel) if loop_index.name == schedule.serial)
    return next(
        (loop_index for loop_index in named if schedule.tile(loop_index) < loop_index.size), None
    )


def with_input_copies(
    kernel: TileKernel, schedule: Schedule
) -> tuple[TileKernel, dict[Buffer, PackedLayout]]:
    """The kernel with a stage that copies each input that `schedule` stages or packs, and the
    packed layouts of these copies."""
    stages: list[KernelStage] = []
    copies: dict[BufferLoad, Buffer] = {}
    panels: dict[Buffer, PackedLayout] = {}
    for stage in kernel.stages:
        # An elementwise stage reads each element once: a copy would only add a store and a load.
        for load in stage.loads if stage.folded else ():
            name = load.buffer.name
            # Equal loads of two stages share one copy.
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
    """The `module` with every output computed by exactly one kernel: an input that is returned, and
    an output that is returned twice, are copied."""
    computed = {buffer for kernel in module.kernels for buffer in kernel.outputs}
    outputs: list[Buffer] = []
    copies: list[TileKernel] = []
    for number, output in enumerate(module.outputs):
        if (output in computed or output not in module.inputs) and output not in outputs:
            outputs.append(output)
            continue
        copy = replace(output, name=f"{output.name}.copy{number}")
        at = tuple(index(LoopIndex(f"i{axis}", size)) for axis, size in enumerate(output.shape))
        stage = KernelStage(copy, at, BufferLoad(output, at))
        copies.append(TileKernel(copy.name, (output,), (copy,), (stage,)))
        outputs.append(copy)
    return replace(module, outputs=tuple(outputs), kernels=(*module.kernels, *copies))


def with_wide_accumulators(kernel: TileKernel, serial: LoopIndex | None) -> TileKernel:
    """The `kernel` with each sum over the serial index kept in scratch, in the type in which it
    accumulates.

    A bf16 output would round at every tile, so it gets f32 accumulators and a stage that rounds at
    the end.
    """
    if serial is None:
        return kernel
    stages: list[KernelStage] = []
    for stage in kernel.stages:
        # Scratch of the accumulating type can hold the sum as it is.
        wide = stage.accumulated is stage.target.dtype
        if serial not in stage.folded or (wide and stage.target not in kernel.outputs):
            stages.append(stage)
            continue
        free = stage.free
        sizes = tuple(loop_index.size for loop_index in free)
        total = Buffer(f"{stage.target.name}.sum", stage.accumulated, sizes)
        places = tuple(map(index, free))
        stages.append(replace(stage, target=total, at=places))
        # The output is stored once, after all serial tiles, and rounded there.
        stages.append(KernelStage(stage.target, stage.at, BufferLoad(total, places)))
    return replace(kernel, stages=tuple(stages))


def with_private_tiles(kernel: TileKernel, parallel: Iterable[LoopIndex]) -> TileKernel:
    """The `kernel` with outputs that other stages read computed into scratch first, where several
    blocks would write the output alike.

    Only one block stores the output itself, so no block reads what another may be writing.
    """
    read = {load.buffer for stage in kernel.stages for load in stage.loads}
    private: dict[Buffer, Buffer] = {}
    stages: list[KernelStage] = []
    for stage in kernel.stages:
        value = map_loads(
            stage.value, lambda load: replace(load, buffer=private.get(load.buffer, load.buffer))
        )
        target = stage.target
        # If each block writes its own part of the output, it may read that part back: no copy is
        # needed.
        if target in kernel.outputs and target in read and not set(parallel) <= set(stage.free):
            private[target] = replace(target, name=f"{target.name}.own")
        stages.append(replace(stage, target=private.get(target, target), value=value))
        if target in private:
            stages.append(KernelStage(target, stage.at, BufferLoad(private[target], stage.at)))
    return replace(kernel, stages=tuple(stages))


def copyable_indices(load: BufferLoad) -> list[LoopIndex] | None:
    """The indices that span a copy of what is loaded; `None` if positions are not single, distinct
    indices."""
    positions = [single_index(load.at[axis]) for axis in load.moving]
    free = [position for position in positions if position is not None]
    return None if len(free) < len(positions) or len(set(free)) < len(free) else free


def _copy(load: BufferLoad, number: int, wide: bool) -> KernelStage | None:
    """The stage that copies a load into a tile of its own, with an axis for each index; `None`
    where that is not possible."""
    free = copyable_indices(load)
    if free is None:
        return None
    shape = tuple(loop_index.size for loop_index in free)
    target = Buffer(f"{load.buffer.name}.tile{number}", load.buffer.dtype, shape)
    return KernelStage(widened_buffer(target) if wide else target, tuple(map(index, free)), load)


def _copy_layout(layout: PackedLayout, load: BufferLoad) -> PackedLayout:
    """The `layout` of a copy, which lacks the axes along which the load has a fixed position."""
    new_axis = load.moving.index
    return replace(layout, row=new_axis(layout.row), column=new_axis(layout.column))


def _reading_copies(stage: KernelStage, copies: Mapping[BufferLoad, Buffer]) -> KernelStage:
    """The `stage` with its loads replaced by loads of the copies."""

    def change(load: BufferLoad) -> BufferLoad:
        if load not in copies:
            return load
        return BufferLoad(copies[load], tuple(load.at[axis] for axis in load.moving))

    return replace(stage, value=map_loads(stage.value, change))
