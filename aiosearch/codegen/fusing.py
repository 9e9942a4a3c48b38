"""Kernels that run one after the other as one, where a processor gains by it.

What one kernel leaves for the next then never goes through memory, and nobody waits between them.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from .ir import Buffer, Index, Kernel, Module, Stage
from .merging import merged, renamed

_ENOUGH = 64
"""So many blocks keep a machine busy."""
_AGAIN = 8
"""How often what a block computes for itself may be computed by others too."""
_LITTLE = 0.1
"""Of all the work, what may be done that often."""


def fused(module: Module) -> Module:
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


def _into_a_later(kernels: list[Kernel], place: int, module: Module) -> list[Kernel] | None:
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


def _joined(first: Kernel, second: Kernel) -> Kernel | None:
    own = {one: Index(f"{one.name}'", one.size) for one in first.indices}
    stages = merged([*(renamed(stage, own) for stage in first.stages), *second.stages])
    if not _in_place(stages) or not _pays(stages, second.outputs):
        return None
    inputs = dict.fromkeys([*first.inputs, *second.inputs])
    kept = tuple(one for one in inputs if one not in first.outputs)
    return _named(Kernel(second.name, kept, second.outputs, tuple(stages)))


def _in_place(stages: list[Stage]) -> bool:
    """Whether everything is read at the places, and along the indices, that it is written by."""
    written = {stage.target: stage.at for stage in stages}
    loads = [load for stage in stages for load in stage.loads]
    return all(written.get(load.buffer, load.at) == load.at for load in loads)


def _pays(stages: list[Stage], outputs: tuple[Buffer, ...]) -> bool:
    work = {stage: _work(stage) for stage in stages}
    folded = {one for stage in stages for one in stage.folded}
    free = {one for stage in stages if stage.target in outputs for one in stage.free} - folded
    heavy = [stage for stage in stages if work[stage] * _AGAIN > _LITTLE * sum(work.values())]
    common = free.intersection(*(stage.free for stage in heavy))
    return math.prod(one.size for one in common) >= _ENOUGH


def _work(stage: Stage) -> int:
    return math.prod(one.size for one in (*stage.free, *stage.folded))


def _named(kernel: Kernel) -> Kernel:
    """With a name of its own for each index."""
    taken = Counter(one.name.rstrip("'") for one in kernel.indices)
    seen: Counter[str] = Counter()
    names: dict[Index, Index] = {}
    for one in kernel.indices:
        base = one.name.rstrip("'")
        number = seen[base]
        seen[base] += 1
        names[one] = Index(f"{base}{number}" if number and taken[base] > 1 else base, one.size)
    return replace(kernel, stages=tuple(renamed(stage, names) for stage in kernel.stages))
