"""In which loop of a block something is computed.

A node that folds the loop's index is an accumulator: it has its value behind a loop. What an
accumulator feeds comes after that loop; where that depends on the index too, it starts another
loop, which computes again what it needs of the first one. But what only scales with a maximum is
added up in the same loop: with the maximum of what was seen so far, and scaled as that grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .. import ir
from .nodes import TileNode, TileNodes
from .rescaling import RescalingWeights, online_weight


class Loops:
    """The loops over one index, and what stands in and between them."""

    def __init__(self, nodes: TileNodes, loop: ir.LoopIndex | None) -> None:
        self._nodes, self._stored, self._loop = nodes.all, nodes.outputs, loop
        self._repeats: dict[TileNode, bool] = {}
        self._levels: dict[TileNode, int] = {}
        self._open: dict[TileNode, tuple[int, frozenset[TileNode]]] = {}
        self._running: dict[TileNode, dict[TileNode, float]] = {}
        for node in self._nodes:
            self._open[node] = self._opened(node)
            self._levels[node] = self._leveled(node)

    def _opened(self, node: TileNode) -> tuple[int, frozenset[TileNode]]:
        """The loops that are over before it at any rate, and the maxima that may be running."""
        least, most = 0, frozenset[TileNode]()
        for one in node.reads.values():
            if self.accumulates(one) and one.fold is ir.ReductionKind.MAX:
                most |= {one}
            elif self.accumulates(one) or not self.repeats(one):
                least = max(least, self._levels[one] + self.accumulates(one))
            else:
                inner, others = self._open[one]
                least, most = max(least, inner), most | others
        return least, most

    def _leveled(self, node: TileNode) -> int:
        least, most = self._open[node]
        found = {one: self._weight(node, one) for one in most}
        late = (self._levels[one] + (weight is None) for one, weight in found.items())
        level = max((least, *late))
        along = {one: weight for one, weight in found.items() if self._levels[one] == level}
        self._running[node] = {one: weight for one, weight in along.items() if weight}
        return level

    def _weight(self, node: TileNode, most: TileNode) -> float | None:
        """How an accumulator scales with a maximum, where it may run along with it."""
        return online_weight(node, most) if self.accumulates(node) else None

    def heeds(self, most: TileNode) -> bool:
        """Whether something would go on with numbers if a maximum passed over what is none.

        Not what scales with it alone: that is no number then by itself.
        """
        readers = (node for node in self._nodes if most in node.reads.values())
        return most in self._stored or not all(map(RescalingWeights(most).of, readers))

    @property
    def count(self) -> range:
        """The loops, and one more for what comes after the last one."""
        lasting = (one for one in self._nodes if one in self._stored or not self.repeats(one))
        return range(max(map(self.done, lasting), default=0) + 1)

    def accumulates(self, node: TileNode) -> bool:
        return self._loop in node.folded

    def running(self, node: TileNode) -> dict[TileNode, float]:
        """The maxima that an accumulator is scaled with, and how: as exp(number * maximum)."""
        return self._running[node]

    def repeats(self, node: TileNode) -> bool:
        """Whether a node has another value, or place, in every iteration."""
        if node not in self._repeats:
            self._repeats[node] = not self.accumulates(node) and self._moves(node)
        return self._repeats[node]

    def _moves(self, node: TileNode) -> bool:
        moves = node in self._stored and self._loop in node.stage.free
        return moves or self._loop in node.indices or any(map(self.repeats, node.reads.values()))

    def level(self, node: TileNode) -> int:
        """How many loops are over before it is computed."""
        return self._levels[node]

    def done(self, node: TileNode) -> int:
        """How many are over when its value is known."""
        return self._levels[node] + (self.accumulates(node) or self.repeats(node))

    def between(self, level: int) -> Iterator[TileNode]:
        """What is computed when so many loops are over."""
        for node in self._nodes:
            if self.level(node) == level and not (self.accumulates(node) or self.repeats(node)):
                yield node

    def totals(self, level: int) -> list[TileNode]:
        """The accumulators of a loop."""
        return [one for one in self._nodes if self.level(one) == level and self.accumulates(one)]

    def needed(self, totals: Iterable[TileNode], stored: Iterable[TileNode]) -> list[TileNode]:
        """A loop's accumulators and stores, and what repeats that they need, operands first."""
        found = {*totals, *stored}
        stack = list(found)
        while stack:
            for one in stack.pop().reads.values():
                if self.repeats(one) and one not in found:
                    found.add(one)
                    stack.append(one)
        return [node for node in self._nodes if node in found]
