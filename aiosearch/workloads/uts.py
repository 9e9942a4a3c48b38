"""The unbalanced tree search benchmark: trees whose shape nobody knows before walking them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha1
from math import ceil, floor, log
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

Node = tuple[int, bytes]
"""The depth of a node, and its state: 20 bytes of SHA-1."""

MOST_GEOMETRIC = 100
"""The cap that the reference implementation puts on the children of a geometric node."""

_UNDECIDED = 255
"""Stands for a number of children that the leading byte does not decide."""


@dataclass(frozen=True)
class UTS:
    """A tree of Olivier et al., "UTS: An Unbalanced Tree Search Benchmark" (LCPC 2006).

    The state of child i is the SHA-1 of its parent's state and i as 4 big-endian bytes; the last 4
    bytes of a state, without their sign bit, are the node's random number. No node is a solution.

    - `geometric` (of fixed shape): above `depth`, the number of children follows the geometric law
      whose mean is `branching`; at `depth` there are none.
    - `binomial`: the root has `branching` children; every other node has `many` of them with
      probability `chance`, else none.
    """

    shape: Literal["geometric", "binomial"] = "geometric"
    branching: float = 4.0
    seed: int = 19
    depth: int = 10
    chance: float = 0.0
    many: int = 0

    def root(self) -> Node:
        """The SHA-1 of 16 zero bytes and `seed` as 4 big-endian bytes, at depth 0."""
        return 0, sha1(bytes(16) + self.seed.to_bytes(4, "big")).digest()

    def expand(self, node: Node) -> list[Node] | tuple[()]:
        """The children of `node` in the order of their index."""
        depth, state = node
        if depth == self._limit:
            return ()
        count = self._by_byte[state[16]] if depth else self._at_root(state)
        # Only few nodes need the logarithm, which costs more than the table.
        if count == _UNDECIDED:
            count = self.children(_random(state))
        if not count:
            return ()
        depth += 1
        return [(depth, sha1(state + index).digest()) for index in self._indices[:count]]

    def solutions(self, node: Node) -> tuple[Node, ...]:
        """Nothing: the tree is there to be counted."""
        return ()

    def children(self, number: int) -> int:
        """Counts the children of a node, not the root and above the limit, by its random
        `number`.
        """
        probability = number / (1 << 31)
        if self.shape == "binomial":
            return self.many if probability < self.chance else 0
        stop = 1 / (1 + self.branching)
        return min(MOST_GEOMETRIC, floor(log(1 - probability) / log(1 - stop)))

    def _at_root(self, state: bytes) -> int:
        return ceil(self.branching) if self.shape == "binomial" else self.children(_random(state))

    @cached_property
    def _limit(self) -> int:
        return sys.maxsize if self.shape == "binomial" else self.depth

    @cached_property
    def _by_byte(self) -> bytes:
        # The leading byte of the random number decides most nodes, since the law is monotone.
        return bytes(self._decided(byte & 0x7F) for byte in range(256))

    def _decided(self, byte: int) -> int:
        least, most = self.children(byte << 24), self.children((byte << 24) + 0xFFFFFF)
        return least if least == most else _UNDECIDED

    @cached_property
    def _indices(self) -> tuple[bytes, ...]:
        most = max(MOST_GEOMETRIC, self.many, ceil(self.branching))
        return tuple(index.to_bytes(4, "big") for index in range(most))


def _random(state: bytes) -> int:
    return int.from_bytes(state[16:], "big") & 0x7FFFFFFF


class Tree(Struct, frozen=True):
    """A named tree with what its full walk counts, the root included and at depth 0."""

    problem: UTS
    nodes: int
    depth: int
    leaves: int


TREES: Mapping[str, Tree] = MappingProxyType(
    {
        "small": Tree(UTS(depth=5, seed=10), 987, 5, 772),
        "medium": Tree(UTS(depth=7, seed=0), 105_178, 7, 83_989),
        "T1": Tree(UTS(), 4_130_071, 10, 3_305_118),
        "T3": Tree(
            UTS("binomial", branching=2000, seed=42, chance=0.124875, many=8),
            4_112_897,
            1_572,
            3_599_034,
        ),
        "T1L": Tree(UTS(depth=13, seed=29), 102_181_082, 13, 81_746_377),
        "T3L": Tree(
            UTS("binomial", branching=2000, seed=7, chance=0.200014, many=5),
            111_345_631,
            17_844,
            89_076_904,
        ),
    }
)
"""T1, T3, T1L and T3L as published with the benchmark; the small ones for tests, counted here."""
