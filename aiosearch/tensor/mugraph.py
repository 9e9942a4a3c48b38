"""Custom kernels: block graphs with a grid, a loop, maps, accumulators; threads within them.

A kernel runs `grid` blocks. Each block runs its loop `range` times, loading a tile of every input,
then works on what it accumulated, then stores its part of every output. A term of a block graph is
a term like any other, whose `Place` says where it is stored and how often it is computed. `Block`
builds kernels; docs/why/kernels.md explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from .algebra import Algebra, V
from .errors import ShapeError
from .operator import (
    NUMBERS,
    Dimensions,
    Meaning,
    Operator,
    OperatorParameter,
    ParameterKind,
    declare,
)
from .operators.reductions import fold, root_mean_square
from .sizes import Dim
from .terms import Term, checked, intern
from .types import Place, Shape, TensorType

Map: TypeAlias = tuple["int | None", "int | None", "int | None"]
"""For each grid axis the data axis that it splits, or None where every block sees all of it."""

Grid: TypeAlias = tuple[Dim, Dim, Dim]
"""The blocks along x, y and z."""

LEAD = 4
"""Axes in front of a tile when all blocks and iterations are evaluated at once.

Grid axes and loop.
"""


@dataclass(frozen=True)
class Accumulator:
    """The reduction of a tile over the loop.

    Its shape, and its meaning with the loop as an axis.
    """

    name: str
    shape: Callable[[Dimensions, Shape, Dim], Shape]
    meaning: Meaning
    """`meaning(algebra, tile, loop_axis, columns)`; the loop's axis stays with size one."""


def _last(k: Algebra[V], x: V) -> int:
    return len(k.shape(x)) - 1


def _row(dims: Dimensions, shape: Shape, columns: Dim) -> Shape:
    """The shape with the last axis reduced."""
    if not shape:
        raise ShapeError("no axis to reduce")
    return (*shape[:-1], 1)


def _reduced_columns(dims: Dimensions, shape: Shape, columns: Dim) -> Shape:
    """The shape with the last axis reduced to `columns` elements."""
    if not shape:
        raise ShapeError("no axis to reduce")
    dims.over(shape[-1], columns, "redtox")
    return (*shape[:-1], columns)


def _mean(k: Algebra[V], x: V, loop: int, columns: Dim) -> V:
    last = _last(k, x)
    total = k.sum(x, (loop, last))
    return k.divide(k.divide(total, k.size(x, loop)), k.size(x, last))


def _redtox(k: Algebra[V], x: V, loop: int, columns: Dim) -> V:
    return fold(k, k.sum(x, (loop,)), _last(k, x), columns)


ACCUMULATORS = {
    accumulator.name: accumulator
    for accumulator in (
        Accumulator("none", lambda d, shape, c: shape, lambda k, x, loop, c: k.sum(x, (loop,))),
        Accumulator("sum", _row, lambda k, x, loop, c: k.sum(x, (loop, _last(k, x)))),
        Accumulator("mean", _row, _mean),
        Accumulator("rms", _row, lambda k, x, loop, c: root_mean_square(k, x, (loop, _last(k, x)))),
        Accumulator("redtox", _reduced_columns, _redtox),
        Accumulator("max", lambda d, shape, c: shape, lambda k, x, loop, c: k.largest(x, (loop,))),
    )
}
"""The accumulators by name, as `Block.accumulate` takes them."""

_GRID = OperatorParameter("grid", ParameterKind.SHAPE)
_RANGE = OperatorParameter("range", ParameterKind.SIZE)
_COLUMNS = OperatorParameter("columns", ParameterKind.SIZE)


def _special(name: str, *parameters: OperatorParameter) -> Operator:
    """Declares an operator that only a `Block` builds."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise ShapeError(f"{name} is made by a Block")

    return declare(Operator(name, 1, refuse, refuse, parameters))


LOAD = _special(
    "load",
    _GRID,
    _RANGE,
    OperatorParameter("map", ParameterKind.WORD),
    OperatorParameter("loop", ParameterKind.WORD),
)
ACCUMULATE = _special("accumulate", OperatorParameter("kind", ParameterKind.WORD), _RANGE, _COLUMNS)
READ = _special("read")
WRITE = _special("write")
RESULT = _special(
    "result",
    OperatorParameter("kernel", ParameterKind.WORD),
    OperatorParameter("index", ParameterKind.COUNT),
)


@dataclass(frozen=True)
class Kernel:
    """A custom kernel: the tiles that it stores, and the maps that they are stored by."""

    grid: Grid
    range: Dim
    outputs: tuple[tuple[Term, Map], ...]

    @property
    def body(self) -> list[Term]:
        """The block graph's terms, operands first, down to its loads."""
        body: list[Term] = []
        seen: set[Term] = set()
        stack: list[tuple[Term, bool]] = [(tile, False) for tile, _ in reversed(self.outputs)]
        while stack:
            term, ready = stack.pop()
            if term in seen or term.place is Place.DEVICE:
                continue
            if ready:
                seen.add(term)
                body.append(term)
                continue
            stack.append((term, True))
            stack.extend((argument, False) for argument in reversed(term.arguments))
        return body

    def __repr__(self) -> str:
        digests = [(tile.digest.hex(), maps) for tile, maps in self.outputs]
        return f"Kernel({self.grid}, {self.range}, {digests})"


class Block:
    """Builds one custom kernel.

    >>> block = Block(grid=(64, 1, 1), range=16)
    >>> x = block.load(X, map=(None, None, None), loop=1)
    >>> w = block.load(W, map=(1, None, None), loop=0)
    >>> product = block.accumulate(x @ w, "none")
    >>> scale = block.accumulate(x, "rms")
    >>> (o,) = block.results((product / scale, (1, None, None)))
    """

    def __init__(self, grid: Sequence[Dim], range: Dim = 1, dims: Dimensions = NUMBERS) -> None:
        grid, range = checked(_GRID, grid), checked(_RANGE, range)
        sizes = (*grid, 1, 1, 1)[:3]
        if len(grid) > 3 or any(dims.value(size) < 1 for size in sizes) or dims.value(range) < 1:
            raise ShapeError(f"grid {list(grid)} with range {range}: three sizes and a count")
        self.grid: Grid = (sizes[0], sizes[1], sizes[2])
        self.range = range
        self._dims = dims

    def load(self, source: Term, map: Sequence[int | None] = (), loop: int | None = None) -> Term:
        """The tile that a block sees of a tensor: grid axes split it first, then the loop."""
        if source.place is not Place.DEVICE:
            raise ShapeError(f"a block loads tensors of the device, not a value in {source.place}")
        maps = _map(map)
        shape = list(source.shape)
        # Grid first, then the loop: a block's part is cut into iterations.
        for split, size in zip(maps, self.grid, strict=True):
            if split is not None:
                axis = _split(split, shape)
                # Divisibility is demanded: blocks have no remainder.
                shape[axis] = self._dims.over(shape[axis], size, "load: grid")
        # Two grid axes on one data axis have no order that the map could state.
        if len({split for split in maps if split is not None}) < 3 - maps.count(None):
            raise ShapeError(f"load: two grid axes split one axis in {list(maps)}")
        if loop is not None:
            axis = _split(loop, shape)
            shape[axis] = self._dims.over(shape[axis], self.range, "load: loop")
        parameters = (("grid", self.grid), ("range", self.range), ("map", maps), ("loop", loop))
        type_ = TensorType(source.dtype, tuple(shape), Place.LOOP)
        return intern(LOAD, (source,), parameters, type_)

    def accumulate(self, tile: Term, kind: str = "none", columns: Dim = 64) -> Term:
        """The reduction of a tile over the whole loop, by one of `ACCUMULATORS`."""
        if tile.place is not Place.LOOP:
            raise ShapeError(f"accumulate takes a tile of the loop, not a value in {tile.place}")
        accumulator = ACCUMULATORS.get(kind)
        if accumulator is None:
            raise ShapeError(f"no accumulator {kind!r}: there are {', '.join(ACCUMULATORS)}")
        width: Dim = checked(_COLUMNS, columns) if kind == "redtox" else 0
        shape = accumulator.shape(self._dims, tile.shape, width)
        parameters = (("kind", kind), ("range", self.range), ("columns", width))
        return intern(ACCUMULATE, (tile,), parameters, TensorType(tile.dtype, shape, Place.AFTER))

    def results(self, *outputs: tuple[Term, Sequence[int | None]]) -> tuple[Term, ...]:
        """The kernel's outputs: each tile, stored by its map."""
        return results(
            Kernel(self.grid, self.range, tuple((tile, _map(maps)) for tile, maps in outputs))
        )


def results(kernel: Kernel) -> tuple[Term, ...]:
    """The tensors that `kernel` writes, after checking it."""
    if not kernel.outputs:
        raise ShapeError("a kernel stores something")
    for term in kernel.body:
        if term.operator is LOAD and (
            term.parameter("grid") != kernel.grid or term.parameter("range") != kernel.range
        ):
            raise ShapeError("a tile of another grid or loop in this kernel")
        if term.operator is ACCUMULATE and term.parameter("range") != kernel.range:
            raise ShapeError("an accumulator of another loop in this kernel")
    tensors = []
    for index, (tile, maps) in enumerate(kernel.outputs):
        if tile.place is not Place.AFTER:
            raise ShapeError(f"a kernel stores accumulated tiles, not a value in {tile.place}")
        shape = list(tile.shape)
        for axis, (split, size) in enumerate(zip(maps, kernel.grid, strict=True)):
            if split is not None:
                data_axis = _split(split, shape)
                shape[data_axis] = shape[data_axis] * size
            elif size != 1:
                # Unless the grid axis splits an output axis, all its blocks write the same
                # elements.
                raise ShapeError(f"blocks along grid axis {'xyz'[axis]} store over each other")
        if len({split for split in maps if split is not None}) < 3 - maps.count(None):
            raise ShapeError(f"store: two grid axes split one axis in {list(maps)}")
        type_ = TensorType(tile.dtype, tuple(shape), Place.DEVICE)
        arguments = tuple(tile for tile, _ in kernel.outputs)
        tensors.append(intern(RESULT, arguments, (("kernel", kernel), ("index", index)), type_))
    return tuple(tensors)


def read(tile: Term) -> Term:
    """A thread's elements of a tile, in registers."""
    if tile.place not in (Place.LOOP, Place.AFTER):
        raise ShapeError(f"a thread reads tiles, not a value in {tile.place}")
    return intern(READ, (tile,), (), TensorType(tile.dtype, tile.shape, tile.place.register))


def write(values: Term) -> Term:
    """The tile that threads write from their registers."""
    if values.place not in (Place.LOOP_REGISTER, Place.AFTER_REGISTER):
        raise ShapeError(f"a thread writes registers, not a value in {values.place}")
    return intern(WRITE, (values,), (), TensorType(values.dtype, values.shape, values.place.tile))


def _map(maps: Sequence[int | None]) -> Map:
    """A map of three axes, checked; missing ones split nothing."""
    if not isinstance(maps, (list, tuple)):
        raise ShapeError(f"a map is a list of axes, not {maps!r}")
    padded = (*maps, None, None, None)[: max(3, len(maps))]
    for split in padded:
        if split is not None and (isinstance(split, bool) or not isinstance(split, int)):
            raise ShapeError(f"a map names axes, not {split!r}")
    if len(padded) != 3:
        raise ShapeError(f"a map has three axes: {list(maps)}")
    return (padded[0], padded[1], padded[2])


def _split(axis: int, shape: Sequence[Dim]) -> int:
    """The checked data axis that a grid axis or the loop splits."""
    if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < len(shape):
        raise ShapeError(f"axis {axis!r} of a tensor of rank {len(shape)}")
    return axis
