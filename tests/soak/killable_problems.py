"""Small searches that can be killed: what they find is known from a plain walk.

Their nodes take time but little of a processor, so that several trials can run side by side.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha1
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from aiosearch import Obligation
from aiosearch.workloads.tsp import TSP
from aiosearch.workloads.uts import UTS, Node

Place = tuple[int, int]
Way = tuple[int, int, int]


@dataclass(frozen=True)
class Marked(UTS):
    """A tree of the UTS benchmark; a node in `every` is a solution."""

    every: int = 40
    pause: float = 0.0002

    def expand(self, node: Node) -> list[Node] | tuple[()]:
        """Sleeps, then gives the children."""
        time.sleep(self.pause)
        return super().expand(node)

    def solutions(self, node: Node) -> tuple[Node, ...]:
        """Gives the node itself where its state says so."""
        return (node,) if int.from_bytes(node[1][:4], "big") % self.every == 0 else ()

    def priority(self, node: Node) -> float:
        """Mixes the levels and the sides."""
        return float(node[1][5])


@dataclass(frozen=True)
class Awaited(Marked):
    """The same, but its nodes have to be awaited, many at a time."""

    pause: float = 0.002

    async def expand(self, node: Node) -> list[Node] | tuple[()]:  # type: ignore[override]
        """Lets others go first, then gives the children."""
        await asyncio.sleep(self.pause)
        return UTS.expand(self, node)


@dataclass(frozen=True)
class Squares:
    """A tree whose nodes on one level live unless z3 finds a square root of a number modulo 2**16.

    `verdict` says what z3 must answer. Some questions it does not understand: those nodes are put
    off, and explored last.
    """

    branching: int = 5
    asked: int = 4
    depth: int = 5
    pause: float = 0.0002

    def root(self) -> Place:
        """Gives node 0 of level 0."""
        return 0, 0

    def expand(self, node: Place) -> list[Place]:
        """Numbers the children so that a level is counted from left to right."""
        time.sleep(self.pause)
        depth, number = node
        if depth == self.depth:
            return []
        first = number * self.branching
        return [(depth + 1, first + index) for index in range(self.branching)]

    def solutions(self, node: Place) -> list[int]:
        """Gives every tenth leaf's number."""
        return [node[1]] if node[0] == self.depth and node[1] % 10 == 0 else []

    def obligation(self, node: Place) -> Obligation | None:
        """Asks whether no number has this square."""
        if node[0] != self.asked:
            return None
        if node[1] % 50 == 7:
            return Obligation(f"(assert (no-such-thing {node[1]}))")
        goal = f"(= (bvmul x x) (_ bv{self._drawn(node)} 16))"
        return Obligation(f"(declare-const x (_ BitVec 16))(assert {goal})", logic="QF_BV")

    def verdict(self, node: Place) -> str:
        """Says what becomes of the obligation, without z3."""
        if node[1] % 50 == 7:
            return "unknown"
        return "refuted" if self._drawn(node) in SQUARES else "proved"

    def _drawn(self, node: Place) -> int:
        number = int.from_bytes(sha1(node[1].to_bytes(4, "big")).digest()[:2], "big")
        return number * number & 0xFFFF if node[1] % 3 == 0 else number


SQUARES = frozenset(number * number & 0xFFFF for number in range(1 << 16))


@dataclass(frozen=True)
class Lattice:
    """Walks from a corner of a square, a step or a leap at a time: places have many ways in."""

    side: int = 50
    pause: float = 0.0002

    def root(self) -> Place:
        """Gives the corner."""
        return 0, 0

    def expand(self, node: Place) -> list[Place]:
        """Sleeps, then gives the places that a step or a leap leads to."""
        time.sleep(self.pause)
        row, column = node
        steps = [(row, column + 1), (row + 1, column), (row + 2, column + 3)]
        return [place for place in steps if max(place) < self.side]

    def solutions(self, node: Place) -> list[Place]:
        """Gives a place in eleven."""
        return [node] if (node[0] * 7 + node[1]) % 11 == 0 else []

    def key(self, node: Place) -> Place:
        """Tells places apart, not the ways to them."""
        return node

    def priority(self, node: Place) -> float:
        """Takes the lower rows first."""
        return float(-node[0])


@dataclass(frozen=True)
class Cheapest:
    """The cheapest way across a square: a place is reopened when a better way to it is found."""

    side: int = 24
    pause: float = 0.0002

    def root(self) -> Way:
        """Gives the corner, where nothing is spent yet."""
        return 0, 0, 0

    def expand(self, node: Way) -> list[Way]:
        """Sleeps, then gives the places to the right and below, and what it costs to be there."""
        time.sleep(self.pause)
        row, column, spent = node
        steps = [(row, column + 1), (row + 1, column)]
        return [(*place, spent + self._toll(*place)) for place in steps if max(place) < self.side]

    def solutions(self, node: Way) -> list[int]:
        """Gives what was spent, in the opposite corner."""
        return [node[2]] if node[0] == node[1] == self.side - 1 else []

    def cost(self, solution: int) -> float:
        """Gives what was spent."""
        return float(solution)

    def bound(self, node: Way) -> float:
        """Adds the least toll for every step that is left."""
        return float(node[2] + 2 * (self.side - 1) - node[0] - node[1])

    def key(self, node: Way) -> Place:
        """Tells places apart, not the ways to them."""
        return node[:2]

    def priority(self, node: Way) -> float:
        """Takes those closest to the end first: on another scale than the bound."""
        return float(1_000_000 - node[0] - node[1])

    def _toll(self, row: int, column: int) -> int:
        return 1 + (row * 31 + column * 17 + row * column * 7) % 13


class Subject(Struct, frozen=True):
    """A problem, and the orders it may be explored in."""

    problem: Any
    orders: tuple[str, ...]


EXHAUSTIVE = ("depth-first", "breadth-first")
SCORED = (*EXHAUSTIVE, "best-first")

SUBJECTS: Mapping[str, Subject] = MappingProxyType(
    {
        "tree": Subject(Marked(depth=6, seed=29), SCORED),
        "awaited": Subject(Awaited(depth=6, seed=29), SCORED),
        "questions": Subject(Squares(), EXHAUSTIVE),
        "keys": Subject(Lattice(), SCORED),
        "bounds": Subject(TSP(30, 5), ("branch-and-bound",)),
        "ways": Subject(Cheapest(), ("branch-and-bound", "best-first, pruning")),
    }
)
