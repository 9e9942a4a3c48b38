"""Registers of a thread where most are live, and how tiles are spread among warps.

Problem: a tiling whose tiles do not fit into registers spills, and is slower than any other. Which
do is only known after compilation, so registers are counted here: at each point of a block, the
tiles that are live there.

A dot of few rows gives each warp sixteen of them and eight columns at least. Where its result leads
to another dot, Triton deals out rows alone, or columns alone, whichever are more; warps beyond that
hold the same once more. Operands of dots come through shared memory; registers hold their
addresses, and on the way to the matrix units some of them. What is loaded before a loop stays in
registers, and so do all totals.

Worked example: an accumulator of 32 x 64 floats spread among 4 warps is 32 * 64 * 4 / (4 * 128) =
16 registers of each thread. With operands and the base of 40 the tiling of `kernel_cost` comes to
88.

Invariant: live ranges are exact for the order in which the printer writes the body (`Loops`); how
the compiler holds operands is approximated by the shares below. With a
compiler installed, `benchmarks/gpuplans.py` prints ptxas' figures beside these.

Cost: nodes times live tiles of a phase, once for each number of warps.

See docs/why/kernels.md, "The same kernel for a GPU".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ....tensor.types import BYTES
from ... import ir
from ..contractions import Contraction, ContractionSide
from ..layout import TileLayout
from ..loops import Loops
from ..nodes import TileNode

ROWS, COLUMNS = 16, 8
"""The least rows and columns of the result of a matrix instruction."""
_LOADED_OPERAND_REGISTER_SHARE = 0.4
"""The part of an operand that is held, where it comes from shared memory as it is needed."""
_COPIED_OPERAND_REGISTERS = 3
"""What is held of a computed operand, where some warps hold what others hold: registers spill
soon."""
TALL_DOT_ROWS = 64
"""Rows from which four warps multiply at once, with operands as they are in shared memory."""
WARPGROUP_WARPS = 4
"""Warps that multiply together: one for each scheduler of a multiprocessor, which has warps and a
matrix unit of its own."""


class WarpLayout:
    """How the tiles of a layout are spread among `warps`."""

    def __init__(self, layout: TileLayout, warps: int) -> None:
        self._layout, self.warps = layout, warps
        self._known: dict[TileNode, float] = {}

    def of(self, node: TileNode) -> float:
        """The warps that the tile of `node` is spread among."""
        if node not in self._known:
            self._known[node] = self._spread(node)
        return self._known[node]

    def _spread(self, node: TileNode) -> float:
        dot = self._layout.dot(node)
        if dot is None:
            # A pointwise node keeps the layout of its operands, the least spread of which decides;
            # a node without dots below it is spread among all warps.
            alike = [operand for operand in node.reads.values() if operand.indices == node.indices]
            return min((self.of(operand) for operand in alike), default=self.warps)
        rows, columns = self._sides(dot)
        warp_rows, warp_columns = self._own(node, rows, columns)
        return rows * columns / (warp_rows * warp_columns)

    def held(self, node: TileNode) -> float:
        """The bytes of a dot's operands that a warp holds at once; some of what it only loads."""
        dot = self._layout.dot(node)
        assert dot is not None
        rows, columns = self._sides(dot)
        # A warp group reads both operands from shared memory.
        if rows >= TALL_DOT_ROWS and self.warps % WARPGROUP_WARPS == 0:
            return 0.0
        summed, sides = self._layout.size(dot.left.summed), self._own(node, rows, columns)
        return sum(
            warp_side * summed * self._width(side, node)
            for warp_side, side in zip(sides, (dot.left, dot.right), strict=True)
        )

    def _width(self, side: ContractionSide, node: TileNode) -> float:
        if not side.computed(node):
            return side.width * _LOADED_OPERAND_REGISTER_SHARE
        return side.width * (_COPIED_OPERAND_REGISTERS if self.of(node) < self.warps else 1)

    def _own(self, node: TileNode, rows: int, columns: int) -> tuple[float, float]:
        """The rows and columns of the result of `node` that one warp has."""
        down = min(self.warps, max(1, rows // ROWS))
        # A result that is the operand of another dot has to be laid out as that operand, which
        # Triton does along one side only.
        if node in self._chain:
            down = self.warps if rows >= min(TALL_DOT_ROWS, columns) else 1
        return max(ROWS, rows / down), max(COLUMNS, columns / (self.warps // down))

    def _sides(self, dot: Contraction) -> tuple[int, int]:
        return self._layout.size(dot.left.own), self._layout.size(dot.right.own)

    @cached_property
    def _chain(self) -> set[TileNode]:
        """The dots that are made of others, and those."""
        chained: set[TileNode] = set()
        for node in self._layout.nodes.all:
            if self._layout.dot(node):
                below = set(self._dots(node))
                chained |= below | {node} if below else below
        return chained

    def _dots(self, node: TileNode) -> Iterable[TileNode]:
        for operand in node.reads.values():
            if self._layout.dot(operand):
                yield operand
            yield from self._dots(operand)


_ADDRESS_BYTES_PER_BYTE = 0.5
"""Bytes of an address for each byte of a tile: eight for sixteen that are loaded at once."""
_WORK_BYTES_PER_ELEMENT = 4
"""Bytes of an element that is computed with."""
_BYTES_PER_WARP_REGISTER = 32 * 4
"""Bytes of a register, in all threads of a warp."""


@dataclass(frozen=True)
class _Phase:
    """What is computed between two loops, or in one."""

    nodes: tuple[TileNode, ...]
    lasting: tuple[TileNode, ...]
    """The nodes that have registers all the while."""
    live: tuple[tuple[TileNode, ...], ...]
    """What else is there while each of `nodes` is computed."""
    loops: bool


class RegisterPressure:
    """Registers of one tiling."""

    def __init__(self, layout: TileLayout, loops: Loops) -> None:
        self._layout, self._loops = layout, loops
        self._phases = _phases(layout, loops)

    def registers(self, warping: WarpLayout) -> int:
        """Registers of a thread for tiles spread as `warping` says, at the point where most are
        live.
        """
        # The phase that needs most decides: registers are allocated for the whole kernel.
        counted = _PressureCounter(self._layout, self._loops, warping)
        return math.ceil(max(map(counted.phase, self._phases)))


def _phases(layout: TileLayout, loops: Loops) -> list[_Phase]:
    """The phases of a block, before each loop and in it."""
    ordered = list(_ordered(layout, loops))
    used: dict[TileNode, int] = {}
    for number, nodes in enumerate(ordered):
        for node in nodes:
            used.update(dict.fromkeys([node, *node.reads.values()], number))
    phases, computed = [], set[TileNode]()
    for number, nodes in enumerate(ordered):
        looping = number % 2 == 1
        accumulators = {node for node in nodes if looping and loops.accumulates(node)}
        # What an earlier phase has computed lives on until its last reader; accumulators live
        # through their whole loop.
        lasting = {node for node in computed if used[node] >= number} | accumulators
        phases.append(_Phase(tuple(nodes), tuple(lasting), _live(nodes, lasting), looping))
        computed |= {node for node in nodes if loops.accumulates(node) or not loops.repeats(node)}
    return phases


def _ordered(layout: TileLayout, loops: Loops) -> Iterator[list[TileNode]]:
    """What is computed before each loop, and in it."""
    stored = [output for output in layout.nodes.outputs if loops.repeats(output)]
    for level in loops.count:
        yield list(loops.between(level))
        inner = [output for output in stored if loops.level(output) == level]
        yield loops.needed(loops.totals(level), inner)


def _live(
    nodes: Sequence[TileNode], lasting: Collection[TileNode]
) -> tuple[tuple[TileNode, ...], ...]:
    """What was computed before each of `nodes`, is read by it or later, and is not in `lasting`."""
    last = {value: at for at, node in enumerate(nodes) for value in (node, *node.reads.values())}
    return tuple(
        tuple(value for value in nodes[:at] if last[value] >= at and value not in lasting)
        for at in range(len(nodes))
    )


class _PressureCounter:
    """The registers of a thread, for one number of warps."""

    def __init__(self, layout: TileLayout, loops: Loops, warping: WarpLayout) -> None:
        self._layout, self._loops, self._warping = layout, loops, warping
        self._all = warping.warps * _BYTES_PER_WARP_REGISTER
        self._values: dict[TileNode, float] = {}

    def phase(self, phase: _Phase) -> float:
        works = [
            self._work(node, phase.loops) + sum(map(self._value, live))
            for node, live in zip(phase.nodes, phase.live, strict=True)
        ]
        return sum(map(self._value, phase.lasting)) + self._before(phase) + max(works, default=0)

    def _value(self, node: TileNode) -> float:
        if node not in self._values:
            wide = (
                _WORK_BYTES_PER_ELEMENT
                if self._loops.accumulates(node)
                else BYTES[node.stage.target.dtype]
            )
            self._values[node] = self._spread(node, node.indices, wide)
        return self._values[node]

    def _spread(self, node: TileNode, indices: frozenset[ir.LoopIndex], wide: int) -> float:
        return (
            self._layout.size(indices) * wide / (self._warping.of(node) * _BYTES_PER_WARP_REGISTER)
        )

    def _work(self, node: TileNode, loops: bool) -> float:
        """Registers that a node takes while it is computed: for what it loads, and for its own
        value.
        """
        moving = self._moving(node, loops) / self._all
        if not self._layout.dot(node):
            return moving + self._spread(node, node.all_indices, _WORK_BYTES_PER_ELEMENT)
        own_registers = (
            0.0
            if self._loops.accumulates(node)
            else self._spread(node, node.indices, _WORK_BYTES_PER_ELEMENT)
        )
        return (
            own_registers
            + moving * (_ADDRESS_BYTES_PER_BYTE if loops else 1)
            + self._warping.held(node) / _BYTES_PER_WARP_REGISTER
        )

    def _moving(self, node: TileNode, loops: bool) -> float:
        """The bytes that are loaded where a node is computed, and not before a loop."""
        return sum(
            self._layout.size(indices) * BYTES[load.buffer.dtype]
            for load, indices in node.taken.items()
            if self._layout.loop in indices or not loops
        )

    def _before(self, phase: _Phase) -> float:
        """Registers of what is loaded before the loop of `phase`, to be there in all iterations."""
        loaded = {load: indices for node in phase.nodes for load, indices in node.taken.items()}
        held_bytes = sum(
            self._layout.size(indices) * BYTES[load.buffer.dtype]
            for load, indices in loaded.items()
            if phase.loops and self._layout.loop not in indices
        )
        return held_bytes / self._all
