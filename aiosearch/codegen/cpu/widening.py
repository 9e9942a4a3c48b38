"""Halves that products read again and again: f32 wherever a block, or a copy, writes them down.

Some processors multiply f32 faster than they multiply halves, and most have to widen these first,
each time that they read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...tensor.types import HALVES, DType
from ..expressions import reloaded
from ..ir import Apply, Buffer, Fold, Kernel, Load, Operation, Round, Stage
from ..native.machine import Machine


def wider(buffer: Buffer) -> Buffer:
    """The same with elements that are no halves."""
    return replace(buffer, dtype=DType.F32) if buffer.dtype in HALVES else buffer


def is_of_halves(stage: Stage) -> bool:
    """Whether it adds up products of two of them."""
    match stage.value:
        case Apply(Operation.MULTIPLY, (Load(one), Load(other))):
            return stage.fold is Fold.SUM and {one.dtype, other.dtype} <= HALVES
    return False


def offered(kernel: Kernel, machine: Machine) -> bool:
    """Whether products may be faster so: where no fast instruction adds up all of them in pairs."""
    products = [one for one in kernel.stages if is_of_halves(one)]
    pairs = all(load.buffer.dtype is DType.BF16 for one in products for load in one.loads)
    return bool(products) and not (pairs and machine.bf16_dot and not machine.slow_dots)


def made(kernel: Kernel) -> frozenset[Buffer]:
    """What a block makes for such products, element by element, and nobody else sees."""
    read = {load.buffer for one in kernel.stages if is_of_halves(one) for load in one.loads}
    return frozenset(_made(kernel)) & read


def widened(kernel: Kernel) -> Kernel:
    """With what is made so in f32: the same numbers, rounded as before."""
    wide = {one: wider(one) for one in made(kernel)}

    def changed(load: Load) -> Load:
        return replace(load, buffer=wide.get(load.buffer, load.buffer))

    stages: list[Stage] = []
    for stage in kernel.stages:
        value = reloaded(stage.value, changed)
        if stage.target in wide:
            value = Round(value, stage.target.dtype)
        stages.append(replace(stage, target=wide.get(stage.target, stage.target), value=value))
    return replace(kernel, stages=tuple(stages))


def _made(kernel: Kernel) -> Iterator[Buffer]:
    for stage in kernel.stages:
        halves = stage.target.dtype in HALVES and stage.fold is Fold.NONE
        if halves and stage.target not in kernel.outputs:
            yield stage.target
