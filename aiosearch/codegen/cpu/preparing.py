"""Changes of a kernel that a schedule asks for: copies of tiles, accumulators in 32 bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..expressions import reloaded
from ..ir import Buffer, Index, Kernel, Load, Module, Stage, alone, index
from .endings import Ending, with_endings
from .packed import Layout
from .passes import lasting
from .schedule import Schedule, blocked, serial
from .sums import sums
from .widening import widened, wider


@dataclass(frozen=True)
class Prepared:
    """A kernel as its blocks run it."""

    kernel: Kernel
    parallel: tuple[Index, ...]
    """What is cut into blocks."""
    serial: Index | None
    """What a block goes along tile by tile."""
    panels: Mapping[Buffer, Layout]
    """How tiles are laid out that are not as the rest."""
    endings: Mapping[Buffer, Ending]
    """What else is done to folds before they are stored, by where that is."""
    lasting: frozenset[Buffer]
    """Scratch that is there along the whole serial index, and not only for a tile of it."""
    sums: frozenset[Buffer]
    """What holds sums of floats, or what was made of some."""


def prepared(kernel: Kernel, schedule: Schedule) -> Prepared:
    """The kernel with everything that a schedule says of what it keeps and copies."""
    way = along(kernel, schedule)
    copying, panels = staged(widened(kernel) if schedule.wide else kernel, schedule)
    summing = accumulating(copying, way)
    parallel = blocked(summing)
    own = private(summing, parallel)
    laid = {one: schedule.layouts[one.name] for one in own.inputs if one.name in schedule.layouts}
    whole, endings = with_endings(own, way, {**laid, **panels})
    lasts = lasting(whole, way) - {*whole.outputs} if schedule.keeps else frozenset[Buffer]()
    assert lasts.isdisjoint(panels), "panels are of one tile"
    return Prepared(whole, parallel, way, panels, endings, lasts, sums(own))


def along(kernel: Kernel, schedule: Schedule) -> Index | None:
    """The index that a block goes along, where one tile is not all of it."""
    named = (one for one in serial(kernel) if one.name == schedule.serial)
    return next((one for one in named if schedule.tile(one) < one.size), None)


def staged(kernel: Kernel, schedule: Schedule) -> tuple[Kernel, dict[Buffer, Layout]]:
    """With a stage that copies what is read of each input that is to be copied.

    And how those copies are laid out that are not as they were.
    """
    stages: list[Stage] = []
    copies: dict[Load, Buffer] = {}
    panels: dict[Buffer, Layout] = {}
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
                    panels[copy.target] = _of_copy(schedule.panels[name], load)
        stages.append(_copied(stage, copies) if stage.folded else stage)
    return replace(kernel, stages=tuple(stages)), panels


def separated(module: Module) -> Module:
    """With each output filled once, by a kernel: copies of inputs, and of what is given twice."""
    made = {one for kernel in module.kernels for one in kernel.outputs}
    outputs: list[Buffer] = []
    copies: list[Kernel] = []
    for number, one in enumerate(module.outputs):
        if (one in made or one not in module.inputs) and one not in outputs:
            outputs.append(one)
            continue
        copy = replace(one, name=f"{one.name}.copy{number}")
        at = tuple(index(Index(f"i{axis}", size)) for axis, size in enumerate(one.shape))
        stage = Stage(copy, at, Load(one, at))
        copies.append(Kernel(copy.name, (one,), (copy,), (stage,)))
        outputs.append(copy)
    return replace(module, outputs=tuple(outputs), kernels=(*module.kernels, *copies))


def accumulating(kernel: Kernel, serial: Index | None) -> Kernel:
    """What is folded over the serial index is kept in scratch, in a type that is wide enough."""
    if serial is None:
        return kernel
    stages: list[Stage] = []
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
        stages.append(Stage(stage.target, stage.at, Load(total, places)))
    return replace(kernel, stages=tuple(stages))


def private(kernel: Kernel, parallel: Iterable[Index]) -> Kernel:
    """With tiles of its own for each block, of outputs that one block fills and others read."""
    read = {load.buffer for stage in kernel.stages for load in stage.loads}
    own: dict[Buffer, Buffer] = {}
    stages: list[Stage] = []
    for stage in kernel.stages:
        value = reloaded(
            stage.value, lambda load: replace(load, buffer=own.get(load.buffer, load.buffer))
        )
        target = stage.target
        if target in kernel.outputs and target in read and not set(parallel) <= set(stage.free):
            own[target] = replace(target, name=f"{target.name}.own")
        stages.append(replace(stage, target=own.get(target, target), value=value))
        if target in own:
            stages.append(Stage(target, stage.at, Load(own[target], stage.at)))
    return replace(kernel, stages=tuple(stages))


def copied(load: Load) -> list[Index] | None:
    """The indices of which a tile can be copied; nothing where places are not indices alone."""
    found = [alone(load.at[axis]) for axis in load.moving]
    free = [one for one in found if one is not None]
    return None if len(free) < len(found) or len(set(free)) < len(free) else free


def _copy(load: Load, number: int, wide: bool) -> Stage | None:
    """A tile with an axis for each index, where it can be copied."""
    free = copied(load)
    if free is None:
        return None
    shape = tuple(one.size for one in free)
    target = Buffer(f"{load.buffer.name}.tile{number}", load.buffer.dtype, shape)
    return Stage(wider(target) if wide else target, tuple(map(index, free)), load)


def _of_copy(layout: Layout, load: Load) -> Layout:
    """The layout of a copy, which lacks the axes of which one place alone is read."""
    kept = load.moving.index
    return replace(layout, row=kept(layout.row), column=kept(layout.column))


def _copied(stage: Stage, copies: Mapping[Load, Buffer]) -> Stage:
    """The stage with loads of the copies."""

    def change(load: Load) -> Load:
        if load not in copies:
            return load
        return Load(copies[load], tuple(load.at[axis] for axis in load.moving))

    return replace(stage, value=reloaded(stage.value, change))
