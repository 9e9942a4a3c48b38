"""Passes of a block along its serial index, and the stages that each runs.

What folds the serial index has its value after a pass along it. A stage that needs that value, and
runs along the same index, does so in another pass, in which what it reads of earlier stages' tiles
is computed again, or was kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import Buffer, KernelStage, LoopIndex, ReductionKind, TileKernel


@dataclass
class SerialPass:
    before: list[KernelStage] = field(default_factory=list)
    """Run once, before the pass."""
    along: list[KernelStage] = field(default_factory=list)
    """Run for each tile of the serial index."""

    def sums(self, serial: LoopIndex | None) -> list[KernelStage]:
        return [stage for stage in self.along if serial in stage.folded]


def serial_passes(
    kernel: TileKernel, serial: LoopIndex | None, *, keeps: bool = False
) -> list[SerialPass]:
    """All stages, operands first; the last pass may have nothing along.

    Where a block keeps what later passes read, none computes it again.
    """
    made = {stage.target: stage for stage in kernel.stages}
    levels = _levels(kernel, serial)
    found = [SerialPass() for _ in range(max(levels.values(), default=0) + 1)]
    for stage in kernel.stages:
        level = levels[stage.target]
        if serial is None or serial not in stage.indices:
            found[level].before.append(stage)
        else:
            found[level].along.append(stage)
    for number, one in enumerate(found):
        if not keeps:
            one.along = _with_recomputed_stages(one.along, made, serial, number, levels)
    return found


def tiles_read_later(kernel: TileKernel, serial: LoopIndex | None) -> frozenset[Buffer]:
    """What is made tile by tile in one pass and read in another."""
    levels = _levels(kernel, serial)
    made = {stage.target: stage for stage in kernel.stages}
    return frozenset(
        load.buffer
        for stage in kernel.stages
        for load in stage.loads
        if load.buffer in made
        and serial in made[load.buffer].free
        and levels[load.buffer] < levels[stage.target]
    )


def _levels(kernel: TileKernel, serial: LoopIndex | None) -> dict[Buffer, int]:
    """In which pass each stage runs first; copies of inputs where they are wanted first."""
    made = {stage.target: stage for stage in kernel.stages}
    levels: dict[Buffer, int] = {}
    wanted: dict[Buffer, int] = {}
    for stage in kernel.stages:
        own = [load.buffer for load in stage.loads if load.buffer in levels]
        level = max((levels[one] + (serial in made[one].folded) for one in own), default=0)
        levels[stage.target] = level
        for one in own:
            wanted[one] = min(level, wanted.get(one, level))
    for stage in kernel.stages:
        copies = stage.fold is ReductionKind.NONE and not any(
            one.buffer in made for one in stage.loads
        )
        if copies and stage.target not in kernel.outputs:
            levels[stage.target] = wanted.get(stage.target, 0)
    return levels


def _with_recomputed_stages(
    stages: list[KernelStage],
    made: dict[Buffer, KernelStage],
    serial: LoopIndex | None,
    level: int,
    levels: dict[Buffer, int],
) -> list[KernelStage]:
    """With those of earlier passes whose tiles they read, operands first."""
    found: dict[Buffer, KernelStage] = {}

    def visit(stage: KernelStage) -> None:
        for load in stage.loads:
            source = made.get(load.buffer)
            if source is None or source.target in found or serial not in source.free:
                continue
            if levels[source.target] < level:
                visit(source)
        found.setdefault(stage.target, stage)

    for stage in stages:
        visit(stage)
    return list(found.values())
