"""Searches on worker processes that steal from each other, as users start them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from random import Random as Dice
from typing import Any

import pytest
from testkit.hosts.console import Cli
from trees import Judged, Waiting

from aiosearch import Limits, Pool, Result, Search, SearchStatus
from aiosearch.events import AnyEvent, WorkerJoined, WorkReported
from aiosearch.testing import expected, no_leaks
from aiosearch.testing.problems import Balanced, Grid, Random, Slow
from aiosearch.workloads import Lopsided
from aiosearch.workloads.tsp import TSP

SLOW = Slow(Random(depth=10))
TOUR = TSP(26, 5)
MOST_KILLED = 6


class Killer:
    """A hook that kills workers in the middle of their work, none before it has said something."""

    def __init__(self, seed: int) -> None:
        self.killed = 0
        self._dice = Dice(seed)
        self._pids: dict[int, int] = {}

    def __call__(self, event: AnyEvent) -> None:
        match event:
            case WorkerJoined(worker=worker, pid=pid):
                self._pids[worker] = pid
            case WorkReported(worker=worker) if self.killed < MOST_KILLED:
                if worker in self._pids and self._dice.random() < 0.3:
                    self.killed += 1
                    os.kill(self._pids.pop(worker), signal.SIGKILL)


async def run(problem: Any, **options: Any) -> Result[Any]:
    options = {"strategy": "stealing", "cache": None} | options
    if "pool" in options:
        del options["cache"]
    async with Search(problem, **options) as search:
        return await search.wait()


def steals(result: Result[Any]) -> int:
    return sum(worker.steals for worker in result.statistics.workers)


def agree(result: Result[Any], problem: Any) -> None:
    """Nothing is lost, and nothing counted twice."""
    wanted = expected(problem)
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.nodes == wanted.nodes
    assert Counter(result.solutions) == Counter(wanted.solutions)


@pytest.mark.parametrize("workers", [1, 3])
async def test_nodes_and_solutions_are_those_of_a_plain_walk(workers: int) -> None:
    async with Pool(workers, cache=None) as pool:
        for problem in (SLOW, Balanced(depth=9), Grid(side=60), Lopsided(height=24)):
            agree(await run(problem, pool=pool), problem)


async def test_workers_have_their_work_from_each_other_and_not_from_the_host() -> None:
    """However many of them are there before the search is over."""
    result = await run(SLOW, workers=3)
    workers = result.statistics.workers
    assert sum(worker.tasks for worker in workers) == 1
    assert all(worker.steals > 0 for worker in workers if worker.nodes > 0 and not worker.tasks)
    assert steals(result) > 0


@pytest.mark.parametrize(("workers", "seed"), [(2, 1), (4, 3)])
async def test_killed_workers_lose_and_double_nothing(
    workers: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosearch.engine.run.run.REPORT_SECONDS", 0.02)
    killer = Killer(seed)
    result = await run(SLOW, workers=workers, on=killer)
    agree(result, SLOW)
    assert killer.killed > 1
    assert result.statistics.worker_deaths >= killer.killed


@pytest.mark.parametrize("killing", [False, True])
async def test_with_a_key_each_distinct_node_is_explored_once(killing: bool) -> None:
    killer = Killer(5)
    result = await run(Grid(side=110), workers=3, on=killer if killing else ())
    agree(result, Grid(side=110))
    assert (killer.killed > 0) == killing


@pytest.mark.parametrize("killing", [False, True])
async def test_the_best_solution_is_found_with_a_bound(killing: bool) -> None:
    alone = await run(TOUR, workers=0, strategy="queue")
    killer = Killer(2)
    result = await run(TOUR, workers=3, on=killer if killing else ())
    assert result.status is SearchStatus.COMPLETE
    assert result.best_cost == alone.best_cost
    assert (killer.killed > 0) == killing


async def test_z3_is_asked_each_question_once() -> None:
    alone = await run(Judged(length=7), workers=0, strategy="queue")
    result = await run(Judged(length=7), workers=3)
    assert result.statistics.nodes == alone.statistics.nodes
    assert Counter(result.solutions) == Counter(alone.solutions)
    assert result.statistics.checks is not None
    assert result.statistics.checks.checks == 15  # the sums 0 to 14


async def test_limits_on_nodes_hold_to_the_node() -> None:
    async with Pool(3, cache=None) as pool:
        for nodes in (1, 2, 63, 500, 1_999, 4_842):
            result = await run(SLOW, pool=pool, limits=Limits(nodes=nodes))
            assert result.status is SearchStatus.LIMIT
            assert result.statistics.nodes == nodes


@pytest.mark.parametrize("problem", [SLOW, Grid(side=60)])
async def test_what_lies_offered_when_a_search_ends_is_in_its_journal(
    problem: Any, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    for nodes in (700, 1_500):
        again = journal.exists()
        limits = Limits(nodes=nodes)
        await run(problem, workers=3, journal=journal, resume=again, limits=limits)
    agree(await run(problem, workers=2, journal=journal, resume=True), problem)


async def test_searches_on_one_pool_keep_their_work_apart() -> None:
    problems = [Random(seed=seed, depth=12) for seed in range(1, 6)] + [Grid(side=60)]
    async with Pool(3, cache=None) as pool:
        results = await asyncio.gather(*(run(problem, pool=pool) for problem in problems))
    for problem, result in zip(problems, results, strict=True):
        agree(result, problem)


async def test_an_order_that_compares_all_subtrees_is_searched_as_by_the_queue() -> None:
    result = await run(Random(), workers=2, order="best-first")
    agree(result, Random())
    assert sum(worker.tasks for worker in result.statistics.workers) > 1


async def test_an_asynchronous_expand_steals_too() -> None:
    problem = Waiting(letters=4, length=6)
    result = await run(problem, workers=3)
    assert result.statistics.nodes == problem.nodes
    assert len(set(result.solutions)) == len(result.solutions) == 4**6
    assert steals(result) > 0


async def test_nothing_is_left_behind() -> None:
    async with no_leaks():
        await run(Balanced(), workers=2)


def test_it_is_found_by_its_name_on_the_console(cli: Cli) -> None:
    words = ("--set", "n=7", "--workers", "2", "--strategy", "stealing")
    outcome = cli("search", "aiosearch.workloads.queens:Queens", *words)
    assert outcome.code == 0
    assert "strategy stealing, 2 workers" in outcome.err
    assert "solutions  40\n" in outcome.err
