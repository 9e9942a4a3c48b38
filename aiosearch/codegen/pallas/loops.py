"""In which loop of a block something is computed.

A node that folds the loop's index is an accumulator: it has its value behind a loop. What an
accumulator feeds comes after that loop; where that depends on the index too, it starts another
loop, which computes again what it needs of the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .. import ir
from .nodes import Node, Nodes


class Loops:
    """The loops over one index, and what stands in and between them."""

    def __init__(self, nodes: Nodes, loop: ir.Index | None) -> None:
        self._nodes, self._stored, self._loop = nodes.all, nodes.outputs, loop
        self._levels: dict[Node, int] = {}
        for node in self._nodes:
            before = (self._levels[one] + self.accumulates(one) for one in node.reads.values())
            self._levels[node] = max(before, default=0)

    @property
    def count(self) -> range:
        """The loops, and one more for what comes after the last one."""
        return range(max(map(self.done, self._nodes), default=0) + 1)

    def accumulates(self, node: Node) -> bool:
        return self._loop in node.folded

    def repeats(self, node: Node, level: int | None = None) -> bool:
        """Whether a node has another value, or place, in every iteration; of one loop, if any."""
        if self.accumulates(node) or level not in (None, self.level(node)):
            return False
        moves = node in self._stored and self._loop in node.stage.free
        return moves or self._loop in node.indices or any(map(self.repeats, node.reads.values()))

    def level(self, node: Node) -> int:
        """How many loops are over before it is computed."""
        return self._levels[node]

    def done(self, node: Node) -> int:
        """How many are over when its value is known."""
        return self._levels[node] + (self.accumulates(node) or self.repeats(node))

    def between(self, level: int) -> Iterator[Node]:
        """What is computed when so many loops are over."""
        for node in self._nodes:
            if self.level(node) == level and not (self.accumulates(node) or self.repeats(node)):
                yield node

    def totals(self, level: int) -> list[Node]:
        """The accumulators of a loop."""
        return [one for one in self._nodes if self.level(one) == level and self.accumulates(one)]

    def needed(self, totals: Iterable[Node], stored: Iterable[Node]) -> list[Node]:
        """What repeats, of all that a loop's accumulators and stores need, operands first."""
        found = set(stored)
        stack = [*totals, *found]
        while stack:
            for one in stack.pop().reads.values():
                if self.repeats(one) and one not in found:
                    found.add(one)
                    stack.append(one)
        return [node for node in self._nodes if node in found]
