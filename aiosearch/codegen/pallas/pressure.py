"""How many registers of a thread a block's tiles take where most of them are needed at once.

Operands of dots come through shared memory; registers hold their addresses, and on the way to the
matrix units some of them. What is loaded before a loop stays in registers, and so do all totals.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ...tensor.types import BYTES
from .. import ir
from .layout import Layout
from .loops import Loops
from .nodes import Node
from .warping import Warping

_ADDRESS = 0.5
"""Bytes of an address for each byte of a tile: eight for sixteen that are loaded at once."""
_WORK = 4
"""Bytes of an element that is computed with."""
_WARP_BYTES = 32 * 4
"""Of a register, in all threads of a warp."""


@dataclass(frozen=True)
class _Phase:
    """What is computed between two loops, or in one."""

    nodes: tuple[Node, ...]
    lasting: tuple[Node, ...]
    """What has its registers all the while."""
    live: tuple[tuple[Node, ...], ...]
    """What else is there while each of the nodes is computed."""
    loops: bool


class Pressure:
    """Of one tiling."""

    def __init__(self, layout: Layout, loops: Loops) -> None:
        self._layout, self._loops = layout, loops
        self._phases = _phases(layout, loops)

    def registers(self, warping: Warping) -> int:
        """Of a thread, for tiles."""
        counted = _Counted(self._layout, self._loops, warping)
        return math.ceil(max(map(counted.phase, self._phases)))


def _phases(layout: Layout, loops: Loops) -> list[_Phase]:
    ordered = list(_ordered(layout, loops))
    used: dict[Node, int] = {}
    for number, nodes in enumerate(ordered):
        for node in nodes:
            used.update(dict.fromkeys([node, *node.reads.values()], number))
    found, kept = [], set[Node]()
    for number, nodes in enumerate(ordered):
        looping = number % 2 == 1
        own = {one for one in nodes if looping and loops.accumulates(one)}
        lasting = {one for one in kept if used[one] >= number} | own
        found.append(_Phase(tuple(nodes), tuple(lasting), _live(nodes, lasting), looping))
        kept |= {one for one in nodes if loops.accumulates(one) or not loops.repeats(one)}
    return found


def _ordered(layout: Layout, loops: Loops) -> Iterator[list[Node]]:
    """What is computed before each loop, and in it."""
    stored = [one for one in layout.nodes.outputs if loops.repeats(one)]
    for level in loops.count:
        yield list(loops.between(level))
        inner = [one for one in stored if loops.level(one) == level]
        yield loops.needed(loops.totals(level), inner)


def _live(nodes: Sequence[Node], lasting: Collection[Node]) -> tuple[tuple[Node, ...], ...]:
    """What was computed before each node, and is read by it or later."""
    last = {one: at for at, node in enumerate(nodes) for one in (node, *node.reads.values())}
    return tuple(
        tuple(one for one in nodes[:at] if last[one] >= at and one not in lasting)
        for at in range(len(nodes))
    )


class _Counted:
    """The registers of a thread, for one number of warps."""

    def __init__(self, layout: Layout, loops: Loops, warping: Warping) -> None:
        self._layout, self._loops, self._warping = layout, loops, warping
        self._all = warping.warps * _WARP_BYTES
        self._values: dict[Node, float] = {}

    def phase(self, phase: _Phase) -> float:
        works = [
            self._work(node, phase.loops) + sum(map(self._value, live))
            for node, live in zip(phase.nodes, phase.live, strict=True)
        ]
        return sum(map(self._value, phase.lasting)) + self._before(phase) + max(works, default=0)

    def _value(self, node: Node) -> float:
        if node not in self._values:
            wide = _WORK if self._loops.accumulates(node) else BYTES[node.stage.target.dtype]
            self._values[node] = self._spread(node, node.indices, wide)
        return self._values[node]

    def _spread(self, node: Node, indices: frozenset[ir.Index], wide: int) -> float:
        return self._layout.size(indices) * wide / (self._warping.of(node) * _WARP_BYTES)

    def _work(self, node: Node, loops: bool) -> float:
        """What a node takes while it is computed: what it loads, and its own value."""
        moving = self._moving(node, loops) / self._all
        if not self._layout.dot(node):
            return moving + self._spread(node, node.all_indices, _WORK)
        own = 0.0 if self._loops.accumulates(node) else self._spread(node, node.indices, _WORK)
        return own + moving * (_ADDRESS if loops else 1) + self._warping.held(node) / _WARP_BYTES

    def _moving(self, node: Node, loops: bool) -> float:
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
