"""Passes of a block along its serial index, and the stages that each pass runs.

The problem: a reduction over the serial index has its value only after all tiles. A stage that
needs that value and runs along the same index has to run in another pass, for which the tiles of
earlier stages are computed again, or were kept.

Example: softmax of scores over the serial index l: `s[l]`, `m = max over l of s[l]`, `e[l] =
exp(s[l] - m)`, `z = sum over l of e[l]`, `out[l] = e[l] / z`. Pass 0 runs s and m tile by tile.
Pass 1 needs m: it runs s again, then e and z. Pass 2 needs z: s, e and out. With `keeps`, pass 1
runs e and z only, and pass 2 only out, as s and e were kept for the whole of l.

Invariant: stages stay in the order of the kernel within a pass, so operands come first. The level
of a stage is the number of the pass in which it first runs: the maximum over its operands of their
level, plus one for each operand that reduces the serial index. Cost: linear in the loads of the
kernel, times the passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import Buffer, KernelStage, LoopIndex, ReductionKind, TileKernel


@dataclass
class SerialPass:
    """One pass of a block."""

    before: list[KernelStage] = field(default_factory=list)
    """Stages that run once, before the loop of the pass."""
    along: list[KernelStage] = field(default_factory=list)
    """Stages that run for each tile of the serial index."""

    def sums(self, serial: LoopIndex | None) -> list[KernelStage]:
        """The stages of the loop that reduce the `serial` index, whose accumulators have to be
        initialised before it."""
        return [stage for stage in self.along if serial in stage.folded]


def serial_passes(
    kernel: TileKernel, serial: LoopIndex | None, *, keeps: bool = False
) -> list[SerialPass]:
    """The passes that run all stages of a kernel; the last pass may have nothing in its loop.

    With `keeps`, tiles that later passes read are kept and none is computed twice.
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
    """Buffers that one pass computes tile by tile and a later pass reads: what `Schedule.keeps` has
    to keep whole."""
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
    """The pass in which each stage first runs.

    Copies of inputs run in the first pass that reads them, not in the first of all.
    """
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
        # A copy depends on no stage, so its level would be 0, where it may fill the caches for
        # nothing.
        copies = stage.reduction is ReductionKind.NONE and not any(
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
    """The `stages` of a pass, preceded by those of earlier passes whose tiles they read."""
    ordered: dict[Buffer, KernelStage] = {}

    def visit(stage: KernelStage) -> None:
        for load in stage.loads:
            source = producers.get(load.buffer)
            if source is None or source.target in ordered or serial not in source.free:
                continue
            if levels[source.target] < level:
                visit(source)
        # A dictionary keeps insertion order: operands are visited, and so inserted, before their
        # reader.
        ordered.setdefault(stage.target, stage)

    for stage in stages:
        visit(stage)
    return list(ordered.values())
