"""What a program computes, as plainly as possible: float64, block by block, loop by loop.

Every other evaluator is tested against this one. It shares nothing with them but the meaning that
each operator declares: kernels are run by loops, where `evaluate` reshapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .evaluation import parameters_as_written
from .floats import Array, Floats
from .mugraph import ACCUMULATE, LOAD, READ, RESULT, WRITE, Kernel
from .sizes import Dim
from .terms import INPUT, LITERAL, Program, Term
from .types import Place

_FLOATS = Floats(np.float64)


def run(program: Program, inputs: Sequence[Array]) -> list[Array]:
    """The outputs in float64: what overflows is infinite, what is undefined is NaN."""
    values: dict[Term, Array] = {
        term: np.asarray(value, dtype=np.float64)
        for term, value in zip(program.inputs, inputs, strict=True)
    }
    kernels: dict[Kernel, list[Array]] = {}
    with np.errstate(all="ignore"):
        for term in program.terms():
            if term in values or term.place not in (Place.DEVICE, Place.ANYWHERE):
                continue
            if term.operator is RESULT:
                kernel = term.parameter("kernel")
                if kernel not in kernels:
                    kernels[kernel] = run_kernel(kernel, values)
                values[term] = kernels[kernel][term.parameter("index")]
            else:
                values[term] = _apply(term, [values[argument] for argument in term.arguments])
        return [np.array(values[output], dtype=np.float64) for output in program.outputs]


def run_kernel(kernel: Kernel, device: Mapping[Term, Array]) -> list[Array]:
    """Runs every block of a kernel, one after the other."""
    body = kernel.body
    shapes = [
        [_int(size) for size in _stored_shape(tile, maps, kernel)] for tile, maps in kernel.outputs
    ]
    # NaN, so that an element that no block stores is seen.
    outputs = [np.full(shape, np.nan) for shape in shapes]
    for block in itertools.product(*(range(_int(size)) for size in kernel.grid)):
        tiles = _run_block(kernel, body, block, device)
        for output, (tile, maps) in zip(outputs, kernel.outputs, strict=True):
            part = tiles[tile]
            where = [slice(None)] * output.ndim
            for index, axis in zip(block, maps, strict=True):
                if axis is not None:
                    width = part.shape[axis]
                    where[axis] = slice(index * width, (index + 1) * width)
            output[tuple(where)] = part
    return outputs


def _run_block(
    kernel: Kernel, body: Sequence[Term], block: Sequence[int], device: Mapping[Term, Array]
) -> dict[Term, Array]:
    history: dict[Term, list[Array]] = {}
    for iteration in range(_int(kernel.range)):
        tiles: dict[Term, Array] = {}
        for term in body:
            if term.operator is LOAD:
                tiles[term] = _tile(term, block, iteration, device[term.arguments[0]])
            elif term.place in (Place.LOOP, Place.LOOP_REGISTER):
                tiles[term] = _block_step(term, tiles)
            elif term.place is Place.ANYWHERE:
                tiles[term] = _apply(term, [tiles[argument] for argument in term.arguments])
            elif term.operator is ACCUMULATE:
                # All iterations are stored and reduced afterwards: slow, and unlike what the
                # evaluators do that this one is to check.
                history.setdefault(term, []).append(tiles[term.arguments[0]])
    # Literals are evaluated in both halves: they belong to no place.
    after: dict[Term, Array] = {}
    for term in body:
        if term.operator is ACCUMULATE:
            after[term] = _accumulated(term, history[term])
        elif term.place in (Place.AFTER, Place.AFTER_REGISTER):
            after[term] = _block_step(term, after)
        elif term.place is Place.ANYWHERE:
            after[term] = _apply(term, [after[argument] for argument in term.arguments])
    return after


def _block_step(term: Term, tiles: Mapping[Term, Array]) -> Array:
    operands = [tiles[argument] for argument in term.arguments]
    if term.operator is READ or term.operator is WRITE:
        return operands[0]
    return _apply(term, operands)


def _apply(term: Term, operands: list[Array]) -> Array:
    if term.operator is LITERAL:
        return np.asarray(float(term.parameter("value")))
    if term.operator is INPUT:
        raise KeyError(term.parameter("name"))
    parameters = parameters_as_written(term)
    return np.asarray(term.operator.meaning(_FLOATS, *operands, **parameters))


def _tile(load: Term, block: Sequence[int], iteration: int, source: Array) -> Array:
    start, width = [0] * source.ndim, list(source.shape)
    counts = load.parameter("grid")
    for index, count, axis in zip(block, counts, load.parameter("map"), strict=True):
        if axis is not None:
            # The block's part of the axis; the loop then cuts within that part.
            width[axis] //= int(count)
            start[axis] = index * width[axis]
    axis = load.parameter("loop")
    if axis is not None:
        width[axis] //= int(load.parameter("range"))
        start[axis] += iteration * width[axis]
    return source[
        tuple(slice(first, first + size) for first, size in zip(start, width, strict=True))
    ]


def _accumulated(term: Term, tiles: list[Array]) -> Array:
    """What the tiles of all iterations come to, each accumulator written out."""
    kind = term.parameter("kind")
    if kind == "none":
        return _total(tiles)
    if kind == "max":
        return np.asarray(np.max(np.stack(tiles), axis=0))
    rows = [np.sum(tile, axis=-1, keepdims=True) for tile in tiles]
    count = len(tiles) * tiles[0].shape[-1]
    if kind == "sum":
        return _total(rows)
    if kind == "mean":
        return np.asarray(_total(rows) / count)
    if kind == "rms":
        squares = [np.sum(tile * tile, axis=-1, keepdims=True) for tile in tiles]
        return np.asarray(np.sqrt(_total(squares) / count))
    total = _total(tiles)
    columns = int(term.parameter("columns"))
    chunks = np.zeros((*total.shape[:-1], columns))
    # redtox adds chunks of `columns` elements: out[j] is the sum of all x[i·columns + j].
    for first in range(0, total.shape[-1], columns):
        chunks += total[..., first : first + columns]
    return chunks


def _total(parts: Sequence[Array]) -> Array:
    total = np.zeros(parts[0].shape)
    for part in parts:
        total = total + part
    return total


def _int(size: Dim) -> int:
    if not isinstance(size, int):
        raise ValueError(f"size {size} is not known")
    return size


def _stored_shape(tile: Term, maps: Sequence[int | None], kernel: Kernel) -> list[Any]:
    shape = list(tile.shape)
    for axis, size in zip(maps, kernel.grid, strict=True):
        if axis is not None:
            shape[axis] = shape[axis] * size
    return shape
