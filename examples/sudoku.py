"""Sudoku by plain search: a problem is three methods, and a search is one `await`.

It prints the one solution of a hard puzzle, and how much of the tree there was:

    4 1 7 3 6 9 8 2 5
    6 3 2 1 5 8 9 4 7
    9 5 8 7 2 4 3 1 6
    8 2 5 4 3 7 1 6 9
    7 9 1 5 8 6 4 3 2
    3 4 6 9 1 2 7 5 8
    2 8 9 6 4 3 5 7 1
    5 7 3 2 9 1 6 8 4
    1 6 4 8 7 5 2 9 3
    complete, 1 solution in 2,694 nodes
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiosearch import Search

HARD = "4.....8.5.3..........7......2.....6.....8.4......1.......6.3.7.5..2.....1.4......"


def peers(cell: int) -> set[int]:
    """Gives the cells that may not hold the same digit."""
    row, column = divmod(cell, 9)
    return {
        other
        for other in range(81)
        if other != cell
        and (
            other // 9 == row
            or other % 9 == column
            or (other // 27 == row // 3 and other % 9 // 3 == column // 3)
        )
    }


PEERS = [peers(cell) for cell in range(81)]


@dataclass(frozen=True)
class Sudoku:
    """Fills the cell that has the fewest digits left; a dot is an empty cell."""

    puzzle: str

    def root(self) -> str:
        return self.puzzle

    def expand(self, node: str) -> list[str]:
        empty = [cell for cell, digit in enumerate(node) if digit == "."]
        if not empty:
            return []
        left = {cell: self.digits(node, cell) for cell in empty}
        best = min(empty, key=lambda cell: len(left[cell]))
        return [node[:best] + digit + node[best + 1 :] for digit in left[best]]

    def solutions(self, node: str) -> list[str]:
        return [] if "." in node else [node]

    def digits(self, node: str, cell: int) -> str:
        """Gives the digits that no peer of a cell holds."""
        taken = {node[peer] for peer in PEERS[cell]}
        return "".join(digit for digit in "123456789" if digit not in taken)


async def main() -> None:
    async with Search(Sudoku(HARD)) as search:
        result = await search.wait()
    for solution in result.solutions:
        for row in range(9):
            print(*solution[9 * row : 9 * row + 9])
    found, nodes = len(result.solutions), result.statistics.nodes
    print(f"{result.status}, {found} solution in {nodes:,} nodes")


if __name__ == "__main__":
    asyncio.run(main())
