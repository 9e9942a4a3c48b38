"""Registers of a thread where most are live, and how tiles are spread among warps.

A dot of few rows gives each warp sixteen of them and eight columns at least. Where its result leads
to another dot, Triton deals out rows alone, or columns alone, whichever are more; warps beyond that
hold the same once more.

How many registers of a thread a block's tiles take where most of them are needed at once.

Operands of dots come through shared memory; registers hold their addresses, and on the way to the
matrix units some of them. What is loaded before a loop stays in registers, and so do all totals.
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
"""Of a matrix instruction's result."""
_LOADED_OPERAND_REGISTER_SHARE = 0.4
"""The part of an operand that is held, where it comes from shared memory as it is needed."""
_COPIED_OPERAND_REGISTERS = 3
"""What is held of a computed one, where some warps hold what others hold: registers spill soon."""
TALL_DOT_ROWS = 64
"""Rows from which four warps multiply at once, with operands as they are in shared memory."""
WARPGROUP_WARPS = 4
"""Of a multiprocessor; each has its own warps and matrix unit."""


class WarpLayout:
    """Of a tiling, for so many warps."""

    def __init__(self, layout: TileLayout, warps: int) -> None:
        self._layout, self.warps = layout, warps
        self._known: dict[TileNode, float] = {}

    def of(self, node: TileNode) -> float:
        """The warps that a node's tile is spread among."""
        if node not in self._known:
            self._known[node] = self._spread(node)
        return self._known[node]

    def _spread(self, node: TileNode) -> float:
        dot = self._layout.dot(node)
        if dot is None:
            alike = [one for one in node.reads.values() if one.indices == node.indices]
            return min((self.of(one) for one in alike), default=self.warps)
        rows, columns = self._sides(dot)
        own, other = self._own(node, rows, columns)
        return rows * columns / (own * other)

    def held(self, node: TileNode) -> float:
        """The bytes of a dot's operands that a warp holds at once; some of what it only loads."""
        dot = self._layout.dot(node)
        assert dot is not None
        rows, columns = self._sides(dot)
        if rows >= TALL_DOT_ROWS and self.warps % WARPGROUP_WARPS == 0:
            return 0.0
        summed, sides = self._layout.size(dot.left.summed), self._own(node, rows, columns)
        return sum(
            own * summed * self._width(side, node)
            for own, side in zip(sides, (dot.left, dot.right), strict=True)
        )

    def _width(self, side: ContractionSide, node: TileNode) -> float:
        if not side.computed(node):
            return side.width * _LOADED_OPERAND_REGISTER_SHARE
        return side.width * (_COPIED_OPERAND_REGISTERS if self.of(node) < self.warps else 1)

    def _own(self, node: TileNode, rows: int, columns: int) -> tuple[float, float]:
        """A warp's rows and columns."""
        down = min(self.warps, max(1, rows // ROWS))
        if node in self._chain:
            down = self.warps if rows >= min(TALL_DOT_ROWS, columns) else 1
        return max(ROWS, rows / down), max(COLUMNS, columns / (self.warps // down))

    def _sides(self, dot: Contraction) -> tuple[int, int]:
        return self._layout.size(dot.left.own), self._layout.size(dot.right.own)

    @cached_property
    def _chain(self) -> set[TileNode]:
        """The dots that are made of others, and those."""
        found: set[TileNode] = set()
        for node in self._layout.nodes.all:
            if self._layout.dot(node):
                below = set(self._dots(node))
                found |= below | {node} if below else below
        return found

    def _dots(self, node: TileNode) -> Iterable[TileNode]:
        for one in node.reads.values():
            if self._layout.dot(one):
                yield one
            yield from self._dots(one)


pass

_ADDRESS_REGISTERS = 0.5
"""Bytes of an address for each byte of a tile: eight for sixteen that are loaded at once."""
_WORK_REGISTERS = 4
"""Bytes of an element that is computed with."""
_BYTES_PER_WARP_REGISTER = 32 * 4
"""Of a register, in all threads of a warp."""


@dataclass(frozen=True)
class _Phase:
    """What is computed between two loops, or in one."""

    nodes: tuple[TileNode, ...]
    lasting: tuple[TileNode, ...]
    """What has its registers all the while."""
    live: tuple[tuple[TileNode, ...], ...]
    """What else is there while each of the nodes is computed."""
    loops: bool


class RegisterPressure:
    """Of one tiling."""

    def __init__(self, layout: TileLayout, loops: Loops) -> None:
        self._layout, self._loops = layout, loops
        self._phases = _phases(layout, loops)

    def registers(self, warping: WarpLayout) -> int:
        """Of a thread, for tiles."""
        counted = _PressureCounter(self._layout, self._loops, warping)
        return math.ceil(max(map(counted.phase, self._phases)))


def _phases(layout: TileLayout, loops: Loops) -> list[_Phase]:
    ordered = list(_ordered(layout, loops))
    used: dict[TileNode, int] = {}
    for number, nodes in enumerate(ordered):
        for node in nodes:
            used.update(dict.fromkeys([node, *node.reads.values()], number))
    found, kept = [], set[TileNode]()
    for number, nodes in enumerate(ordered):
        looping = number % 2 == 1
        own = {one for one in nodes if looping and loops.accumulates(one)}
        lasting = {one for one in kept if used[one] >= number} | own
        found.append(_Phase(tuple(nodes), tuple(lasting), _live(nodes, lasting), looping))
        kept |= {one for one in nodes if loops.accumulates(one) or not loops.repeats(one)}
    return found


def _ordered(layout: TileLayout, loops: Loops) -> Iterator[list[TileNode]]:
    """What is computed before each loop, and in it."""
    stored = [one for one in layout.nodes.outputs if loops.repeats(one)]
    for level in loops.count:
        yield list(loops.between(level))
        inner = [one for one in stored if loops.level(one) == level]
        yield loops.needed(loops.totals(level), inner)


def _live(
    nodes: Sequence[TileNode], lasting: Collection[TileNode]
) -> tuple[tuple[TileNode, ...], ...]:
    """What was computed before each node, and is read by it or later."""
    last = {one: at for at, node in enumerate(nodes) for one in (node, *node.reads.values())}
    return tuple(
        tuple(one for one in nodes[:at] if last[one] >= at and one not in lasting)
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
                _WORK_REGISTERS if self._loops.accumulates(node) else BYTES[node.stage.target.dtype]
            )
            self._values[node] = self._spread(node, node.indices, wide)
        return self._values[node]

    def _spread(self, node: TileNode, indices: frozenset[ir.LoopIndex], wide: int) -> float:
        return (
            self._layout.size(indices) * wide / (self._warping.of(node) * _BYTES_PER_WARP_REGISTER)
        )

    def _work(self, node: TileNode, loops: bool) -> float:
        """What a node takes while it is computed: what it loads, and its own value."""
        moving = self._moving(node, loops) / self._all
        if not self._layout.dot(node):
            return moving + self._spread(node, node.all_indices, _WORK_REGISTERS)
        own = (
            0.0
            if self._loops.accumulates(node)
            else self._spread(node, node.indices, _WORK_REGISTERS)
        )
        return (
            own
            + moving * (_ADDRESS_REGISTERS if loops else 1)
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
        """What is loaded before a loop, to be there in all iterations."""
        taken = {load: indices for node in phase.nodes for load, indices in node.taken.items()}
        found = sum(
            self._layout.size(indices) * BYTES[load.buffer.dtype]
            for load, indices in taken.items()
            if phase.loops and self._layout.loop not in indices
        )
        return found / self._all
