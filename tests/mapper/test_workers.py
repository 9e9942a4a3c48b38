"""Rows on pinned processes and on other hosts: equal results, shares by speed, deaths said."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from aiosearch_sockets import TcpListener

from aiosearch.mapper import PlanError, TeamWorkers, WorkerCores, cache_group_teams
from aiosearch.mapper.workers import apportion
from aiosearch.remote.links import Link

CORE = min(os.sched_getaffinity(0))
ROWS = 1009
"""A prime: it is divisible by nothing."""


def layers(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = jnp.tanh(x @ w)
    return x, x.sum(1)


ARGS = (
    np.random.default_rng(0).standard_normal((ROWS, 16)).astype(np.float32),
    np.full((16, 16), 0.1, np.float32),
)


def close(results: Any) -> None:
    for actual, expected in zip(results, layers(*ARGS), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@asynccontextmanager
async def two_hosts() -> AsyncIterator[tuple[list[Link], list[asyncio.subprocess.Process]]]:
    """Two processes that serve over TCP, as other hosts would, and the links to them."""
    joined: asyncio.Queue[Link] = asyncio.Queue()
    listener = TcpListener()
    await listener.start(joined.put_nowait)
    command = [sys.executable, "-m", "aiosearch.mapper.workers", "--connect", listener.address]
    hosts = [await asyncio.create_subprocess_exec(*command) for _ in range(2)]
    try:
        yield [await joined.get() for _ in hosts], hosts
    finally:
        for host in hosts:
            if host.returncode is None:
                with suppress(ProcessLookupError):
                    host.kill()
            await host.wait()
        await listener.close()


def test_rows_are_shared_out_by_speed() -> None:
    """As near to the speeds as whole rows can be, and none is lost."""
    assert apportion(10, [1, 3]) == [3, 7]
    assert apportion(1009, [1, 3]) == [252, 757]
    for rows in range(30):
        assert sum(apportion(rows, [0.3, 1.7, 2.2])) == rows


def test_every_core_is_in_one_team() -> None:
    """A team for each cache group, all cores that may be used among them, each once."""
    cores = [core for team in cache_group_teams() for core in team.cores]
    assert sorted(cores) == sorted(os.sched_getaffinity(0))


async def test_teams_of_unlike_speed_give_what_the_function_gives() -> None:
    """Shares that nothing divides, a team that is three times as slow, other arguments after."""
    async with TeamWorkers([WorkerCores((CORE,)), WorkerCores((CORE,), repeats=3)]) as workers:
        program = await workers.load(layers, *ARGS, block=100, shares=[757, 252])
        close(await program(*ARGS))
        twice = await program(ARGS[0] * 2, ARGS[1])
        np.testing.assert_allclose(twice[0], layers(ARGS[0] * 2, ARGS[1])[0], rtol=1e-5, atol=1e-6)
        with pytest.raises(PlanError, match="other shapes or types"):
            await program(ARGS[0][:5], ARGS[1])
        with pytest.raises(PlanError, match="add up to 1009 rows"):
            await workers.load(layers, *ARGS, shares=[1, 2])


async def test_a_team_that_dies_in_the_middle_is_said_or_replaced() -> None:
    """An error that names it and its rows; with `again`, right results from who is left."""
    async with TeamWorkers([WorkerCores((CORE,)), WorkerCores((CORE,), repeats=50)]) as workers:
        program = await workers.load(layers, *ARGS, shares=[500, 509])
        for again in (False, True):
            running = asyncio.create_task(program(*ARGS, again=again))
            await asyncio.sleep(0)  # the teams have been asked
            child = workers.teams[1].child if not again else None
            if child is not None:
                os.kill(child.pid, signal.SIGKILL)
                with pytest.raises(PlanError, match=r"team 1 is gone .* rows 500 to 1008"):
                    await running
            else:
                close(await running)
        assert program.shares == [ROWS]


async def test_what_cannot_be_shared_out_is_said() -> None:
    """Results without rows, cores that are not there, and errors of the function itself."""
    with pytest.raises(PlanError, match=r"cores \[100000\]"):
        TeamWorkers([WorkerCores((100_000,))])
    with pytest.raises(PlanError, match="at least one team"):
        TeamWorkers([])
    async with TeamWorkers([WorkerCores((CORE,))]) as workers:
        with pytest.raises(PlanError, match="rows depend on each other"):
            await workers.load(lambda x: jnp.fft.fft(x).sum(), ARGS[0][0])


async def test_two_hosts_share_a_program() -> None:
    """Over TCP on this machine: equal results; a host that is killed is said, or done without."""
    async with two_hosts() as (links, hosts), TeamWorkers([], links=links) as workers:
        program = await workers.load(layers, *ARGS, shares=[400, 609])
        close(await program(*ARGS))
        running = asyncio.create_task(program(*ARGS))
        await asyncio.sleep(0)  # both have been asked
        hosts[0].send_signal(signal.SIGKILL)
        hosts[1].send_signal(signal.SIGKILL)
        with pytest.raises(PlanError, match=r"the team at .* is gone .* in the middle of rows"):
            await running


async def test_rows_of_a_host_that_is_gone_are_computed_here() -> None:
    """With `again`, a team of this machine does what two hosts that died were to do."""
    async with (
        two_hosts() as (links, hosts),
        TeamWorkers([WorkerCores((CORE,))], links=links) as workers,
    ):
        program = await workers.load(layers, *ARGS, shares=[9, 400, 600])
        for host in hosts:
            host.kill()
            await host.wait()
        close(await program(*ARGS, again=True))
        assert program.shares == [ROWS]
