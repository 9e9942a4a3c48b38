"""Kernels that run one after the other as one, where a processor gains by it.

What one kernel leaves for the next then never goes through memory, and nobody waits between them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count

from .ir import Buffer, Index, Kernel, Module, Stage
from .merging import in_place, merged, renamed

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
    if not in_place(stages) or not _pays(stages, second.outputs):
        return None
    inputs = dict.fromkeys([*first.inputs, *second.inputs])
    kept = tuple(one for one in inputs if one not in first.outputs)
    return _named(Kernel(second.name, kept, second.outputs, tuple(stages)))


def _pays(stages: list[Stage], outputs: tuple[Buffer, ...]) -> bool:
    folded = {one for stage in stages for one in stage.folded}
    free = {one for stage in stages if stage.target in outputs for one in stage.free} - folded
    little = _LITTLE * sum(stage.work for stage in stages)
    heavy = [stage for stage in stages if stage.work * _AGAIN > little]
    common = free.intersection(*(stage.free for stage in heavy))
    return math.prod(one.size for one in common) >= _ENOUGH


def _named(kernel: Kernel) -> Kernel:
    """With a name of its own for each index."""
    names: dict[str, Index] = {}
    for one in kernel.indices:
        name = base = one.name.rstrip("'")
        numbers = count(1)
        while name in names:
            name = f"{base}{next(numbers)}"
        names[name] = one
    own = {one: Index(name, one.size) for name, one in names.items()}
    return replace(kernel, stages=tuple(renamed(stage, own) for stage in kernel.stages))
