"""A slow interpreter of tile IR modules, in float64, for tests.

It computes each stage for all values of its indices at once, as NumPy arrays with an axis per
index: what it says is the meaning of the IR, with which printers are compared.
"""

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
"""An array of NumPy."""
Grid: TypeAlias = dict[LoopIndex, Array]
"""The values of each index, along an axis of their own."""

_NUMPY_REDUCTIONS: dict[ReductionKind, Callable[..., Any]] = {
    ReductionKind.SUM: np.sum,
    ReductionKind.MAX: np.max,
}


def interpret(module: Module, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of `module`, given its inputs in order; all floats are float64, and none is
    rounded.
    """
    held: dict[str, Array] = {
        buffer.name: np.asarray(array, dtype=np.float64)
        for buffer, array in zip(module.inputs, inputs, strict=True)
    }
    with np.errstate(all="ignore"):
        for kernel in module.kernels:
            for stage in kernel.stages:
                _fill(stage, held)
    return [_of(buffer, held) for buffer in module.outputs]


def _of(buffer: Buffer, held: dict[str, Array]) -> Array:
    """The array of `buffer`; one that nothing has filled yet is NaN everywhere."""
    return held.setdefault(buffer.name, np.full(buffer.shape, np.nan))


def _fill(stage: KernelStage, held: dict[str, Array]) -> None:
    """Computes `stage` into its buffer in `held`."""
    running = stage.indices
    value = _value(stage.value, _grid(running), held)
    # A value that does not depend on an index still counts once for each of its values in a sum.
    value = np.broadcast_to(value, [part.size for part in running])
    if stage.reduction is not ReductionKind.NONE:
        value = _NUMPY_REDUCTIONS[stage.reduction](
            value, axis=tuple(range(len(stage.free), len(running)))
        )
    grid = _grid(stage.free)
    at = tuple(np.broadcast_to(_place(part, grid), np.shape(value)) for part in stage.at)
    _of(stage.target, held)[at] = value


def _grid(running: Sequence[LoopIndex]) -> Grid:
    """The values of all indices, each along its own axis."""
    return {
        loop_index: _along(axis, loop_index.size, len(running))
        for axis, loop_index in enumerate(running)
    }


def _along(axis: int, size: int, rank: int) -> Array:
    """The numbers below `size` along `axis` of `rank` axes."""
    return np.arange(size).reshape([-1 if other_axis == axis else 1 for other_axis in range(rank)])


def _place(position: Position, grid: Grid) -> Array:
    match position:
        case Affine():
            parts = [grid[part] * factor for part, factor in position.terms]
            return reduce(np.add, parts, np.asarray(position.offset))
        case Quotient():
            return np.asarray(_place(position.position, grid) // position.by)
        case Remainder():
            return np.asarray(_place(position.position, grid) % position.by)
        case Mixed():
            parts = [_place(part, grid) * factor for part, factor in position.terms]
            return reduce(np.add, parts, _place(position.rest, grid))


def _value(value: Expression, grid: Grid, held: dict[str, Array], guarded: bool = False) -> Array:
    match value:
        case Constant():
            return np.asarray(value.value)
        case PositionValue():
            return _place(value.position, grid).astype(np.float64)
        case BufferLoad():
            return _loaded(
                _of(value.buffer, held), [_place(part, grid) for part in value.at], guarded
            )
        case Apply():
            arguments = [_value(part, grid, held, guarded) for part in value.arguments]
            return np.asarray(NUMPY_OPERATIONS[value.operation](*arguments))
        case Round():
            rounded = _value(value.value, grid, held, guarded)
            return np.trunc(rounded) if value.dtype is DType.I32 else rounded
        case BoundedValue():
            inside = [
                (low <= (place := _place(at, grid))) & (place < high)
                for at, low, high in value.limits
            ]
            # Both branches are computed, so positions outside of a buffer are no error in them.
            both = (_value(part, grid, held, True) for part in (value.value, value.otherwise))
            return np.where(reduce(np.logical_and, inside), *both)


def _loaded(array: Array, at: Sequence[Array], guarded: bool) -> Array:
    """Elements at positions; a position outside is an error, unless `guarded` says that its value
    is dropped.
    """
    if not array.size:
        return np.asarray(np.nan)
    # Clipped so that NumPy does not wrap negative positions around silently.
    inside = [
        np.clip(position, 0, size - 1) for position, size in zip(at, array.shape, strict=True)
    ]
    if not guarded and any(
        (position != clipped).any() for position, clipped in zip(at, inside, strict=True)
    ):
        raise IndexError(f"a place outside of an array of {array.shape}")
    return np.asarray(array[tuple(inside)])
