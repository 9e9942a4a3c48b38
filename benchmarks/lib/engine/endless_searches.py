"""Searches that never end by themselves, each busy in its own way, for `cancel.py`."""

from __future__ import annotations

import time
from dataclasses import dataclass

from aiosearch import Obligation

CUBES = "".join(f"(declare-const {v} Int)(assert (> {v} 0))" for v in "xyz") + (
    "(assert (= (+ (* x x x) (* y y y)) (* z z z)))"
)
"""Fermat's last theorem for cubes: z3 thinks about it until it is stopped."""
UNLIMITED = 4_000_000_000


@dataclass(frozen=True)
class Doubling:
    """A tree whose end nobody sees."""

    def root(self) -> int:
        """Gives 1."""
        return 1

    def expand(self, node: int) -> list[int]:
        """Gives two numbers for every number."""
        return [2 * node, 2 * node + 1] if node < 1 << 60 else []

    def solutions(self, node: int) -> tuple[int, ...]:
        """Gives nothing."""
        return ()


@dataclass(frozen=True)
class Stuck(Doubling):
    """The same with an expand, after the first ones, that takes a minute of computing."""

    def expand(self, node: int) -> list[int]:
        """Computes for a minute below the third level."""
        end = time.monotonic() + 60 if node >= 8 else 0.0
        while time.monotonic() < end:
            pass
        return super().expand(node)


@dataclass(frozen=True)
class Doubtful(Doubling):
    """The same with a question for every node below the third level that takes z3 for ever."""

    def obligation(self, node: int) -> Obligation | None:
        """Asks something hard, another thing for every node."""
        if node < 8:
            return None
        return Obligation(CUBES + f"(assert (> x {node}))", logic="", rlimit=UNLIMITED)
