"""Stealing inside of machines that serve a search, between which the host deals."""

from __future__ import annotations

import os
import signal

import pytest
from testkit.hosts.in_process_machines import Machine, explored, pool

from aiosearch import SearchStatus
from aiosearch.events import AnyEvent, WorkerJoined, WorkReported
from aiosearch.workloads import Lopsided

TREE = Lopsided(spine=400, height=36)


@pytest.mark.parametrize("killing", [False, True])
async def test_two_machines_with_two_workers_each_do_everything_once(killing: bool) -> None:
    pids: dict[int, int] = {}
    killed = 0

    def kill(event: AnyEvent) -> None:
        nonlocal killed
        match event:
            case WorkerJoined(worker=worker, pid=pid):
                pids[worker] = pid
            case WorkReported(worker=worker) if killing and killed < 3 and worker in pids:
                killed += 1
                os.kill(pids.pop(worker), signal.SIGKILL)

    async with pool() as (opened, listener):
        for _ in range(2):
            Machine(listener, workers=2)
        result = await explored(opened, TREE, strategy="stealing", on=kill)
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.nodes == TREE.nodes
    assert sorted(result.solutions) == sorted(TREE.answers)
    assert result.statistics.worker_deaths == killed
    assert (killed > 0) == killing


async def test_a_machine_with_one_worker_has_nobody_to_steal_from() -> None:
    async with pool(workers=1) as (opened, listener):
        Machine(listener, workers=1)
        result = await explored(opened, TREE, strategy="stealing")
    assert result.statistics.nodes == TREE.nodes
