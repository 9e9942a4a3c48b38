"""Branch and bound: with `cost` and `bound`, what cannot beat the best is never explored.

A knapsack holds 500; which of 40 things give the most value? It prints each better packing as it
is found (how many there are depends on which worker is where), and how little of the tree, which
has 2**41 nodes, it took to be sure:

    ...
    value 812
    complete: nothing beats 812
    things 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13
    explored ... nodes, pruned ... subtrees
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

from aiosearch import Search


@dataclass(frozen=True)
class Packing:
    """What has been decided: the things taken, the room left, the value so far."""

    decided: int
    taken: tuple[int, ...]
    room: int
    value: int


@dataclass(frozen=True)
class Knapsack:
    """Takes or leaves one thing after the other, those of most value for their weight first."""

    things: tuple[tuple[int, int], ...]
    """Pairs of weight and value, sorted."""
    room: int

    def root(self) -> Packing:
        return Packing(0, (), self.room, 0)

    def expand(self, node: Packing) -> list[Packing]:
        if node.decided == len(self.things):
            return []
        weight, value = self.things[node.decided]
        after = node.decided + 1
        children = [Packing(after, node.taken, node.room, node.value)]
        if weight <= node.room:
            taken = (*node.taken, node.decided)
            children.insert(0, Packing(after, taken, node.room - weight, node.value + value))
        return children

    def solutions(self, node: Packing) -> list[Packing]:
        return [node] if node.decided == len(self.things) else []

    def cost(self, solution: Packing) -> float:
        """Makes much value a low cost: the engine minimises."""
        return -solution.value

    def bound(self, node: Packing) -> float:
        """Fills the room that is left, and cuts the last thing to fit: nothing can be better."""
        value, room = float(node.value), node.room
        for weight, worth in self.things[node.decided :]:
            if weight > room:
                return -(value + worth * room / weight)
            value, room = value + worth, room - weight
        return -value


def many_things(count: int) -> tuple[tuple[int, int], ...]:
    random = Random(1)
    things = [(random.randint(20, 80), random.randint(20, 80)) for _ in range(count)]
    return tuple(sorted(things, key=lambda thing: thing[0] / thing[1]))


async def main() -> None:
    async with Search(Knapsack(many_things(40), room=500)) as search:
        async for packing in search:
            print("value", packing.value)
    result = search.result
    best = result.best
    assert best is not None
    print(f"{result.status}: nothing beats {best.value}")
    print("things", ", ".join(map(str, best.taken)))
    print(f"explored {result.statistics.nodes} nodes, pruned {result.statistics.pruned} subtrees")


if __name__ == "__main__":
    asyncio.run(main())
