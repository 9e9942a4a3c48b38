"""A slow interpreter of tile IR modules, in float64, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...tensor.types import DType
from . import (
    Affine,
    Apply,
    BoundedValue,
    Buffer,
    BufferLoad,
    Constant,
    Expression,
    KernelStage,
    LoopIndex,
    Mixed,
    Module,
    Position,
    PositionValue,
    Quotient,
    ReductionKind,
    Remainder,
    Round,
)
from .semantics import NUMPY_OPERATIONS

Array: TypeAlias = NDArray[Any]
Grid: TypeAlias = dict[LoopIndex, Array]

_NUMPY_REDUCTIONS: dict[ReductionKind, Callable[..., Any]] = {
    ReductionKind.SUM: np.sum,
    ReductionKind.MAX: np.max,
}


def interpret(module: Module, inputs: Sequence[Array]) -> list[Array]:
    """The outputs, given the inputs in order; all floats are float64, and none is rounded."""
    held: dict[str, Array] = {
        buffer.name: np.asarray(given, dtype=np.float64)
        for buffer, given in zip(module.inputs, inputs, strict=True)
    }
    with np.errstate(all="ignore"):
        for kernel in module.kernels:
            for stage in kernel.stages:
                _fill(stage, held)
    return [_of(buffer, held) for buffer in module.outputs]


def _of(buffer: Buffer, held: dict[str, Array]) -> Array:
    """A buffer's array; one that nothing has filled yet is not a number anywhere."""
    return held.setdefault(buffer.name, np.full(buffer.shape, np.nan))


def _fill(stage: KernelStage, held: dict[str, Array]) -> None:
    running = stage.indices
    value = _value(stage.value, _grid(running), held)
    value = np.broadcast_to(value, [one.size for one in running])
    if stage.fold is not ReductionKind.NONE:
        value = _NUMPY_REDUCTIONS[stage.fold](
            value, axis=tuple(range(len(stage.free), len(running)))
        )
    grid = _grid(stage.free)
    at = tuple(np.broadcast_to(_place(one, grid), np.shape(value)) for one in stage.at)
    _of(stage.target, held)[at] = value


def _grid(running: Sequence[LoopIndex]) -> Grid:
    return {one: _along(axis, one.size, len(running)) for axis, one in enumerate(running)}


def _along(axis: int, size: int, rank: int) -> Array:
    return np.arange(size).reshape([-1 if own == axis else 1 for own in range(rank)])


def _place(position: Position, grid: Grid) -> Array:
    match position:
        case Affine():
            parts = [grid[one] * factor for one, factor in position.terms]
            return reduce(np.add, parts, np.asarray(position.offset))
        case Quotient():
            return np.asarray(_place(position.position, grid) // position.by)
        case Remainder():
            return np.asarray(_place(position.position, grid) % position.by)
        case Mixed():
            parts = [_place(one, grid) * factor for one, factor in position.terms]
            return reduce(np.add, parts, _place(position.rest, grid))


def _value(value: Expression, grid: Grid, held: dict[str, Array], guarded: bool = False) -> Array:
    match value:
        case Constant():
            return np.asarray(value.value)
        case PositionValue():
            return _place(value.position, grid).astype(np.float64)
        case BufferLoad():
            return _loaded(
                _of(value.buffer, held), [_place(one, grid) for one in value.at], guarded
            )
        case Apply():
            arguments = [_value(one, grid, held, guarded) for one in value.arguments]
            return np.asarray(NUMPY_OPERATIONS[value.operation](*arguments))
        case Round():
            found = _value(value.value, grid, held, guarded)
            return np.trunc(found) if value.dtype is DType.I32 else found
        case BoundedValue():
            inside = [
                (low <= (place := _place(at, grid))) & (place < high)
                for at, low, high in value.limits
            ]
            both = (_value(one, grid, held, True) for one in (value.value, value.otherwise))
            return np.where(reduce(np.logical_and, inside), *both)


def _loaded(array: Array, at: Sequence[Array], guarded: bool) -> Array:
    """Elements. Places outside are an error, but where such a value is not taken."""
    if not array.size:
        return np.asarray(np.nan)
    inside = [np.clip(one, 0, size - 1) for one, size in zip(at, array.shape, strict=True)]
    if not guarded and any((one != own).any() for one, own in zip(at, inside, strict=True)):
        raise IndexError(f"a place outside of an array of {array.shape}")
    return np.asarray(array[tuple(inside)])
