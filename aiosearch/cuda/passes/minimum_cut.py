"""Which values to store across barriers, and which to compute again.

Behind a barrier a thread needs values from before it. Each can be stored there, in a cell that the
thread has in an array, or be computed again from others: thread indices and what is the same in all
threads are there anyway. In

    i = tx + 1;  j = i * n;  k = i + n;       barrier;       use(j), use(k)

storing j and k takes two cells; storing i takes one, and computing all from tx takes none.

Values are nodes, and an edge goes from each operand to what is computed from it. The *sources*
cannot be computed again (they come from memory that may have changed); the *sinks* are the values
that are needed. A set of values that every way from a source to a sink passes is enough to compute
the sinks from, and the cheapest is a minimum cut: each node is split in two, joined by an edge of
capacity its bytes, all other edges are infinite, and the maximum flow (Edmonds and Karp: shortest
augmenting ways first) leaves behind the cut. Invariant: the flow never exceeds a capacity, so its
value is a lower bound of every cut, and at the end the nodes that can still be reached give one of
exactly that value. The cost is O(V E^2), with graphs of tens of nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence, Set
from enum import StrEnum

from ..ir.operations import IrValue

_INFINITE = 1 << 40


class Policy(StrEnum):
    """How values get across barriers."""

    STORE = "store"
    """Each that is needed is stored."""
    CUT = "cut"
    """Those of a minimum cut by bytes are; the others are computed again."""
    RELOAD = "reload"
    """Like the cut, and what comes from memory that the kernel does not write is read again."""


def minimum_cut(
    operands: Mapping[IrValue, Sequence[IrValue]], sources: Set[IrValue], sinks: Set[IrValue]
) -> set[IrValue]:
    """The values to store: for each, `operands` has those that it can be computed from."""
    graph = _Graph()
    for value, several in operands.items():
        graph.edge((value, 0), (value, 1), value.type.size)
        for operand in several:
            if operand in operands:
                graph.edge((operand, 1), (value, 0), _INFINITE)
    for source in sources:
        graph.edge(None, (source, 0), _INFINITE)
    for sink in sinks:
        graph.edge((sink, 1), (sink, 2), _INFINITE)
        graph.edge((sink, 2), True, _INFINITE)
    reached = graph.saturated()
    return {value for value in operands if (value, 0) in reached and (value, 1) not in reached}


class _Graph:
    """Capacities that are left, edges against the flow included."""

    def __init__(self) -> None:
        self._left: dict[object, dict[object, int]] = {}

    def edge(self, first: object, second: object, capacity: int) -> None:
        self._left.setdefault(first, {})[second] = capacity
        self._left.setdefault(second, {}).setdefault(first, 0)

    def saturated(self) -> set[object]:
        """Lets as much flow as can, and gives what can still be reached from the source, None."""
        while True:
            came: dict[object, object] = {None: None}
            queue: deque[object] = deque([None])
            while queue and True not in came:
                node = queue.popleft()
                for second, capacity in self._left.get(node, {}).items():
                    if capacity and second not in came:
                        came[second] = node
                        queue.append(second)
            if True not in came:
                return set(came)
            self._augment(came)

    def _augment(self, came: Mapping[object, object]) -> None:
        way = []
        node: object = True
        while node is not None:
            way.append((came[node], node))
            node = came[node]
        amount = min(self._left[first][second] for first, second in way)
        for first, second in way:
            self._left[first][second] -= amount
            self._left[second][first] += amount
