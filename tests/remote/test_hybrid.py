"""Workers of each machine steal from each other, and machines are dealt to: real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

import pytest
from testkit.hosts.in_process_machines import Machine, explored, pool, until

from aiosearch import Pool, Search
from aiosearch.engine.books.ledger import MOST_DEATHS
from aiosearch.remote.links import LostError
from aiosearch.workloads import Lopsided, Superopt

TREE = Lopsided(height=34)
STRATEGIES = ["stealing", "sockets"]


def right(result: Any, tree: Lopsided = TREE) -> bool:
    return bool(
        result.statistics.nodes == tree.nodes and sorted(result.solutions) == list(tree.answers)
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("here", "elsewhere"), [(0, (2, 2)), (2, (2,)), (1, (1, 3))])
async def test_every_node_is_explored_once(
    strategy: str, here: int, elsewhere: tuple[int, ...]
) -> None:
    async with pool(here) as (opened, listener):
        machines = [Machine(listener, workers) for workers in elsewhere]
        await until(lambda: sum(len(one.pids) for one in machines) == sum(elsewhere))
        result = await explored(opened, TREE, strategy=strategy)
    assert right(result)
    assert sum(worker.steals for worker in result.statistics.workers) > 0


async def test_workers_that_die_in_the_middle_of_it_lose_nothing() -> None:
    """Their machine tells who has taken what they had offered.

    So many die of each search that no subtree can be taken for what kills them.
    """
    for _ in range(6):
        deaths = 0
        async with pool(2) as (opened, listener):
            machine = Machine(listener, 3)
            async with Search(TREE, pool=opened, strategy="sockets") as search:
                while deaths < MOST_DEATHS - 1:
                    before = search.statistics().nodes
                    await until(lambda: search.statistics().nodes > before + 500)  # noqa: B023
                    if pids := [*machine.pids, *opened.pids]:
                        os.kill(pids[deaths % len(pids)], signal.SIGKILL)
                        deaths += 1
                assert search.statistics().nodes < TREE.nodes
                async with asyncio.timeout(30):
                    result = await search.wait()
        assert right(result)


@pytest.mark.parametrize("way", ["closed", "cut"])
async def test_a_machine_that_is_gone_takes_its_board_with_it(way: str) -> None:
    async with pool(1, patience=0.25) as (opened, listener):
        machine = Machine(listener, 3, patience=0.25)
        async with Search(TREE, pool=opened, strategy="sockets") as search:
            await until(lambda: sum(one.nodes for one in search.statistics().workers[1:]) > 500)
            if way == "closed":
                machine.link.close()
            else:
                machine.link.stuck = machine.link.other.stuck = True
            result = await search.wait()
        with pytest.raises(LostError):
            await machine.serving
    assert right(result)


async def test_a_machine_that_leaves_gives_back_what_lies_on_its_board() -> None:
    async with pool(1) as (opened, listener):
        machine = Machine(listener, 3)
        async with Search(TREE, pool=opened, strategy="sockets") as search:
            await until(lambda: sum(one.nodes for one in search.statistics().workers[1:]) > 500)
            machine.agent.leave()
            async with asyncio.timeout(20):
                assert (await machine.serving).reason == "it is let go"
            done = [one.nodes for one in search.statistics().workers[1:]]
            result = await search.wait()
    assert [one.nodes for one in result.statistics.workers[1:]] == done
    assert right(result)


@pytest.mark.parametrize("strategy", ["queue", "sockets"])
async def test_a_machine_that_leaves_does_not_finish_what_it_has(strategy: str) -> None:
    """This tree would take it years."""
    async with pool(1) as (opened, listener):
        machine = Machine(listener, 2)
        async with Search(Lopsided(height=60), pool=opened, strategy=strategy) as search:
            await until(lambda: sum(one.nodes for one in search.statistics().workers[1:]) > 500)
            machine.agent.leave()
            async with asyncio.timeout(20):
                assert (await machine.serving).reason == "it is let go"
            search.stop()


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("strategy", ["queue", "sockets"])
async def test_a_machine_that_leaves_does_not_wait_for_a_worker_that_says_nothing(
    strategy: str, how: str
) -> None:
    """It is let go when its worker has died, and when the search is over."""
    async with pool(1) as (opened, listener):
        machine = Machine(listener, 2)
        async with Search(Lopsided(height=60), pool=opened, strategy=strategy) as search:
            await until(lambda: sum(one.nodes for one in search.statistics().workers[1:]) > 500)
            frozen = machine.pids[0]
            os.kill(frozen, signal.SIGSTOP)
            machine.agent.leave()
            await until(lambda: busy(opened) == 1)
            if how == "killed":
                os.kill(frozen, signal.SIGKILL)
            else:
                search.stop()
                await search.wait()
            async with asyncio.timeout(20):
                assert (await machine.serving).reason == "it is let go"
            search.stop()


def busy(opened: Pool) -> int:
    """How many workers of its only machine explore, as `aiosearch status` shows it."""
    assert opened.machines is not None
    (machine,) = json.loads(opened.machines.state())["machines"]
    return int(machine["busy"])


async def test_z3_is_asked_once_whoever_asks() -> None:
    problem = Superopt()
    async with pool(1) as (opened, _):
        alone = await explored(opened, problem)
    async with pool(2) as (opened, listener):
        Machine(listener, 2)
        result = await explored(opened, problem, strategy="sockets")
    assert result.statistics.checks.checks == alone.statistics.checks.checks
    assert sorted(map(repr, result.solutions)) == sorted(map(repr, alone.solutions))


async def test_a_machine_without_the_plugin_refuses_by_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("aiosearch.remote.admission.EXCHANGES", "nothing.here")
    async with pool(1) as (opened, listener):
        Machine(listener, 2)
        result = await explored(opened, TREE, strategy="sockets")
    assert right(result)
    assert "aiosearch_stealing.board:SharedBoard is not installed" in caplog.text
