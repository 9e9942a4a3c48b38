"""Modules whose products find what their rows share side by side, step by step.

A product of more rows than eight takes from each of them one element a step. Where these lie far
apart, and by a power of two as they mostly do, a first cache does not keep them until the next
step; side by side they are one line of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..tensor.types import DType
from .expressions import reloaded
from .ir import (
    Apply,
    Buffer,
    Fold,
    Index,
    Kernel,
    Load,
    Module,
    Operation,
    Stage,
    alone,
    index,
    indices,
)

_ROWS = range(9, 17)
"""As many as have a sum for each in registers, and do not fit the ways of a first cache."""
_LONG = 512
"""Steps, so that the turning is little beside them."""


def turned(module: Module) -> Module:
    """The same with such rows turned; equal to it where there are none."""
    shared = dict.fromkeys(
        load.buffer
        for kernel in module.kernels
        for stage in kernel.stages
        for load in _shared(stage)
    )
    for buffer in shared:
        if any(buffer in one.inputs for one in module.kernels):
            module = _with_copy(module, buffer)
        elif buffer not in module.outputs:
            module = _with_other_axes(module, buffer)
    return module


def _shared(stage: Stage) -> Iterator[Load]:
    """The factor of a product that columns share, if it has the rows."""
    match stage.value:
        case Apply(operation=Operation.MULTIPLY, arguments=(Load() as one, Load() as other)):
            pairs = ((one, other), (other, one))
            floats = one.buffer.dtype is DType.F32 is other.buffer.dtype
        case _:
            return
    if not floats or stage.fold is not Fold.SUM or len(stage.folded) != 1:
        return
    for rows, columns in pairs:
        row, step = (alone(one) for one in rows.at) if len(rows.at) == 2 else (None, None)
        if row is None or step != stage.folded[0] or row == step:
            continue
        moves = alone(columns.at[-1]) if columns.at else None
        apart = row not in _used(columns) and moves not in (None, row, step)
        if apart and row.size in _ROWS and step.size >= _LONG:
            yield rows


def _used(load: Load) -> set[Index]:
    return {one for position in load.at for one in indices(position)}


def _with_other_axes(module: Module, buffer: Buffer) -> Module:
    """What a kernel makes for itself is made so at once."""
    other = replace(buffer, shape=buffer.shape[::-1])

    def change(load: Load) -> Load:
        return Load(other, load.at[::-1]) if load.buffer == buffer else load

    def stage(one: Stage) -> Stage:
        if one.target == buffer:
            one = replace(one, target=other, at=one.at[::-1])
        return replace(one, value=reloaded(one.value, change))

    kernels = (replace(one, stages=tuple(map(stage, one.stages))) for one in module.kernels)
    return replace(module, kernels=tuple(kernels))


def _with_copy(module: Module, buffer: Buffer) -> Module:
    """What kernels pass on: one more kernel turns it, before the first that reads it so.

    Who fills it may do so row by row, and threads that fill one line by turns are slow.
    """
    rows, steps = (Index(name, size) for name, size in zip("ij", buffer.shape, strict=True))
    copy = Buffer(f"{buffer.name}.turned", buffer.dtype, buffer.shape[::-1])
    at = index(rows), index(steps)
    turn = Kernel(copy.name, (buffer,), (copy,), (Stage(copy, at[::-1], Load(buffer, at)),))
    kernels = [_reading(one, buffer, copy) for one in module.kernels]
    first = next(at for at, one in enumerate(kernels) if copy in one.inputs)
    return replace(module, kernels=(*kernels[:first], turn, *kernels[first:]))


def _reading(kernel: Kernel, buffer: Buffer, copy: Buffer) -> Kernel:
    """The kernel with products of the copy."""

    def change(stage: Stage) -> Callable[[Load], Load]:
        shared = [one for one in _shared(stage) if one.buffer == buffer]
        return lambda load: Load(copy, load.at[::-1]) if load in shared else load

    stages = tuple(replace(one, value=reloaded(one.value, change(one))) for one in kernel.stages)
    read = {load.buffer for one in stages for load in one.loads}
    kept = tuple(one for one in (*kernel.inputs, copy) if one in read)
    return replace(kernel, inputs=kept, stages=stages)
