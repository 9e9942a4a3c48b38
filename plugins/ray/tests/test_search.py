"""Searches on a real Ray cluster: its nodes do the whole search, and may be lost."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from aiosearch_ray import RayListener, placement
from testkit.hosts.ray_cluster import actors, machines, pool, until

from aiosearch import Pool, Search, SearchStatus
from aiosearch.testing.problems import Balanced
from aiosearch.workloads import Lopsided, Superopt

TREE = Lopsided(height=36)


async def test_the_nodes_of_a_cluster_do_the_whole_search(cluster: Any) -> None:
    async with pool() as (opened, _), Search(TREE, pool=opened, strategy="ray") as search:
        result = await search.wait()
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.nodes == TREE.nodes
    assert sorted(result.solutions) == list(TREE.answers)
    assert all(worker.nodes > 0 for worker in result.statistics.workers)


async def test_an_actor_that_is_killed_loses_nothing_and_another_takes_its_place(
    cluster: Any,
) -> None:
    tree = Lopsided(height=40)
    async with pool() as (opened, _):
        async with Search(tree, pool=opened, strategy="ray") as search:
            await until(lambda: all(worker.nodes for worker in search.statistics().workers))
            os.kill(actors()[0], signal.SIGKILL)
            result = await search.wait()
        await until(lambda: len(machines(opened)) == 2)
    assert result.statistics.nodes == tree.nodes
    assert sorted(result.solutions) == list(tree.answers)


async def test_a_node_that_comes_later_takes_part_and_one_that_fails_is_done_without(
    cluster: Any,
) -> None:
    tree = Lopsided(height=42)
    async with pool() as (opened, _), Search(tree, pool=opened, strategy="ray") as search:
        node = cluster.add_node(num_cpus=1)
        await until(lambda: len(search.statistics().workers) == 3)
        await until(lambda: search.statistics().workers[2].nodes)
        cluster.remove_node(node, allow_graceful=False)
        result = await search.wait()
    assert result.statistics.nodes == tree.nodes
    assert sorted(result.solutions) == list(tree.answers)


async def test_a_node_with_other_work_lends_the_half_that_is_free(
    ray: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other:
        """What else a cluster is for."""

        def works(self) -> bool:
            return True

    monkeypatch.setattr(placement, "PATIENCE", 3.0)
    node = cluster.add_node(num_cpus=2, resources={"other": 1})
    other = ray.remote(Other).options(num_cpus=1, resources={"other": 1}).remote()
    ray.get(other.works.remote())
    async with pool(3) as (opened, _):
        assert [machine["workers"] for machine in machines(opened)] == [1, 1, 1]
    ray.kill(other)
    cluster.remove_node(node)


async def test_z3_is_asked_once_whoever_wants_to_know(cluster: Any) -> None:
    problem = Superopt(task="P2", length=3)
    async with Search(problem, workers=1, cache=None) as search:
        alone = await search.wait()
    async with pool() as (opened, _), Search(problem, pool=opened, strategy="ray") as search:
        result = await search.wait()
    asked = [one.statistics.checks.asked for one in (alone, result) if one.statistics.checks]
    assert asked[0] == asked[1] > 1


async def test_a_problem_that_is_not_installed_on_a_node_is_refused_by_name(cluster: Any) -> None:
    warned: list[str] = []

    def note(event: Any) -> None:
        if hasattr(event, "message"):
            warned.append(event.message)

    async with Pool(workers=1, cache=None, listener=RayListener()) as opened:
        await until(lambda: len(machines(opened)) == 2)
        async with Search(Balanced(depth=13), pool=opened, strategy="ray", on=[note]) as search:
            result = await search.wait()
    assert result.status is SearchStatus.COMPLETE
    assert any("Balanced is not installed" in text for text in warned)


async def test_no_actor_outlives_its_listener(cluster: Any) -> None:
    async with pool():
        assert len(actors()) == 2
    await until(lambda: not actors())
