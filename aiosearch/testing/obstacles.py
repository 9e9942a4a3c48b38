"""Trees with a difficulty added: slow, asynchronous, failing, or pruned by z3.

A problem with a `plain()` gives there the tree as it should come out.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from ..problem import Obligation
from .problems import Balanced, Node, Random

IRREGULAR = Random()
BALANCED = Balanced()
SMALL = Balanced(depth=4)


@dataclass(frozen=True)
class Slow:
    """An irregular tree whose nodes take time, but no processor."""

    tree: Random = IRREGULAR
    seconds: float = 0.0003

    def root(self) -> Node:
        """Gives the tree's root."""
        return self.tree.root()

    def expand(self, node: Node) -> list[Node]:
        """Sleeps, then gives the children."""
        time.sleep(self.seconds)
        return self.tree.expand(node)

    def solutions(self, node: Node) -> list[int]:
        """Gives the tree's solutions."""
        return self.tree.solutions(node)


@dataclass(frozen=True)
class Awaited:
    """A balanced tree that has to be awaited."""

    tree: Balanced = SMALL

    def root(self) -> Node:
        """Gives the tree's root."""
        return self.tree.root()

    async def expand(self, node: Node) -> list[Node]:
        """Lets other expansions go first, then gives the children."""
        await asyncio.sleep(0)
        return self.tree.expand(node)

    def solutions(self, node: Node) -> list[int]:
        """Gives the tree's solutions."""
        return self.tree.solutions(node)

    def plain(self) -> Balanced:
        """Gives the same tree at once."""
        return self.tree


@dataclass(frozen=True)
class Pruned:
    """A balanced tree without the nodes, on level `level`, whose numbers `every` divides."""

    tree: Balanced = BALANCED
    level: int = 3
    every: int = 5

    def root(self) -> Node:
        """Gives the tree's root."""
        return self.tree.root()

    def expand(self, node: Node) -> list[Node]:
        """Gives the children that are left."""
        return [child for child in self.tree.expand(node) if not self.hit(child)]

    def solutions(self, node: Node) -> list[int]:
        """Gives the tree's solutions."""
        return self.tree.solutions(node)

    def hit(self, node: Node) -> bool:
        """Says whether a node is one of those left out."""
        return node[0] == self.level and node[1] % self.every == 0


WIDE_GAPS = Pruned()
NARROW_GAPS = Pruned(SMALL, level=2, every=4)


@dataclass(frozen=True)
class Failing:
    """A balanced tree that raises where `left` leaves a node out."""

    left: Pruned = WIDE_GAPS

    def root(self) -> Node:
        """Gives the tree's root."""
        return self.left.tree.root()

    def expand(self, node: Node) -> list[Node]:
        """Gives the children, or raises."""
        if self.left.hit(node):
            raise ZeroDivisionError("on purpose")
        return self.left.tree.expand(node)

    def solutions(self, node: Node) -> list[int]:
        """Gives the tree's solutions."""
        return self.left.tree.solutions(node)

    def plain(self) -> Pruned:
        """Gives what is left when every node that raises is skipped."""
        return self.left


@dataclass(frozen=True)
class Obliged:
    """A balanced tree where z3 refutes the nodes that `left` leaves out, and is asked on one level.

    With `doubt`, z3 understands none of the other questions: those nodes are explored last.
    """

    left: Pruned = NARROW_GAPS
    doubt: bool = False

    def root(self) -> Node:
        """Gives the tree's root."""
        return self.left.tree.root()

    def expand(self, node: Node) -> list[Node]:
        """Gives all the children."""
        return self.left.tree.expand(node)

    def solutions(self, node: Node) -> list[int]:
        """Gives the tree's solutions."""
        return self.left.tree.solutions(node)

    def obligation(self, node: Node) -> Obligation | None:
        """Asks whether the node's number leaves a rest."""
        depth, number = node
        if depth != self.left.level:
            return None
        if self.doubt and not self.left.hit(node):
            return Obligation(f"(assert (no-such-thing {number}))")
        return Obligation(f"(assert (= 0 (mod {number} {self.left.every})))")

    def plain(self) -> Pruned:
        """Gives what z3 lets live."""
        return self.left
