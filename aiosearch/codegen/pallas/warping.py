"""Among how many warps tiles are spread: a dot's, as the matrix units want it.

A dot of few rows gives each warp sixteen of them and eight columns at least. Where its result leads
to another dot, Triton deals out rows alone, or columns alone, whichever are more; warps beyond that
hold the same once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from .factors import Contraction, Side
from .layout import Layout
from .nodes import Node

ROWS, COLUMNS = 16, 8
"""Of a matrix instruction's result."""
_LOADED = 0.4
"""The part of an operand that is held, where it comes from shared memory as it is needed."""
_COPIED = 3
"""What is held of a computed one, where some warps hold what others hold: registers spill soon."""
TALL = 64
"""Rows from which four warps multiply at once, with operands as they are in shared memory."""
QUARTERS = 4
"""Of a multiprocessor; each has its own warps and matrix unit."""


class Warping:
    """Of a tiling, for so many warps."""

    def __init__(self, layout: Layout, warps: int) -> None:
        self._layout, self.warps = layout, warps
        self._known: dict[Node, float] = {}

    def of(self, node: Node) -> float:
        """The warps that a node's tile is spread among."""
        if node not in self._known:
            self._known[node] = self._spread(node)
        return self._known[node]

    def _spread(self, node: Node) -> float:
        dot = self._layout.dot(node)
        if dot is None:
            alike = [one for one in node.reads.values() if one.indices == node.indices]
            return min((self.of(one) for one in alike), default=self.warps)
        rows, columns = self._sides(dot)
        own, other = self._own(node, rows, columns)
        return rows * columns / (own * other)

    def held(self, node: Node) -> float:
        """The bytes of a dot's operands that a warp holds at once; some of what it only loads."""
        dot = self._layout.dot(node)
        assert dot is not None
        rows, columns = self._sides(dot)
        if rows >= TALL and self.warps % QUARTERS == 0:
            return 0.0
        summed, sides = self._layout.size(dot.left.summed), self._own(node, rows, columns)
        return sum(
            own * summed * self._width(side, node)
            for own, side in zip(sides, (dot.left, dot.right), strict=True)
        )

    def _width(self, side: Side, node: Node) -> float:
        if not side.computed(node):
            return side.width * _LOADED
        return side.width * (_COPIED if self.of(node) < self.warps else 1)

    def _own(self, node: Node, rows: int, columns: int) -> tuple[float, float]:
        """A warp's rows and columns."""
        down = min(self.warps, max(1, rows // ROWS))
        if node in self._chain:
            down = self.warps if rows >= min(TALL, columns) else 1
        return max(ROWS, rows / down), max(COLUMNS, columns / (self.warps // down))

    def _sides(self, dot: Contraction) -> tuple[int, int]:
        return self._layout.size(dot.left.own), self._layout.size(dot.right.own)

    @cached_property
    def _chain(self) -> set[Node]:
        """The dots that are made of others, and those."""
        found: set[Node] = set()
        for node in self._layout.nodes.all:
            if self._layout.dot(node):
                below = set(self._dots(node))
                found |= below | {node} if below else below
        return found

    def _dots(self, node: Node) -> Iterable[Node]:
        for one in node.reads.values():
            if self._layout.dot(one):
                yield one
            yield from self._dots(one)
