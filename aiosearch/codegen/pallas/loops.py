"""In which loop of a block something is computed.

A node that reduces the loop's index is an accumulator: it has its value behind a loop. What an
accumulator feeds comes after that loop; where that depends on the index too, it starts another
loop, which computes again what it needs of the first one. But what only scales with a maximum is
added up in the same loop: with the maximum of what was seen so far, and scaled as that grows.

Softmax times V over keys k takes one loop that way: the maximum, the sum of exponentials and the
product run together, and the two sums are scaled. An RMS norm over k takes a loop for its sums,
and another one for its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .. import ir
from .nodes import TileNode, TileNodes
from .rescaling import RescalingWeights, online_weight


class Loops:
    """The loops over the index `loop`, and what stands in and between them."""

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
        """The loops that are over before `node` at any rate, and the maxima that may be running
        with it.
        """
        least, maxima_running = 0, frozenset[TileNode]()
        for operand in node.reads.values():
            if self.accumulates(operand) and operand.reduction is ir.ReductionKind.MAX:
                maxima_running |= {operand}
            elif self.accumulates(operand) or not self.repeats(operand):
                least = max(least, self._levels[operand] + self.accumulates(operand))
            else:
                inner, maxima = self._open[operand]
                least, maxima_running = max(least, inner), maxima_running | maxima
        return least, maxima_running

    def _leveled(self, node: TileNode) -> int:
        """How many loops are over before `node` is computed."""
        least, maxima_running = self._open[node]
        weights = {maximum: self._weight(node, maximum) for maximum in maxima_running}
        # A maximum with which the node can be scaled may still be running; any other has to be
        # complete, which is one loop later.
        late = (self._levels[maximum] + (weight is None) for maximum, weight in weights.items())
        level = max((least, *late))
        along = {
            maximum: weight for maximum, weight in weights.items() if self._levels[maximum] == level
        }
        self._running[node] = {maximum: weight for maximum, weight in along.items() if weight}
        return level

    def _weight(self, node: TileNode, maximum: TileNode) -> float | None:
        """How an accumulator scales with `maximum`, where it may run along with it."""
        return online_weight(node, maximum) if self.accumulates(node) else None

    def heeds(self, maximum: TileNode) -> bool:
        """Whether something would go on with numbers if a maximum passed over NaN.

        What scales with it alone does not count: that is NaN then by itself.
        """
        readers = (node for node in self._nodes if maximum in node.reads.values())
        return maximum in self._stored or not all(map(RescalingWeights(maximum).of, readers))

    @property
    def count(self) -> range:
        """The loops, and one more for what comes after the last one."""
        lasting = (node for node in self._nodes if node in self._stored or not self.repeats(node))
        return range(max(map(self.done, lasting), default=0) + 1)

    def accumulates(self, node: TileNode) -> bool:
        return self._loop in node.folded

    def running(self, node: TileNode) -> dict[TileNode, float]:
        """The maxima that the accumulator `node` is scaled with, and how: as exp(number *
        maximum).
        """
        return self._running[node]

    def repeats(self, node: TileNode) -> bool:
        """Whether `node` has another value, or position, in every iteration."""
        if node not in self._repeats:
            self._repeats[node] = not self.accumulates(node) and self._moves(node)
        return self._repeats[node]

    def _moves(self, node: TileNode) -> bool:
        moves = node in self._stored and self._loop in node.stage.free
        return moves or self._loop in node.indices or any(map(self.repeats, node.reads.values()))

    def level(self, node: TileNode) -> int:
        """How many loops are over before `node` is computed."""
        return self._levels[node]

    def done(self, node: TileNode) -> int:
        """How many loops are over when the value of `node` is known."""
        return self._levels[node] + (self.accumulates(node) or self.repeats(node))

    def between(self, level: int) -> Iterator[TileNode]:
        """What is computed when `level` loops are over."""
        for node in self._nodes:
            if self.level(node) == level and not (self.accumulates(node) or self.repeats(node)):
                yield node

    def totals(self, level: int) -> list[TileNode]:
        """The accumulators of the loop at `level`."""
        return [
            node for node in self._nodes if self.level(node) == level and self.accumulates(node)
        ]

    def needed(self, totals: Iterable[TileNode], stored: Iterable[TileNode]) -> list[TileNode]:
        """`totals` and `stored` of a loop, and what repeats that they need, operands first."""
        needed = {*totals, *stored}
        stack = list(needed)
        while stack:
            for operand in stack.pop().reads.values():
                if self.repeats(operand) and operand not in needed:
                    needed.add(operand)
                    stack.append(operand)
        return [node for node in self._nodes if node in needed]
