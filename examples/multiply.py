"""Obligations: z3 decides which nodes live, in processes of its own and behind a cache.

Which programs of four steps multiply every 32-bit word by 10? A program is a node; its obligation
asks z3 whether it differs from the multiplication anywhere. What z3 refutes is dropped, what it
proves is a solution:

    add x, double, add x, double
    add x, quadruple, add x, add x
    double, double, add x, double
    double, quadruple, add x, add x
    quadruple, double, add x, add x
    5 programs proved, 251 refuted, 0 unknown
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiosearch import Obligation, Search

STEPS = {
    "double": "(bvadd {0} {0})",
    "quadruple": "(bvshl {0} (_ bv2 32))",
    "add x": "(bvadd {0} x)",
    "subtract x": "(bvsub {0} x)",
}
Program = tuple[str, ...]


@dataclass(frozen=True)
class Multiply:
    """Every program of `length` steps that starts with x and multiplies it by `factor`."""

    factor: int = 10
    length: int = 4

    def root(self) -> Program:
        return ()

    def expand(self, node: Program) -> list[Program]:
        return [(*node, step) for step in STEPS] if len(node) < self.length else []

    def solutions(self, node: Program) -> list[Program]:
        return [node] if len(node) == self.length else []

    def obligation(self, node: Program) -> Obligation | None:
        """Asks about complete programs only: of a shorter one, nothing is known yet."""
        if len(node) < self.length:
            return None
        term = "x"
        for step in node:
            term = STEPS[step].format(term)
        goal = f"(distinct {term} (bvmul x (_ bv{self.factor} 32)))"
        query = f"(declare-const x (_ BitVec 32)) (assert {goal})"
        return Obligation(query, rlimit=5_000_000)  # a few of these are hard


async def main() -> None:
    async with Search(Multiply()) as search:
        result = await search.wait()
    for program in sorted(result.solutions):
        print(", ".join(program))
    figures = result.statistics
    print(f"{figures.proved} programs proved, {figures.refuted} refuted, {figures.unknown} unknown")


if __name__ == "__main__":
    asyncio.run(main())
