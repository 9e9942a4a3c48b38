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
    producers = {stage.target: stage for stage in kernel.stages}
    levels = _levels(kernel, serial)
    passes = [SerialPass() for _ in range(max(levels.values(), default=0) + 1)]
    for stage in kernel.stages:
        level = levels[stage.target]
        if serial is None or serial not in stage.indices:
            passes[level].before.append(stage)
        else:
            passes[level].along.append(stage)
    for number, serial_pass in enumerate(passes):
        if not keeps:
            serial_pass.along = _with_recomputed_stages(
                serial_pass.along, producers, serial, number, levels
            )
    return passes


def tiles_read_later(kernel: TileKernel, serial: LoopIndex | None) -> frozenset[Buffer]:
    """What is made tile by tile in one pass and read in another."""
    levels = _levels(kernel, serial)
    producers = {stage.target: stage for stage in kernel.stages}
    return frozenset(
        load.buffer
        for stage in kernel.stages
        for load in stage.loads
        if load.buffer in producers
        and serial in producers[load.buffer].free
        and levels[load.buffer] < levels[stage.target]
    )


def _levels(kernel: TileKernel, serial: LoopIndex | None) -> dict[Buffer, int]:
    """In which pass each stage runs first; copies of inputs where they are wanted first."""
    producers = {stage.target: stage for stage in kernel.stages}
    levels: dict[Buffer, int] = {}
    first_reads: dict[Buffer, int] = {}
    for stage in kernel.stages:
        sources = [load.buffer for load in stage.loads if load.buffer in levels]
        level = max(
            (levels[source] + (serial in producers[source].folded) for source in sources), default=0
        )
        levels[stage.target] = level
        for source in sources:
            first_reads[source] = min(level, first_reads.get(source, level))
    for stage in kernel.stages:
        copies = stage.fold is ReductionKind.NONE and not any(
            load.buffer in producers for load in stage.loads
        )
        if copies and stage.target not in kernel.outputs:
            levels[stage.target] = first_reads.get(stage.target, 0)
    return levels


def _with_recomputed_stages(
    stages: list[KernelStage],
    producers: dict[Buffer, KernelStage],
    serial: LoopIndex | None,
    level: int,
    levels: dict[Buffer, int],
) -> list[KernelStage]:
    """With those of earlier passes whose tiles they read, operands first."""
    ordered: dict[Buffer, KernelStage] = {}

    def visit(stage: KernelStage) -> None:
        for load in stage.loads:
            source = producers.get(load.buffer)
            if source is None or source.target in ordered or serial not in source.free:
                continue
            if levels[source.target] < level:
                visit(source)
        ordered.setdefault(stage.target, stage)

    for stage in stages:
        visit(stage)
    return list(ordered.values())
