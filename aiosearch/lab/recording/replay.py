"""A recording as a problem: the same tree, whose nodes are numbers in preorder."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

from ...checks.verdict import Status, Verdict
from ...problem import Obligation
from .format import SOLVES, Columns, Footer, Header, NodeKind, read

QUESTION = 35e-6
"""Seconds of a z3 process for a question, beside the check: as benchmarks/simulated.py has them."""


class Recorded:
    """The tree of a recording. A node is its number in preorder, and nothing has to be
    computed.

    A tree whose root 0 has the children 1 and 4, and 1 has 2 and 3, has the subtree sizes `[5,
    3, 1, 1, 1]`: the first child of `n` is `n + 1`, and the next one that plus its size. It
    takes some twenty bytes a node, which all workers of a simulation share.
    """

    def __init__(self, header: Header, footer: Footer, columns: Columns) -> None:
        self.header = header
        self.footer = footer
        self._size, self._spent = _sizes(columns)
        self._kinds = columns.kinds.tobytes()

    @property
    def cpu_seconds(self) -> float:
        """Seconds that one worker takes for the whole tree, z3 left out."""
        return sum(self._spent) / 1e9 + self.footer.nodes * self.footer.overhead

    @property
    def longest(self) -> float:
        """Seconds of the longest node: no number of workers is done sooner."""
        return max(self._spent) / 1e9

    def root(self) -> int:
        """Gives 0, the first node in preorder."""
        return 0

    def expand(self, node: int) -> list[int] | tuple[()]:
        """Gives the numbers of the children."""
        size = self._size
        end = node + size[node]
        child = node + 1
        if child == end:
            return ()
        kinds = self._kinds
        children = []
        while child < end:
            # A dropped node was never explored: its time counts with its parent's
            if kinds[child] & 3 != NodeKind.DROPPED:
                children.append(child)
            child += size[child]
        return children

    def solutions(self, node: int) -> tuple[int, ...]:
        """Gives `(node,)` for a node that had solutions, however many."""
        return (node,) if self._kinds[node] & SOLVES else ()

    def seconds(self, node: int) -> float:
        """Seconds that a node took, with what the engine adds to it, `Footer.overhead`."""
        return max(self._spent[node] * 1e-9 + self.footer.overhead, 0.0)


class RecordedWithQuestions(Recorded):
    """A recording with obligations: their text is gone, their verdicts and times are there."""

    def __init__(self, header: Header, footer: Footer, columns: Columns) -> None:
        super().__init__(header, footer, columns)
        asked = [at for at, kind in enumerate(self._kinds) if kind & 3 in _ASKING]
        numbers = dict(zip(asked, columns.questions, strict=True))
        self._numbers = numbers
        self._checks = columns.checks
        self._alive = {numbers[at]: self._kinds[at] & 3 == NodeKind.ALIVE for at in asked}

    def obligation(self, node: int) -> Obligation | None:
        """Gives an `Obligation` whose key is the number of the node's question."""
        number = self._numbers.get(node)
        return None if number is None else Obligation("", key=number.to_bytes(4, "little"))

    def verdict_after(self, scale: float) -> Callable[[Obligation], Verdict]:
        """Tells what z3 said, and how long it took, times `scale`, to read and answer included."""

        def verdict(obligation: Obligation) -> Verdict:
            number = int.from_bytes(obligation.key, "little")
            status = Status.PROVED if self._alive[number] else Status.REFUTED
            return Verdict(status, seconds=self._checks[number] * scale / 1e9 + QUESTION)

        return verdict


_ASKING = (NodeKind.ALIVE, NodeKind.REFUTED)


def load(path: str | Path) -> Recorded:
    """Reads a recording; raises `RecordingError` where the file is none, or is damaged."""
    header, columns, footer = read(Path(path))
    factory = RecordedWithQuestions if columns.questions else Recorded
    return factory(header, footer, columns)


def _sizes(columns: Columns) -> tuple[array[int], array[int]]:
    """Gives each node's subtree size, and its time with that of the children it did not explore.

    Goes backwards, so that a node's subtrees lie ready, the first one on top. Where the walk was
    stopped, those of the nodes that it stood in are fewer than they were to be.
    """
    size = array("I", bytes(4 * len(columns.children)))
    spent = array("Q", columns.spent)
    ready: list[int] = []
    for node in range(len(size) - 1, -1, -1):
        total = 1
        for _ in range(min(columns.children[node], len(ready))):
            child = ready.pop()
            total += size[child]
            if columns.kinds[child] & 3 in (NodeKind.DROPPED, NodeKind.REFUTED):
                spent[node] += spent[child]
                spent[child] = 0
        size[node] = total
        ready.append(node)
    return size, spent
