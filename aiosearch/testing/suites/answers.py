"""Checks that a strategy explores every tree exactly once, whatever its shape and order: `TREES`
and `LOADS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...orders import BestFirst, BranchAndBound, BreadthFirst, DepthFirst, Order
from ...pool import Pool
from ...problem import AnyProblem
from ...result import SearchStatus
from ...workloads.shapes import Lopsided, Tiny
from ..problems import Awaited, Balanced, Grid, Knapsack, Obliged, Random, Slow, Spine
from .expectation import expected
from .subject import StrategyUnderTest, agree, agree_on_answers, agree_on_end

if TYPE_CHECKING:
    from collections.abc import Iterable

Case = tuple[Any, tuple[Order, ...]]

LAST = (DepthFirst(), BreadthFirst())
SCORED = (DepthFirst(), BreadthFirst(), BestFirst())
TREES: tuple[Case, ...] = (
    (Spine(depth=0), LAST),
    (Balanced(), SCORED),
    (Random(), SCORED),
    (Random(depth=12), (DepthFirst(),)),
    (Slow(Random(depth=8)), (DepthFirst(),)),
    (Spine(), LAST),
    (Lopsided(spine=200, height=16), LAST),
    (Grid(), LAST),
    (Awaited(), LAST),
    (Knapsack(), (*SCORED, BestFirst(prune=True), BranchAndBound())),
    (Obliged(), LAST),
    (Obliged(doubt=True), LAST),
)
"""Every kind of tree, with the orders that it is explored in."""
LOADS: tuple[Case, ...] = (
    (Tiny(10_000), (DepthFirst(),)),
    (Lopsided(spine=2_000, height=28), (DepthFirst(),)),
)

"""Trees of very many tiny subtrees, and a large one where every cut is uneven."""


async def same_answers(subject: StrategyUnderTest, workers: int, cases: Iterable[Case]) -> None:
    """Compares nodes, solutions and best costs with those of a plain walk, see `expected`."""
    async with Pool(workers, checkers=1, cache=None) as pool:
        for problem, orders in cases:
            for order in orders:
                await _check(subject, pool, problem, order)


async def _check(subject: StrategyUnderTest, pool: Pool, problem: AnyProblem, order: Order) -> None:
    what = f"{problem} with {type(order).__name__} on {pool.workers} workers"
    expectation = expected(problem)
    async with subject.search(problem, pool=pool, order=order) as search:
        result = await search.wait()
    agree_on_end(what, result, SearchStatus.COMPLETE)
    agree(f"{what}: the best cost is", result.best_cost, expectation.best_cost)
    if not order.prunes:
        agree_on_answers(what, result, expectation)
