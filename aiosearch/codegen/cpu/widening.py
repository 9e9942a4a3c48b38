"""Halves that products read again and again: f32 wherever a block, or a copy, writes them down.

Some processors multiply f32 faster than they multiply halves, and most have to widen these first,
each time that they read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...tensor.types import HALVES, DType
from ..expressions import reloaded
from ..ir import Buffer, Fold, Kernel, Load, Round, Stage
from ..native.machine import Machine
from .products import of_bf16, of_halves


def wider(buffer: Buffer) -> Buffer:
    """The same with elements that are no halves."""
    return replace(buffer, dtype=DType.F32) if buffer.dtype in HALVES else buffer


def offered(kernel: Kernel, machine: Machine) -> bool:
    """Whether products may be faster so: where no fast instruction adds up all of them in pairs."""
    products = _products(kernel)
    fast = machine.bf16_dot and not machine.slow_dots
    return bool(products) and not (fast and all(map(of_bf16, products)))


def made(kernel: Kernel) -> frozenset[Buffer]:
    """What a block makes for such products, element by element, and nobody else sees."""
    read = {load.buffer for one in _products(kernel) for load in one.loads}
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


def _products(kernel: Kernel) -> list[Stage]:
    return [one for one in kernel.stages if one.fold is Fold.SUM and of_halves(one)]


def _made(kernel: Kernel) -> Iterator[Buffer]:
    for stage in kernel.stages:
        halves = stage.target.dtype in HALVES and stage.fold is Fold.NONE
        if halves and stage.target not in kernel.outputs:
            yield stage.target
