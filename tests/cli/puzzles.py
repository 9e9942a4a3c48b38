"""Problems that a user might have in a file, and might have got wrong."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

from msgspec import Struct


@dataclass(frozen=True)
class Count:
    """Counts from 0 to `n`; every number is a solution."""

    n: int = 3
    seed: int = 5
    names: tuple[str, ...] = ()
    maybe: int | None = None
    loud: bool = False
    anything: Any = None

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n must not be negative")

    def root(self) -> int:
        return 0

    def expand(self, node: int) -> list[int]:
        if self.loud:
            sys.stdout.write("loud\n")
        return [node + 1] if node < self.n else []

    def solutions(self, node: int) -> list[int]:
        return [node]


class Sized(Struct, frozen=True):
    """The same, cheapest last, with a field that has no default."""

    n: int

    def root(self) -> int:
        return 0

    def expand(self, node: int) -> list[int]:
        return [node + 1] if node < self.n else []

    def solutions(self, node: int) -> list[dict[str, int]]:
        return [{"left": self.n - node}]

    def cost(self, solution: dict[str, int]) -> float:
        return solution["left"]


@dataclass(frozen=True)
class Failing(Count):
    """Raises at 2."""

    def expand(self, node: int) -> list[int]:
        if node == 2:
            raise RuntimeError("two is too many")
        return super().expand(node)


@dataclass(frozen=True)
class Endless(Count):
    """Never ends."""

    def expand(self, node: int) -> list[int]:
        return [node + 1, node + 1]

    def solutions(self, node: int) -> list[int]:
        return []


@dataclass(frozen=True)
class Stuck(Count):
    """Does not come back from its first node, once it has been tried."""

    def expand(self, node: int) -> list[int]:
        sys.stderr.write("stuck\n")
        sys.stderr.flush()
        time.sleep(60)
        return []


@dataclass(frozen=True)
class Keyed:
    """Has a solution that JSON cannot say."""

    def root(self) -> int:
        return 0

    def expand(self, node: int) -> list[int]:
        return []

    def solutions(self, node: int) -> list[dict[tuple[int, int], int]]:
        return [{(node, node): 1}]


class Nothing:
    """Is no problem."""


count = Count(2)


def make() -> Count:
    return Count(1)


def greedy(n: int) -> Count:
    return Count(n)
