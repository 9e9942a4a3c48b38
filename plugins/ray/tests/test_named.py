"""The named actor on a real Ray cluster: what it is good for, and that nothing hangs on it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiosearch_ray.cluster import NAMESPACE
from testkit.hosts.ray_cluster import actors, machines, pool, until

from aiosearch import AiosearchError, Limits, Pool, Search
from aiosearch.events import Checked
from aiosearch.workloads import Lopsided, Superopt

PROBLEM = Superopt(task="P2", length=3)
QUESTIONS = 136
LONG = """
import asyncio, sys
from aiosearch import Search
from aiosearch.workloads import Superopt
from aiosearch_ray import RayListener

async def main():
    listener = RayListener(sys.argv[1], keep="left")
    problem = Superopt(task="P2", length=4)
    async with Search(problem, strategy="ray", cache=None, listener=listener) as search:
        await search.wait()

asyncio.run(main())
"""


async def explored(pool: Pool, problem: Any = PROBLEM, **options: Any) -> Any:
    async with Search(problem, pool=pool, strategy="ray", **options) as search:
        return await search.wait()


def standing(ray: Any, name: str) -> Any:
    """As anybody on the cluster looks; nothing where there is no such actor."""
    try:
        return ray.get(ray.get_actor(name, namespace=NAMESPACE).standing.remote())
    except (ValueError, ray.exceptions.RayActorError):
        return {"verdicts": 0, "searches": {}}


def figures(ray: Any, name: str) -> tuple[int, list[int]]:
    """How many verdicts it has, and how many solutions of each search."""
    found = standing(ray, name)
    return found["verdicts"], [search["solutions"] for search in found["searches"].values()]


def names(ray: Any) -> list[str]:
    found = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in found if actor["namespace"] == NAMESPACE]


async def test_anybody_on_the_cluster_sees_what_a_search_has_found(ray: Any, cluster: Any) -> None:
    async with pool() as (opened, listener):
        name = listener.notebook.name
        assert listener.invitation.endswith(f"actor {name}")
        result = await explored(opened)
        await until(lambda: figures(ray, name) == (QUESTIONS, [len(result.solutions)]))
        [search] = standing(ray, name)["searches"].values()
        assert search["problem"] == "Superopt"
        best = msgspec.msgpack.decode(search["best"])
        assert best == msgspec.to_builtins(result.best)
    await until(lambda: not names(ray))


async def test_hosts_that_come_late_read_the_verdicts_and_do_not_ask_the_search(
    ray: Any, cluster: Any
) -> None:
    """But for what they meet before they have read them."""
    async with pool() as (opened, listener):
        first = await explored(opened)
        await until(lambda: standing(ray, listener.notebook.name)["verdicts"] == QUESTIONS)
        for pid in actors():
            os.kill(pid, signal.SIGKILL)
        await until(lambda: not machines(opened))
        await until(lambda: len(machines(opened)) == 2)
        second = await explored(opened)
    asked = second.statistics.checks.asked - first.statistics.checks.asked
    assert asked < QUESTIONS // 2
    assert second.statistics.checks.checks == QUESTIONS
    assert sorted(map(repr, second.solutions)) == sorted(map(repr, first.solutions))


async def test_a_search_goes_on_without_its_named_actor_which_another_one_replaces(
    ray: Any, cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with pool() as (opened, listener):
        name, checked = listener.notebook.name, 0

        def kill(event: Any) -> None:
            nonlocal checked
            checked += isinstance(event, Checked)
            if isinstance(event, Checked) and checked == QUESTIONS // 2:
                ray.kill(ray.get_actor(name, namespace=NAMESPACE))

        result = await explored(opened, on=[kill])
        await until(lambda: figures(ray, name) == (QUESTIONS, [len(result.solutions)]))
    assert result.statistics.checks.checks == checked == QUESTIONS
    assert len(result.solutions) == result.statistics.proved
    [warned] = [text for text in caplog.messages if name in text]
    assert warned.startswith(f"the actor {name} is lost: ")


async def test_a_tree_is_explored_once_however_often_the_named_actor_dies(
    ray: Any, cluster: Any
) -> None:
    tree, killed = Lopsided(height=42), 0
    async with pool() as (opened, listener):
        name = listener.notebook.name
        async with Search(tree, pool=opened, strategy="ray") as search:
            await until(lambda: search.statistics().nodes)
            while killed < 3 and search.statistics().open:
                await until(lambda: standing(ray, name)["searches"])
                ray.kill(ray.get_actor(name, namespace=NAMESPACE))
                killed += 1
            result = await search.wait()
    assert killed
    assert result.statistics.nodes == tree.nodes
    assert sorted(result.solutions) == list(tree.answers)


async def test_verdicts_that_are_kept_serve_the_same_search_when_it_goes_on_or_begins_again(
    ray: Any, cluster: Any, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    async with pool(keep="mine") as (opened, _):
        begun = await explored(opened, journal=journal, limits=Limits(checks=QUESTIONS // 2))
    known = standing(ray, "mine")["verdicts"]
    assert 0 < begun.statistics.checks.checks <= known < QUESTIONS
    async with pool(keep="mine") as (opened, _):
        ended = await explored(opened, journal=journal, resume=True)
    async with pool(keep="mine") as (opened, _):
        again = await explored(opened)
    assert ended.statistics.checks.checks == QUESTIONS - known
    assert again.statistics.checks.checks == 0
    assert sorted(map(repr, again.solutions)) == sorted(map(repr, ended.solutions))
    assert len(standing(ray, "mine")["searches"]) == 3
    ray.kill(ray.get_actor("mine", namespace=NAMESPACE))
    await until(lambda: not names(ray))


async def test_verdicts_that_are_kept_outlive_a_search_that_is_killed(
    ray: Any, cluster: Any
) -> None:
    script = (sys.executable, "-c", LONG, cluster.address)
    process = await asyncio.create_subprocess_exec(*script)
    try:
        await until(lambda: figures(ray, "left")[0])
    finally:
        process.kill()
        await process.wait()
    seen, _ = figures(ray, "left")
    async with pool(keep="left") as (_, listener):
        assert len(list(listener.notebook.known())) >= seen > 0
    ray.kill(ray.get_actor("left", namespace=NAMESPACE))
    await until(lambda: not names(ray))


async def test_a_name_that_something_else_has_and_one_that_is_none_are_errors(
    ray: Any, cluster: Any
) -> None:
    class Other:
        """What else may have a name."""

        def lives(self) -> bool:
            return True

    other = ray.remote(Other).options(name="taken", namespace=NAMESPACE, num_cpus=0).remote()
    assert ray.get(other.lives.remote())
    for name in ("taken", ""):
        with pytest.raises(AiosearchError, match=f"{name!r} cannot name a search's actor: .+"):
            async with pool(keep=name):
                pass
    ray.kill(other)
