"""N queens: every way to place n queens on an n by n board so that none attacks another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

Node = tuple[int, int, int, tuple[int, ...]]
"""Bit masks of the columns that the next row may not use, because of a queen in the column and on
either diagonal, and the columns chosen so far."""


@dataclass(frozen=True)
class Queens:
    """Places one queen a row; a solution is the tuple of its columns. `n=8` has 92 of them."""

    n: int = 8

    def root(self) -> Node:
        """The empty board."""
        return 0, 0, 0, ()

    def expand(self, node: Node) -> list[Node]:
        """The boards with one more queen than `node`, from the lowest column on."""
        columns, rising, falling, placed = node
        full = self._full
        free = full & ~(columns | rising | falling)
        children: list[Node] = []
        while free:
            # The lowest bit that is set: free columns are visited without looking at the others.
            queen = free & -free
            free ^= queen
            children.append(
                (
                    columns | queen,
                    (rising | queen) << 1 & full,
                    (falling | queen) >> 1,
                    (*placed, queen.bit_length() - 1),
                )
            )
        return children

    def solutions(self, node: Node) -> tuple[tuple[int, ...], ...]:
        """The columns of `node`, where every row has its queen."""
        return (node[3],) if node[0] == self._full else ()

    @cached_property
    def _full(self) -> int:
        return (1 << self.n) - 1
