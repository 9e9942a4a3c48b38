"""Arithmetic, traffic and shared memory of one block, and of all blocks together."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial

from ....tensor.types import BYTES, DType
from ... import ir
from ..layout import TileLayout
from ..loops import Loops
from ..nodes import TileNode, loads
from .register_pressure import TALL_DOT_ROWS, RegisterPressure, WarpLayout

_SPECIAL = {
    ir.Operation.DIVIDE,
    ir.Operation.SQRT,
    ir.Operation.EXP,
    ir.Operation.LOG,
    ir.Operation.EXPM1,
    ir.Operation.LOG1P,
    ir.Operation.TANH,
    ir.Operation.ERF,
    ir.Operation.ERFC,
    ir.Operation.SIN,
    ir.Operation.COS,
    ir.Operation.POW,
}


@dataclass(frozen=True)
class DotProduct:
    """The dots of one node."""

    dtype: DType
    """Of the operands."""
    rows: int
    """Of a block's tile."""
    summed: int
    """What a block sums over, one dot after the other."""
    operations: int
    """Of all blocks."""
    node: TileNode


@dataclass(frozen=True)
class BlockDemand:
    """What one block takes, and what all blocks do together."""

    blocks: int
    steps: int
    """Iterations of each loop."""
    loops: int
    pressure: RegisterPressure
    shared_bytes: int
    """Of the operands of dots that are there for all of a block's time."""
    streamed_bytes: int
    """Of those that each iteration loads."""
    step_bytes: int
    """What a block loads in one iteration, or at once where it has no loop."""
    loaded_bytes: int
    """By all blocks, from cache or memory."""
    memory_bytes: int
    products: tuple[DotProduct, ...]
    operations: int
    """Those of no dot."""
    special: int
    """Of these, exp, roots, divisions and the like."""
    layout: TileLayout

    @cached_property
    def warping(self) -> Callable[[int], WarpLayout]:
        """How its tiles are spread among so many warps."""
        return cache(partial(WarpLayout, self.layout))

    @cached_property
    def registers(self) -> Callable[[int], int]:
        """Of a thread, for tiles, where there are so many warps."""
        return cache(lambda warps: self.pressure.registers(self.warping(warps)))


def block_demand(layout: TileLayout) -> BlockDemand:
    """Counts them."""
    return _DemandCounter(layout).demand()


class _DemandCounter:
    def __init__(self, layout: TileLayout) -> None:
        self._layout = layout
        self._loops = Loops(layout.nodes, layout.loop)
        self._steps = layout.steps(layout.loop) if layout.loop else 1
        self._blocks = math.prod(layout.steps(one) for one in layout.grid)
        self._passes = self._passed()

    def demand(self) -> BlockDemand:
        nodes = self._layout.nodes
        buffers = [*nodes.loaded, *(node.stage.target for node in nodes.outputs)]
        loaded = [each for node in nodes.all for each in self._loaded(node)]
        shared = {key: own for node in nodes.all for key, *own in self._operands(node)}
        return BlockDemand(
            blocks=self._blocks,
            steps=self._steps,
            loops=len(self._loops.count) - 1,
            pressure=RegisterPressure(self._layout, self._loops),
            shared_bytes=sum(size for size, moves in shared.values() if not moves),
            streamed_bytes=sum(size for size, moves in shared.values() if moves),
            step_bytes=sum(size for size, _ in loaded),
            loaded_bytes=self._blocks * sum(size * times for size, times in loaded),
            memory_bytes=sum(math.prod(one.shape) * BYTES[one.dtype] for one in buffers),
            products=tuple(one for node in nodes.all for one in self._products(node)),
            operations=sum(map(self._operations, nodes.all)),
            special=sum(map(self._special, nodes.all)),
            layout=self._layout,
        )

    def _passed(self) -> dict[TileNode, int]:
        """In how many loops a node is computed."""
        found = dict.fromkeys(self._layout.nodes.all, 0)
        stored = [one for one in self._layout.nodes.outputs if self._loops.repeats(one)]
        for level in self._loops.count:
            inner = [one for one in stored if self._loops.level(one) == level]
            for node in self._loops.needed(self._loops.totals(level), inner):
                found[node] += 1
        return found

    def _times(self, node: TileNode, indices: Collection[ir.LoopIndex]) -> int:
        """How often a block comes to what depends on these indices, for a node."""
        return self._steps * self._passes[node] if self._layout.loop in indices else 1

    def _operands(self, node: TileNode) -> Iterator[tuple[Hashable, int, bool]]:
        """What goes through shared memory for a dot: its bytes, and whether an iteration loads it.

        What is computed need not go there, where it is the left side of a tall dot.
        """
        dot = self._layout.dot(node)
        if dot is None:
            return
        for side in (dot.left, dot.right):
            tall = side is dot.left and self._layout.size(side.own) >= TALL_DOT_ROWS
            if side.computed(node) and not tall:
                yield (node, side), self._layout.size(side.own | side.summed) * side.width, False
        for load, indices in self._fed(node):
            moves = self._layout.loop in indices
            if moves or load in node.taken:
                yield load, self._layout.size(indices) * BYTES[load.buffer.dtype], moves

    def _fed(self, node: TileNode) -> Iterator[tuple[ir.BufferLoad, frozenset[ir.LoopIndex]]]:
        """All that a node is made of in one iteration, as it is loaded."""
        yield from node.taken.items()
        for one in node.reads.values():
            if self._loops.repeats(one):
                yield from self._fed(one)

    def _loaded(self, node: TileNode) -> Iterator[tuple[int, int]]:
        """The bytes of each tile that a block loads, and how often."""
        for load, indices in node.taken.items():
            bytes_ = self._layout.inside(indices) * BYTES[load.buffer.dtype]
            yield bytes_, self._times(node, indices)

    def _products(self, node: TileNode) -> Iterator[DotProduct]:
        dot = self._layout.dot(node)
        if dot is not None:
            parts = [part for side in (dot.left, dot.right) for part in side.factors]
            dtypes = {one.buffer.dtype for part in parts for one in loads(part)}
            rows = self._layout.size(dot.left.own)
            times = self._steps * self._passes[node] if self._passes[node] else 1
            summed = self._layout.size(dot.left.summed) * times
            operations = 2 * self._blocks * self._layout.size(dot.left.own | dot.right.own) * summed
            yield DotProduct(
                max(dtypes, key=lambda one: BYTES[one]), rows, summed, operations, node
            )

    def _operations(self, node: TileNode) -> int:
        """Those of its expression and of its fold, but for a dot's own ones."""
        if self._layout.dot(node):
            return 0
        folds = self._elements(node, node.all_indices) if node.folded else 0
        return folds + sum(self._elements(node, indices) for _, indices in node.applied)

    def _special(self, node: TileNode) -> int:
        found = (indices for operation, indices in node.applied if operation in _SPECIAL)
        return sum(self._elements(node, indices) for indices in found)

    def _elements(self, node: TileNode, indices: frozenset[ir.LoopIndex]) -> int:
        """How often all blocks compute what depends on these."""
        return self._blocks * self._layout.size(indices) * self._times(node, indices)
