"""Problems for tests, in a module that worker processes can import."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aiosearch import Obligation

Word = tuple[int, ...]


@dataclass(frozen=True)
class Words:
    """Every word of `length` letters out of `letters`; each full word is a solution."""

    letters: int = 3
    length: int = 6

    def root(self) -> Word:
        return ()

    def expand(self, node: Word) -> Iterable[Word]:
        if len(node) == self.length:
            return ()
        return [(*node, letter) for letter in range(self.letters)]

    def solutions(self, node: Word) -> Iterable[Word]:
        return [node] if len(node) == self.length else ()

    @property
    def nodes(self) -> int:
        return sum(self.letters**depth for depth in range(self.length + 1))


@dataclass(frozen=True)
class Shaped:
    """A random tree that follows from `seed` alone, with everything a problem can have."""

    seed: int = 0
    depth: int = 6
    widest: int = 4
    cycle: int = 50
    """Keys and costs are numbers below this."""

    def root(self) -> tuple[int, int]:
        return self.depth, self.seed % self.cycle

    def expand(self, node: tuple[int, int]) -> list[tuple[int, int]]:
        left, number = node
        if not left:
            return []
        dice = random.Random(f"{self.seed}/{left}/{number}")
        return [
            (left - 1, dice.randrange(self.cycle)) for _ in range(dice.randrange(self.widest + 1))
        ]

    def solutions(self, node: tuple[int, int]) -> Iterable[tuple[int, int]]:
        return [node] if node[1] % 3 == 0 else ()

    def priority(self, node: tuple[int, int]) -> float:
        return float(node[1])


@dataclass(frozen=True)
class Keyed(Shaped):
    """The same tree as a graph: equal nodes are one."""

    def key(self, node: tuple[int, int]) -> tuple[int, int]:
        return node


@dataclass(frozen=True)
class Priced(Shaped):
    """The same tree with costs, and a bound that is admissible and useless below the root."""

    def cost(self, solution: tuple[int, int]) -> float:
        return float(solution[1] - solution[0])

    def bound(self, node: tuple[int, int]) -> float:
        left, number = node
        return float(min(number - left, -left))


@dataclass(frozen=True)
class Judged(Words):
    """Words of which z3 refutes those whose letters add up to 3 modulo 4, and cannot decide 6."""

    undecided: bool = False

    def obligation(self, node: Word) -> Obligation | None:
        total = sum(node)
        if self.undecided and total == 2:
            hard = "(assert (= (+ (* x x x) (* y y y) (* z z z)) 114))"
            text = f"(declare-const x Int)(declare-const y Int)(declare-const z Int){hard}"
            return Obligation(text, rlimit=2000)
        return Obligation(f"(declare-const x Int) (assert (and (= x {total}) (= (mod x 4) 3)))")


@dataclass(frozen=True)
class Waiting(Words):
    """Words whose letters come from far away."""

    seconds: float = 0.002
    failing: bool = False

    async def expand(self, node: Word) -> Iterable[Word]:  # type: ignore[override]  # both are fine
        await asyncio.sleep(self.seconds)
        if self.failing and len(node) == 3:
            raise ConnectionError("far away is closed")
        return Words.expand(self, node)


@dataclass(frozen=True)
class Single(Words):
    """Words that come from a place where one may wait at a time."""

    lanes: int = 1
    waiting: list[Word] = field(default_factory=list)
    widths: set[int] = field(default_factory=set)
    """How many waited at once."""

    async def expand(self, node: Word) -> Iterable[Word]:  # type: ignore[override]
        self.waiting.append(node)
        self.widths.add(len(self.waiting))
        await asyncio.sleep(0)
        if len(self.waiting) > self.lanes:
            raise AssertionError(f"{len(self.waiting)} are waiting")
        self.waiting.remove(node)
        return Words.expand(self, node)


@dataclass(frozen=True)
class Streaming(Words):
    """Words whose letters come one by one."""

    async def expand(self, node: Word) -> AsyncIterator[Word]:  # type: ignore[override]
        for child in Words.expand(self, node):
            await asyncio.sleep(0)
            yield child


@dataclass(frozen=True)
class Trouble(Words):
    """Words with one thing wrong, at the third step of the second branch."""

    what: str = ""

    def expand(self, node: Word) -> Any:
        if node == (1, 0, 2):
            match self.what:
                case "none":
                    return None
                case "number":
                    return 5
                case "raise":
                    raise ValueError("no such letter")
                case "unencodable":
                    return [(*node, object())]
                case "exit":
                    raise SystemExit(3)
                case "die":
                    os._exit(3)
        if self.what == "random":
            return [(*node, random.randrange(10**9)) for _ in range(2)] if len(node) < 5 else []
        return Words.expand(self, node)

    def solutions(self, node: Word) -> Iterable[Word]:
        if self.what == "solutions" and node == (1, 0, 2):
            raise KeyError("letters")
        if self.what == "opaque" and node == (1, 0, 2):
            return [object()]  # type: ignore[list-item]
        return Words.solutions(self, node)


@dataclass(frozen=True)
class Overpriced(Words):
    """Words with a bound above their cost."""

    def cost(self, solution: Word) -> float:
        return 3.0

    def bound(self, node: Word) -> float:
        return float(len(node))


class Unannotated:
    """A problem whose nodes come back from a worker as something else."""

    def root(self):  # type: ignore[no-untyped-def]
        return (1, 2)

    def expand(self, node):  # type: ignore[no-untyped-def]
        return []

    def solutions(self, node):  # type: ignore[no-untyped-def]
        return []


@dataclass(frozen=True)
class Stuck(Words):
    """An expand that takes longer than anybody waits."""

    def expand(self, node: Word) -> Iterable[Word]:
        if node:
            time.sleep(60)
        return Words.expand(self, node)


@dataclass(frozen=True)
class Endless:
    """A tree whose end nobody sees."""

    def root(self) -> int:
        return 1

    def expand(self, node: int) -> list[int]:
        return [node * 2, node * 2 + 1] if node < 1 << 60 else []

    def solutions(self, node: int) -> Iterable[int]:
        return ()


@dataclass(frozen=True)
class Hungry(Endless):
    """Keeps a megabyte for every node."""

    def expand(self, node: int) -> list[int]:
        _kept.append(bytes(1_000_000))
        return super().expand(node)


_kept: list[bytes] = []


@dataclass(frozen=True)
class DiesOnce(Words):
    """Kills its worker the first time it comes to a node: a file remembers."""

    memory: str = ""

    def expand(self, node: Word) -> Iterable[Word]:
        if node == (1, 0, 2):
            try:
                Path(self.memory).touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os._exit(9)
        return Words.expand(self, node)


@dataclass(frozen=True)
class Mended(Words):
    """Raises at one node until a file is there."""

    memory: str = ""

    def expand(self, node: Word) -> Iterable[Word]:
        if node == (1, 0, 2) and not Path(self.memory).exists():
            raise RuntimeError("not mended yet")
        return Words.expand(self, node)


@dataclass(frozen=True)
class Keyless(Words):
    """Has a key, and forgets to return it."""

    def key(self, node: Word) -> None:
        return None


class Loose(Words):
    """Does not say what its solutions are."""

    def solutions(self, node):  # type: ignore[no-untyped-def]
        return [node] if len(node) == self.length else ()


@dataclass(frozen=True)
class Unbounded(Priced):
    """A bound that raises at every third number."""

    def bound(self, node: tuple[int, int]) -> float:
        if node[1] % 3 == 1:
            raise ArithmeticError("no bound")
        return super().bound(node)


@dataclass(frozen=True)
class Misleading(Words):
    """Priorities that would prune everything if they were taken for bounds."""

    def cost(self, solution: Word) -> float:
        return float(100 - sum(solution))

    def bound(self, node: Word) -> float:
        return 0.0

    def priority(self, node: Word) -> float:
        return 1e6 + sum(node)


@dataclass(frozen=True)
class Costless(Words):
    """A cost that is no number."""

    def cost(self, solution: Word) -> float:
        return float("nan")


@dataclass(frozen=True)
class Cancelled(Words):
    """An expand that ends as if it had been cancelled."""

    async def expand(self, node: Word) -> Iterable[Word]:  # type: ignore[override]
        raise asyncio.CancelledError


@dataclass(frozen=True)
class Garbled(Words):
    """An obligation that z3 cannot read."""

    def obligation(self, node: Word) -> Obligation:
        return Obligation("(assert (foo")


@dataclass(frozen=True)
class Moot:
    """One leaf waits for a hard proof until the other turns out to be better."""

    def root(self) -> int:
        return 0

    def expand(self, node: int) -> list[int]:
        return {0: [5, 1], 1: [2]}.get(node, [])

    def solutions(self, node: int) -> list[int]:
        return [1] if node == 2 else []

    def cost(self, solution: int) -> float:
        return 1.0

    def bound(self, node: int) -> float:
        return 1.0 if node == 5 else 0.0

    def obligation(self, node: int) -> Obligation | None:
        if node != 5:
            return None
        hard = "(assert (= (+ (* x x x) (* y y y) (* z z z)) 114))"
        text = f"(declare-const x Int)(declare-const y Int)(declare-const z Int){hard}"
        return Obligation(text, rlimit=2_000_000_000)


@dataclass(frozen=True)
class Detour:
    """A place that is reached first by a dear way, then by a cheap one."""

    def root(self) -> tuple[str, float]:
        return "r", 0.0

    def expand(self, node: tuple[str, float]) -> list[tuple[str, float]]:
        place, cost = node
        ways = {"r": [("a", 10.0), ("b", 1.0)], "b": [("a", 1.0)], "a": [("g", 1.0)]}
        return [(to, cost + more) for to, more in ways.get(place, [])]

    def solutions(self, node: tuple[str, float]) -> list[float]:
        return [node[1]] if node[0] == "g" else []

    def key(self, node: tuple[str, float]) -> str:
        return node[0]

    def cost(self, solution: float) -> float:
        return solution

    def bound(self, node: tuple[str, float]) -> float:
        return node[1]


@dataclass(frozen=True)
class Scalars:
    """Nodes and solutions with the scalars that NumPy's arrays give."""

    def root(self) -> tuple[int, float]:
        return (0, 0.0)

    def expand(self, node: tuple[int, float]) -> list[tuple[int, float]]:
        numbers = np.arange(3 if node[0] < 3 else 0, dtype=np.int64)
        return [(node[0] + 1, np.float32(number)) for number in numbers]

    def solutions(self, node: tuple[int, float]) -> list[tuple[int, float]]:
        return [(np.int32(node[0]), node[1])] if node[0] == 3 else []
