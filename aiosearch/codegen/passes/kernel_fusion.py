"""Fusion of kernels that run one after the other, where recomputation costs less than memory
traffic.

What one kernel leaves for the next then never goes through memory, and nobody waits between them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count

from ..ir import Buffer, KernelStage, LoopIndex, Module, TileKernel
from .index_unification import is_read_as_written, rename_indices, unify_indices

_ENOUGH_BLOCKS = 64
"""So many blocks keep a machine busy."""
_MOST_RECOMPUTATION = 8
"""How often what a block computes for itself may be computed by others too."""
_SMALL_WORK_SHARE = 0.1
"""Of all the work, what may be done that often."""


def fuse_kernels(module: Module) -> Module:
    """The same with kernels in those that alone read what they leave, as far as that pays.

    All heavy stages of one kernel have indices in common, so many that blocks along these fill a
    machine; only what is little work is done by several blocks.
    """
    kernels = list(module.kernels)
    place = 0
    while place < len(kernels):
        found = _into_a_later(kernels, place, module)
        if found is None:
            place += 1
        else:
            kernels = found
    return replace(module, kernels=tuple(kernels))


def _into_a_later(kernels: list[TileKernel], place: int, module: Module) -> list[TileKernel] | None:
    """The kernels with one of them in another, if only that one reads what it fills."""
    first = kernels[place]
    readers = [
        number
        for number, other in enumerate(kernels)
        if any(one in other.inputs for one in first.outputs)
    ]
    if len(readers) != 1 or any(one in module.outputs for one in first.outputs):
        return None
    (reader,) = readers
    joined = _joined(first, kernels[reader])
    if joined is None:
        return None
    return [*kernels[:place], *kernels[place + 1 : reader], joined, *kernels[reader + 1 :]]


def _joined(first: TileKernel, second: TileKernel) -> TileKernel | None:
    own = {one: LoopIndex(f"{one.name}'", one.size) for one in first.indices}
    stages = unify_indices(
        [*(rename_indices(stage, own) for stage in first.stages), *second.stages]
    )
    if not is_read_as_written(stages) or not _is_profitable(stages, second.outputs):
        return None
    inputs = dict.fromkeys([*first.inputs, *second.inputs])
    kept = tuple(one for one in inputs if one not in first.outputs)
    return _named(TileKernel(second.name, kept, second.outputs, tuple(stages)))


def _is_profitable(stages: list[KernelStage], outputs: tuple[Buffer, ...]) -> bool:
    folded = {one for stage in stages for one in stage.folded}
    free = {one for stage in stages if stage.target in outputs for one in stage.free} - folded
    little = _SMALL_WORK_SHARE * sum(stage.work for stage in stages)
    heavy = [stage for stage in stages if stage.work * _MOST_RECOMPUTATION > little]
    common = free.intersection(*(stage.free for stage in heavy))
    return math.prod(one.size for one in common) >= _ENOUGH_BLOCKS


def _named(kernel: TileKernel) -> TileKernel:
    """With a name of its own for each index."""
    names: dict[str, LoopIndex] = {}
    for one in kernel.indices:
        name = base = one.name.rstrip("'")
        numbers = count(1)
        while name in names:
            name = f"{base}{next(numbers)}"
        names[name] = one
    own = {one: LoopIndex(name, one.size) for name, one in names.items()}
    return replace(kernel, stages=tuple(rename_indices(stage, own) for stage in kernel.stages))
