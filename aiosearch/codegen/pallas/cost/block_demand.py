"""Arithmetic, traffic and shared memory of one block, and of all blocks together.

Problem: predictions of thousands of tilings need what a tiling demands, without printing or
compiling it. Everything is counted from the layout: which tile is loaded where, how often, and how
large it is.

Worked example: a product of bf16[64, 4096] by bf16[4096, 4096] with tiles of 32 rows, 64 columns
and 64 summed has 128 blocks of 64 steps. An iteration loads (32 + 64) * 64 elements of 2 bytes,
12,288 bytes; all blocks together load 100,663,296 from the cache, and 34,603,008 bytes are in the
device's memory, inputs and output once.

Invariant: `BlockDemand` does not depend on warps and stages, so it is counted once for a choice of
tiles; what depends on warps is a function of them.

Cost: nodes times operands of the kernel.

See docs/why/kernels.md, "The same kernel for a GPU".
"""

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
    ir.Operation.LGAMMA,
    ir.Operation.DIGAMMA,
    ir.Operation.REM,
}
"""Functions that run on the special function units."""


@dataclass(frozen=True)
class DotProduct:
    """The dots of one node."""

    dtype: DType
    """The type of the operands."""
    rows: int
    """The rows of a block's tile."""
    summed: int
    """What a block sums over, one dot after the other."""
    operations: int
    """Multiplications and additions of all blocks."""
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
    """Bytes of operands of dots that are there for all of a block's time."""
    streamed_bytes: int
    """Of those that each iteration loads."""
    reread_bytes: int
    """Of these, the largest tile that something beside the dot reads."""
    step_bytes: int
    """What a block loads in one iteration, or at once where it has no loop."""
    loaded_bytes: int
    """What all blocks load, from cache or memory."""
    memory_bytes: int
    """The bytes of all inputs and outputs, once."""
    products: tuple[DotProduct, ...]
    operations: int
    """Operations outside of dots."""
    special: int
    """How many of `operations` are exp, roots, divisions and the like."""
    layout: TileLayout

    @cached_property
    def warping(self) -> Callable[[int], WarpLayout]:
        """How the tiles are spread among so many warps, as a function of their number."""
        return cache(partial(WarpLayout, self.layout))

    @cached_property
    def registers(self) -> Callable[[int], int]:
        """Registers of a thread for tiles, as a function of the number of warps."""
        return cache(lambda warps: self.pressure.registers(self.warping(warps)))


def block_demand(layout: TileLayout) -> BlockDemand:
    """Counts the `BlockDemand` of a layout."""
    return _DemandCounter(layout).demand()


class _DemandCounter:
    def __init__(self, layout: TileLayout) -> None:
        self._layout = layout
        self._loops = Loops(layout.nodes, layout.loop)
        self._steps = layout.steps(layout.loop) if layout.loop else 1
        self._blocks = math.prod(layout.steps(grid_index) for grid_index in layout.grid)
        # Everything else depends on how often a node is computed, so that is counted first.
        self._passes = self._passed()

    def demand(self) -> BlockDemand:
        nodes = self._layout.nodes
        buffers = [*nodes.loaded, *(node.stage.target for node in nodes.outputs)]
        loaded = [tile for node in nodes.all for tile in self._loaded(node)]
        # By load or side, so that an operand that two dots read takes its place once.
        shared = {
            key: size_and_moves
            for node in nodes.all
            for key, *size_and_moves in self._operands(node)
        }
        return BlockDemand(
            blocks=self._blocks,
            steps=self._steps,
            loops=len(self._loops.count) - 1,
            pressure=RegisterPressure(self._layout, self._loops),
            shared_bytes=sum(size for size, moves in shared.values() if not moves),
            streamed_bytes=sum(size for size, moves in shared.values() if moves),
            reread_bytes=max(map(self._reread, nodes.all), default=0),
            step_bytes=sum(size for size, _ in loaded),
            loaded_bytes=self._blocks * sum(size * times for size, times in loaded),
            memory_bytes=sum(math.prod(item.shape) * BYTES[item.dtype] for item in buffers),
            products=tuple(item for node in nodes.all for item in self._products(node)),
            operations=sum(map(self._operations, nodes.all)),
            special=sum(map(self._special, nodes.all)),
            layout=self._layout,
        )

    def _passed(self) -> dict[TileNode, int]:
        """The number of loops in which each node is computed."""
        passes = dict.fromkeys(self._layout.nodes.all, 0)
        stored = [output for output in self._layout.nodes.outputs if self._loops.repeats(output)]
        # A node that several loops need is computed in each of them again.
        for level in self._loops.count:
            inner = [output for output in stored if self._loops.level(output) == level]
            for node in self._loops.needed(self._loops.totals(level), inner):
                passes[node] += 1
        return passes

    def _times(self, node: TileNode, indices: Collection[ir.LoopIndex]) -> int:
        """How often a block computes, for `node`, what depends on `indices`."""
        return self._steps * self._passes[node] if self._layout.loop in indices else 1

    def _operands(self, node: TileNode) -> Iterator[tuple[Hashable, int, bool]]:
        """What goes through shared memory for a dot: a key, its bytes, and whether an iteration
        loads it.

        What is computed need not go there, where it is the left side of a tall dot.
        """
        dot = self._layout.dot(node)
        if dot is None:
            return
        for side in (dot.left, dot.right):
            # A warp group multiplies with a left operand from registers and a right operand from
            # shared memory: a computed left side stays where it was computed.
            tall = side is dot.left and self._layout.size(side.own) >= TALL_DOT_ROWS
            if side.computed(node) and not tall:
                yield (node, side), self._layout.size(side.own | side.summed) * side.width, False
        for load, indices in self._fed(node):
            moves = self._layout.loop in indices
            if moves or load in node.taken:
                yield load, self._layout.size(indices) * BYTES[load.buffer.dtype], moves

    def _reread(self, node: TileNode) -> int:
        """The bytes of what an iteration loads for a dot, and this node sums up apart from it."""
        if self._layout.dot(node) is not None or not node.folded:
            return 0
        dots = [node for node in self._layout.nodes.all if self._layout.dot(node) is not None]
        fed = {load for dot in dots for load, _ in self._fed(dot)}
        return max(
            (
                self._layout.size(indices) * BYTES[load.buffer.dtype]
                for load, indices in node.taken.items()
                if load in fed and self._layout.loop in indices
            ),
            default=0,
        )

    def _fed(self, node: TileNode) -> Iterator[tuple[ir.BufferLoad, frozenset[ir.LoopIndex]]]:
        """All that `node` is made of in one iteration, as it is loaded."""
        yield from node.taken.items()
        for operand in node.reads.values():
            if self._loops.repeats(operand):
                yield from self._fed(operand)

    def _loaded(self, node: TileNode) -> Iterator[tuple[int, int]]:
        """The bytes of each tile that a block loads for `node`, and how often."""
        for load, indices in node.taken.items():
            # Padding is masked and loads nothing; registers and shared memory have room for it all
            # the same.
            bytes_ = self._layout.inside(indices) * BYTES[load.buffer.dtype]
            yield bytes_, self._times(node, indices)

    def _products(self, node: TileNode) -> Iterator[DotProduct]:
        dot = self._layout.dot(node)
        if dot is not None:
            parts = [part for side in (dot.left, dot.right) for part in side.factors]
            dtypes = {load.buffer.dtype for part in parts for load in loads(part)}
            rows = self._layout.size(dot.left.own)
            times = self._steps * self._passes[node] if self._passes[node] else 1
            summed = self._layout.size(dot.left.summed) * times
            # Padded rows and columns count: a matrix unit multiplies them too.
            operations = 2 * self._blocks * self._layout.size(dot.left.own | dot.right.own) * summed
            yield DotProduct(
                max(dtypes, key=lambda dtype: BYTES[dtype]), rows, summed, operations, node
            )

    def _operations(self, node: TileNode) -> int:
        """The operations of the expression of `node` and of its reduction, but for those of a
        dot.
        """
        if self._layout.dot(node):
            return 0
        reductions = self._elements(node, node.all_indices) if node.folded else 0
        return reductions + sum(self._elements(node, indices) for _, indices in node.applied)

    def _special(self, node: TileNode) -> int:
        special = (indices for operation, indices in node.applied if operation in _SPECIAL)
        return sum(self._elements(node, indices) for indices in special)

    def _elements(self, node: TileNode, indices: frozenset[ir.LoopIndex]) -> int:
        """How often all blocks compute what depends on `indices`."""
        return self._blocks * self._layout.size(indices) * self._times(node, indices)
