"""Asynchronous expand: the children come over a network, and many are asked for at once.

Finds the fewest clicks between two pages of a pretended web in which each page takes 20 ms to
load. `key` sees to it that a page reached on two trails is loaded once, unless the second trail is
shorter. It all runs in this process (`workers=0`), which does nothing but wait anyway:

    5 clicks: 0 > 7 > 22 > 89 > 326 > 333
    loaded ... pages of 20 ms each in ... s
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiosearch import BestFirst, Search

PAGES = 400
Trail = tuple[int, ...]
"""The pages clicked through."""


async def load(page: int) -> list[int]:
    """Stands for an HTTP request: gives the links of a page."""
    await asyncio.sleep(0.02)
    return [(page * 3 + 1) % PAGES, (page + 7) % PAGES, (page * page + 5) % PAGES]


@dataclass(frozen=True)
class Clicks:
    """Every trail of links from one page until it comes to another."""

    start: int
    goal: int

    def root(self) -> Trail:
        return (self.start,)

    async def expand(self, node: Trail) -> list[Trail]:
        if node[-1] == self.goal:
            return []
        return [(*node, page) for page in await load(node[-1])]

    def solutions(self, node: Trail) -> list[Trail]:
        return [node] if node[-1] == self.goal else []

    def key(self, node: Trail) -> int:
        return node[-1]

    def cost(self, solution: Trail) -> float:
        return len(solution) - 1

    def bound(self, node: Trail) -> float:
        """The clicks so far: no trail that goes on from here has fewer."""
        return len(node) - 1


async def main() -> None:
    async with Search(Clicks(0, 333), order=BestFirst(prune=True), workers=0) as search:
        result = await search.wait()
    assert result.best is not None
    print(f"{result.best_cost:g} clicks:", " > ".join(map(str, result.best)))
    figures = result.statistics
    print(f"loaded {figures.nodes} pages of 20 ms each in {figures.seconds:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
