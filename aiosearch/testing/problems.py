"""Small trees whose answers are plain to see; some are slow, asynchronous, failing or pruned.

Each is a frozen dataclass that a worker process can import. Most nodes are a depth and a number
that tells the node from its neighbours. A problem with a `plain()` gives there the tree as it
should come out.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TypeAlias

from ..problem import Obligation

Node: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Balanced:
    """Every node above `depth` has `branching` children. Each `every`th leaf is a solution."""

    branching: int = 3
    depth: int = 6
    every: int = 50

    def root(self) -> Node:
        """Gives node 0 of level 0, `(0, 0)`."""
        return 0, 0

    def expand(self, node: Node) -> list[Node]:
        """Numbers the children so that a level is counted from left to right: of `(1, 2)`
        with 3 branches, `(2, 6)` to `(2, 8)`."""
        depth, number = node
        if depth == self.depth:
            return []
        first = number * self.branching
        return [(depth + 1, first + index) for index in range(self.branching)]

    def solutions(self, node: Node) -> list[int]:
        """Gives a leaf's number, if `every` divides the next one."""
        depth, number = node
        return [number] if depth == self.depth and (number + 1) % self.every == 0 else []

    def priority(self, node: Node) -> float:
        """Mixes the levels and the sides."""
        depth, number = node
        return float((depth * 7 + number * 13) % 31)


@dataclass(frozen=True)
class Plenty(Balanced):
    """A `Balanced` tree in which every node is a solution, so that there is always something to
    report."""

    def solutions(self, node: Node) -> list[int]:
        """Gives a number that no other node has."""
        depth, number = node
        return [number * (self.depth + 1) + depth]


@dataclass(frozen=True)
class Random:
    """A tree of irregular shape, with up to four children a node and depths up to `depth`."""

    seed: int = 1
    depth: int = 9
    every: int = 40

    def root(self) -> Node:
        """Gives `(0, seed)`."""
        return 0, self.seed

    def expand(self, node: Node) -> list[Node]:
        """Draws how many children there are, and their numbers, from the node's own number
        by `_drawn`."""
        depth, number = node
        if depth == self.depth:
            return []
        # The root always has four, or the whole tree might be one node
        count = _drawn(number) % 5 if depth else 4
        return [(depth + 1, _drawn(number + 1 + index)) for index in range(count)]

    def solutions(self, node: Node) -> list[int]:
        """Gives a node's number where `every` divides it."""
        return [node[1]] if node[1] % self.every == 0 else []

    def priority(self, node: Node) -> float:
        """Takes the smallest number first."""
        return float(node[1])


@dataclass(frozen=True)
class Spine:
    """One child after another, to `depth`; the last one is the solution."""

    depth: int = 3_000

    def root(self) -> int:
        """Gives 0, which may be the last node too."""
        return 0

    def expand(self, node: int) -> tuple[int, ...]:
        """Gives `(node + 1,)`, or nothing at the end."""
        return (node + 1,) if node < self.depth else ()

    def solutions(self, node: int) -> tuple[int, ...]:
        """Gives the end."""
        return (node,) if node == self.depth else ()


@dataclass(frozen=True)
class Grid:
    """Walks right or down from a corner of a square; equal places have an equal `key`."""

    side: int = 30

    def root(self) -> Node:
        """Gives the upper left corner."""
        return 0, 0

    def expand(self, node: Node) -> list[Node]:
        """Gives the place to the right and the one below."""
        row, column = node
        steps = [(row, column + 1), (row + 1, column)]
        return [place for place in steps if max(place) < self.side]

    def solutions(self, node: Node) -> list[Node]:
        """Gives the places on the diagonal, `row == column`."""
        return [node] if node[0] == node[1] else []

    def key(self, node: Node) -> Node:
        """Gives the place itself, whatever way led to it."""
        return node


@dataclass(frozen=True)
class Knapsack:
    """Takes items or leaves them: the most value within `room` is the least cost."""

    weights: tuple[int, ...] = (12, 7, 11, 8, 9, 6, 7, 3, 5, 10)
    values: tuple[int, ...] = (24, 13, 23, 15, 16, 11, 12, 4, 9, 19)
    room: int = 35

    def root(self) -> tuple[int, int, int]:
        """Gives how many items are decided, the weight and the value so far: `(0, 0, 0)`."""
        return 0, 0, 0

    def expand(self, node: tuple[int, int, int]) -> list[tuple[int, int, int]]:
        """Leaves the next item, or takes it if there is `room`."""
        at, weight, value = node
        if at == len(self.weights):
            return []
        # The weight is checked where the child is made, so that every node is feasible
        with_item = (at + 1, weight + self.weights[at], value + self.values[at])
        return [(at + 1, weight, value)] + [with_item] * (with_item[1] <= self.room)

    def solutions(self, node: tuple[int, int, int]) -> list[int]:
        """Gives the value, where everything is decided."""
        return [node[2]] if node[0] == len(self.weights) else []

    def cost(self, solution: int) -> float:
        """Makes a large value a small cost: `-solution`."""
        return -float(solution)

    def bound(self, node: tuple[int, int, int]) -> float:
        """Adds the value of all that is not decided, as if there were `room` for it."""
        return -float(node[2] + sum(self.values[node[0] :]))


def _drawn(number: int) -> int:
    """Steps a linear congruential generator and takes its better bits."""
    # Knuth's multiplier for MMIX; the low bits of such a generator repeat soon, the upper ones do
    # not
    return (number * 6364136223846793005 + 1442695040888963407) % (1 << 62) >> 33


IRREGULAR = Random()
BALANCED = Balanced()
SMALL = Balanced(depth=4)


@dataclass(frozen=True)
class Slow:
    """A `Random` tree whose nodes take time, but no processor."""

    tree: Random = IRREGULAR
    seconds: float = 0.0003

    def root(self) -> Node:
        """Gives the tree's root."""
        return self.tree.root()

    def expand(self, node: Node) -> list[Node]:
        """Sleeps for `seconds`, then gives the children."""
        time.sleep(self.seconds)
        return self.tree.expand(node)

    def solutions(self, node: Node) -> list[int]:
        """Gives the tree's solutions."""
        return self.tree.solutions(node)


@dataclass(frozen=True)
class Awaited:
    """A `Balanced` tree that has to be awaited."""

    tree: Balanced = SMALL

    def root(self) -> Node:
        """Gives the tree's root."""
        return self.tree.root()

    async def expand(self, node: Node) -> list[Node]:
        """Lets other expansions go first, then gives the children of `tree`."""
        await asyncio.sleep(0)
        return self.tree.expand(node)

    def solutions(self, node: Node) -> list[int]:
        """Gives the tree's solutions."""
        return self.tree.solutions(node)

    def plain(self) -> Balanced:
        """Gives `tree`, the same one without waiting."""
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
        """Gives the children that are left, those that `hit` does not name."""
        return [child for child in self.tree.expand(node) if not self.hit(child)]

    def solutions(self, node: Node) -> list[int]:
        """Gives the tree's solutions."""
        return self.tree.solutions(node)

    def hit(self, node: Node) -> bool:
        """Says whether a node is one of those left out: on `level`, with a number that
        `every` divides."""
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
        """Gives the children, or raises where `left` has a hit."""
        if self.left.hit(node):
            raise ZeroDivisionError("on purpose")
        return self.left.tree.expand(node)

    def solutions(self, node: Node) -> list[int]:
        """Gives the tree's solutions."""
        return self.left.tree.solutions(node)

    def plain(self) -> Pruned:
        """Gives `left`: the tree when every node that raises is skipped."""
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
        """Asks whether the node's number leaves a rest when divided by `every`, on `level` only."""
        depth, number = node
        if depth != self.left.level:
            return None
        if self.doubt and not self.left.hit(node):
            # z3 cannot parse it, which makes the verdict `unknown`
            return Obligation(f"(assert (no-such-thing {number}))")
        # Unsatisfiable, and so proved, exactly where `every` does not divide the number
        return Obligation(f"(assert (= 0 (mod {number} {self.left.every})))")

    def plain(self) -> Pruned:
        """Gives `left`: what z3 lets live."""
        return self.left
