"""Trees of awkward shapes with known counts, which test load balancing and not a search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

Place = tuple[int, int]
"""A node: the two numbers that its tree says of it."""


@dataclass(frozen=True)
class Lopsided:
    """A long spine with a leaf at every step, and most of the nodes in a thin tree at its end.

    A thin tree of height h has subtrees of heights h - 1 and h - `skew`, so that no cut of it is
    even either; `skew` is at least 2. A node is its depth and the height of the tree below the
    spine. The solutions are the quarter points of the spine and the deepest leaf, by their depths.
    """

    spine: int = 2_000
    height: int = 34
    skew: int = 3

    def root(self) -> Place:
        """The upper end of the spine."""
        return 0, self.height

    def expand(self, node: Place) -> list[Place] | tuple[()]:
        """A leaf and the next step of the spine, or the two subtrees of a thin tree."""
        depth, height = node
        if height <= 0:
            return ()
        depth += 1
        if depth <= self.spine:
            return [(depth, 0), (depth, height)]
        return [(depth, height - 1), (depth, height - self.skew)]

    def solutions(self, node: Place) -> tuple[int, ...]:
        """The depth of a quarter point or of the deepest leaf."""
        depth, height = node
        if depth not in self._marks:
            return ()
        return (depth,) if (height > 0 if depth < self.spine else height == 0) else ()

    @property
    def nodes(self) -> int:
        """How many nodes the tree has, the root included."""
        thin = [1]
        for height in range(1, self.height + 1):
            # As `expand` does it, without walking: the default tree has over a million nodes.
            thin.append(1 + thin[height - 1] + thin[max(0, height - self.skew)])
        return 2 * self.spine + thin[self.height]

    @property
    def answers(self) -> tuple[int, ...]:
        """Every solution, in order."""
        return tuple(sorted(self._marks))

    @cached_property
    def _marks(self) -> frozenset[int]:
        quarters = {self.spine * quarter // 4 for quarter in (1, 2, 3)}
        return frozenset(quarters | {self.spine + self.height})


@dataclass(frozen=True)
class Tiny:
    """A root with very many subtrees of one to four nodes, so that handing them out is the work.

    A node is the number of its subtree and its place there; the root is (-1, 0). Every thousandth
    subtree holds a solution: its own number.
    """

    subtrees: int = 10_000

    def root(self) -> Place:
        """The root, which stands in no subtree."""
        return -1, 0

    def expand(self, node: Place) -> list[Place] | tuple[()]:
        """All the subtrees, or the leaves of one: its number modulo 4."""
        number, place = node
        if number < 0:
            return [(number_of_subtree, 0) for number_of_subtree in range(self.subtrees)]
        return () if place else [(number, leaf) for leaf in range(1, number % 4 + 1)]

    def solutions(self, node: Place) -> tuple[int, ...]:
        """The number of a thousandth subtree at its last leaf `node`."""
        number, place = node
        return (number,) if place == 3 and number % 1_000 == 999 else ()

    @property
    def nodes(self) -> int:
        """How many nodes the tree has, the root included."""
        fours, left_over = divmod(self.subtrees, 4)
        # Four subtrees in a row have 0 + 1 + 2 + 3 leaves beside their roots.
        return 1 + self.subtrees + 6 * fours + left_over * (left_over - 1) // 2

    @property
    def answers(self) -> tuple[int, ...]:
        """Every solution, in order."""
        return tuple(range(999, self.subtrees, 1_000))
