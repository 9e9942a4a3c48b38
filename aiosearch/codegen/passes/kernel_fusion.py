"""Fusion of kernels that run one after the other, where recomputation costs less than memory
traffic.

Problem: what one kernel leaves for the next goes through memory, and all threads wait in between.
If the next computes it itself, several of its blocks may compute the same.

Worked example, rms_norm of f32[128, 64] by [64, 32]: two kernels, a norm and a matrix product,
become `rms_norm_1` with three stages over i < 128, j < 32, j1 < 64. The product is nearly all work,
and has i in common with the norm: 128 blocks along i fill a machine.

Invariant: the fused kernel reads what it computes at the positions where it wrote it
(`is_read_as_written`); both versions of a module are raced, so a wrong guess costs time and no
speed.

Cost: each kernel is tried with its single reader; a fusion begins anew at that place.

See docs/why/kernels.md, "The tile IR".
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count

from ..ir import Buffer, KernelStage, LoopIndex, Module, TileKernel
from .index_unification import is_read_as_written, rename_indices, unify_indices

_ENOUGH_BLOCKS = 64
"""So many blocks keep a machine busy: as many threads as a large CPU has. An estimate."""
_MOST_RECOMPUTATION = 8
"""How many blocks may compute what a block computes for itself; see `_is_profitable`."""
_SMALL_WORK_SHARE = 0.1
"""The share of all work that may be done that often."""


def fuse_kernels(module: Module) -> Module:
    """`module` with kernels moved into the one kernel that reads what they leave, as far as that
    pays.

    All heavy stages of a fused kernel have indices in common, so many that blocks along these fill
    a machine; only stages of little work are repeated by several blocks.
    """
    kernels = list(module.kernels)
    place = 0
    while place < len(kernels):
        fused = _fused_into_reader(kernels, place, module)
        if fused is None:
            place += 1
        else:
            kernels = fused
    return replace(module, kernels=tuple(kernels))


def _fused_into_reader(
    kernels: list[TileKernel], place: int, module: Module
) -> list[TileKernel] | None:
    """The kernels with that at `place` moved into a later one, if only that one reads what it
    fills.
    """
    first = kernels[place]
    readers = [
        number
        for number, kernel in enumerate(kernels)
        if any(buffer in kernel.inputs for buffer in first.outputs)
    ]
    # A buffer that the caller or a second kernel reads has to be written to memory anyway.
    if len(readers) != 1 or any(buffer in module.outputs for buffer in first.outputs):
        return None
    (reader,) = readers
    # The kernels between the two do not read what the first one fills, so it may run later.
    joined = _fused(first, kernels[reader])
    if joined is None:
        return None
    return [*kernels[:place], *kernels[place + 1 : reader], joined, *kernels[reader + 1 :]]


def _fused(first: TileKernel, second: TileKernel) -> TileKernel | None:
    """The kernel of `first` and `second`, or None where that is not legal or does not pay."""
    # Names are unique within a kernel only: the primes keep the indices of the two apart until they
    # are unified.
    primed = {item: LoopIndex(f"{item.name}'", item.size) for item in first.indices}
    stages = unify_indices(
        [*(rename_indices(stage, primed) for stage in first.stages), *second.stages]
    )
    if not is_read_as_written(stages) or not _is_profitable(stages, second.outputs):
        return None
    # Inputs keep the order of the first kernel's, then the second's, without what is now scratch.
    inputs = dict.fromkeys([*first.inputs, *second.inputs])
    inputs_left = tuple(item for item in inputs if item not in first.outputs)
    return _named(TileKernel(second.name, inputs_left, second.outputs, tuple(stages)))


def _is_profitable(stages: list[KernelStage], outputs: tuple[Buffer, ...]) -> bool:
    """Whether blocks along the indices that all heavy stages share are at least
    `_ENOUGH_BLOCKS`.
    """
    folded = {loop_index for stage in stages for loop_index in stage.folded}
    free = {
        loop_index for stage in stages if stage.target in outputs for loop_index in stage.free
    } - folded
    # A stage is heavy if repeating it `_MOST_RECOMPUTATION` times could exceed its share of the
    # work.
    little = _SMALL_WORK_SHARE * sum(stage.work for stage in stages)
    heavy = [stage for stage in stages if stage.work * _MOST_RECOMPUTATION > little]
    # Blocks are cut along `common` only, so no block repeats heavy work of another.
    common = free.intersection(*(stage.free for stage in heavy))
    return math.prod(loop_index.size for loop_index in common) >= _ENOUGH_BLOCKS


def _named(kernel: TileKernel) -> TileKernel:
    """The kernel with a name of its own for each index."""
    names: dict[str, LoopIndex] = {}
    for loop_index in kernel.indices:
        # The primes served to tell indices apart; names for people are without, and numbered where
        # they clash.
        name = base = loop_index.name.rstrip("'")
        numbers = count(1)
        while name in names:
            name = f"{base}{next(numbers)}"
        names[name] = loop_index
    renamed = {loop_index: LoopIndex(name, loop_index.size) for name, loop_index in names.items()}
    return replace(kernel, stages=tuple(rename_indices(stage, renamed) for stage in kernel.stages))
