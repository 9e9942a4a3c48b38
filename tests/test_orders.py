"""Whatever the order, strategy and number of workers: the same answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import Keyed, Priced, Shaped

from aiosearch import BestFirst, Pool, Search, SearchStatus

ORDERS = ["depth-first", "breadth-first", "best-first"]
STRATEGIES = ["queue", "interleaved"]

shapes = st.builds(
    dict,
    seed=st.integers(0, 10**6),
    depth=st.integers(0, 7),
    widest=st.integers(1, 4),
    cycle=st.integers(2, 40),
)


def recursion(problem: Any) -> tuple[int, set[Any]]:
    """Counts the nodes and collects the solutions the plain way."""
    nodes, found, open_nodes = 0, set(), [problem.root()]
    while open_nodes:
        node = open_nodes.pop()
        nodes += 1
        found |= set(problem.solutions(node))
        open_nodes += problem.expand(node)
    return nodes, found


def reachable(problem: Any) -> set[Any]:
    """Collects the distinct nodes."""
    seen, open_nodes = set(), [problem.root()]
    while open_nodes:
        node = open_nodes.pop()
        if node not in seen:
            seen.add(node)
            open_nodes += problem.expand(node)
    return seen


async def explore(problem: Any, pool: Pool, **options: Any) -> Any:
    async with Search(problem, pool=pool, **options) as search:
        result = await search.wait()
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.open == 0
    return result


@pytest.mark.parametrize("workers", [0, 1, 2, 8])
async def test_exhaustive_searches_agree_with_recursion(workers: int) -> None:
    """Every order and strategy visits every node once and finds every solution."""
    async with Pool(workers) as pool:

        @settings(max_examples=8)
        @given(shape=shapes)
        def check(shape: dict[str, int]) -> None:
            cases.append(Shaped(**shape))

        cases: list[Shaped] = []
        check()
        for number, problem in enumerate(cases):
            nodes, found = recursion(problem)
            order = ORDERS[number % 3]
            for strategy in STRATEGIES:
                result = await explore(problem, pool, order=order, strategy=strategy)
                assert result.statistics.nodes == nodes
                assert set(result.solutions) == found


@pytest.mark.parametrize("workers", [0, 1, 2, 8])
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_with_a_key_distinct_nodes_are_explored_once(strategy: str, workers: int) -> None:
    """The number of distinct nodes is the same for every order and number of workers."""
    problem = Keyed(seed=11, depth=12, widest=4, cycle=200)
    distinct = reachable(problem)
    async with Pool(workers) as pool:
        for order in ORDERS:
            result = await explore(problem, pool, order=order, strategy=strategy)
            assert result.statistics.nodes == len(distinct)
            assert result.statistics.duplicates > 0
            assert set(result.solutions) == {node for node in distinct if node[1] % 3 == 0}


@pytest.mark.parametrize("workers", [0, 1, 2, 8])
async def test_branch_and_bound_finds_the_optimum(workers: int) -> None:
    """Pruning changes what is explored, never the best cost."""
    async with Pool(workers) as pool:
        for seed in range(4):
            problem = Priced(seed=seed, depth=8)
            _, found = recursion(problem)
            best = min((problem.cost(solution) for solution in found), default=None)
            for order in (None, BestFirst(prune=True), "depth-first"):
                result = await explore(problem, pool, order=order)
                assert result.best_cost == best


async def test_the_trace_of_one_worker_is_reproducible() -> None:
    """Solutions come in the same order every time, and in depth-first order."""
    problem = Shaped(seed=5, depth=9)
    async with Pool(1) as pool:
        runs = [list((await explore(problem, pool)).solutions) for _ in range(2)]
    assert runs[0] == runs[1]
    async with Pool(0) as pool:
        assert list((await explore(problem, pool)).solutions) == runs[0]
