"""Other machines serve a search: real worker processes, and links that never leave this process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from pairs import PairLink, PairListener

from aiosearch import Pool, Search
from aiosearch.remote.agent import Agent
from aiosearch.remote.links import LostError
from aiosearch.remote.protocol import (
    Farewell,
    Gone,
    Here,
    Spawn,
    Spawned,
    decode_for_agent,
    encode,
)
from aiosearch.result import SearchStatus
from aiosearch.testing import no_leaks
from aiosearch.testing.problems import Balanced
from aiosearch.workloads import Lopsided, Queens, Superopt

TREE = Lopsided(height=24)


MACHINES: list[Machine] = []


class Machine:
    """A host that serves, and its end of the link."""

    def __init__(self, listener: PairListener, workers: int = 1, patience: float = 5.0) -> None:
        self.link = listener.connect()
        self.agent = Agent(self.link, workers, 1, "elsewhere", patience)
        self.serving = asyncio.get_running_loop().create_task(self.agent.serve())
        MACHINES.append(self)

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self.agent._children.values() if child is not None]


@asynccontextmanager
async def pool(workers: int = 0, **options: Any) -> AsyncIterator[tuple[Pool, PairListener]]:
    listener = PairListener()
    MACHINES.clear()
    async with no_leaks():
        async with Pool(workers=workers, cache=None, listener=listener, **options) as opened:
            yield opened, listener
        if MACHINES:
            await asyncio.wait([machine.serving for machine in MACHINES])


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.005)


async def explored(pool: Pool, problem: Any, **options: Any) -> Any:
    async with Search(problem, pool=pool, **options) as search:
        async with asyncio.timeout(30):
            return await search.wait()


@pytest.mark.parametrize(("here", "elsewhere"), [(0, (1,)), (0, (2, 1)), (1, (1,))])
async def test_all_machines_together_explore_every_node_once(
    here: int, elsewhere: tuple[int, ...]
) -> None:
    async with pool(here) as (opened, listener):
        machines = [Machine(listener, workers) for workers in elsewhere]
        result = await explored(opened, TREE)
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.nodes == TREE.nodes
    assert sorted(result.solutions) == list(TREE.answers)
    assert sum(one.nodes > 0 for one in result.statistics.workers) >= 2 - (elsewhere == (1,))
    for machine in machines:
        assert (await machine.serving).reason == "the search is over"


async def test_a_machine_that_comes_later_takes_part() -> None:
    async with pool(1) as (opened, listener), Search(Lopsided(height=29), pool=opened) as search:
        await until(lambda: search.statistics().nodes > 1000)
        Machine(listener)
        result = await search.wait()
    assert result.statistics.nodes == Lopsided(height=29).nodes
    assert result.statistics.workers[1].nodes > 0


async def test_workers_that_are_killed_elsewhere_are_replaced_and_nothing_is_lost() -> None:
    tree = Lopsided(height=28)
    async with pool() as (opened, listener):
        machine = Machine(listener, 2)
        async with Search(tree, pool=opened) as search:
            await until(lambda: search.statistics().nodes > 1000)
            os.kill(machine.pids[0], signal.SIGKILL)
            result = await search.wait()
    assert result.statistics.worker_deaths == 1
    assert result.statistics.nodes == tree.nodes
    assert sorted(result.solutions) == list(tree.answers)


@pytest.mark.parametrize("way", ["closed", "cut"])
async def test_a_machine_that_is_gone_has_its_work_done_by_others(
    way: str,
) -> None:
    """Whether it says so or not; what it says later is heard by nobody."""
    tree = Lopsided(height=29)
    async with pool(1, patience=0.25) as (opened, listener):
        machine = Machine(listener, patience=0.25)
        async with Search(tree, pool=opened) as search:
            await until(lambda: len(search.statistics().workers) > 1)
            await until(lambda: search.statistics().workers[1].nodes > 100)
            if way == "closed":
                machine.link.close()
            else:
                machine.link.stuck = machine.link.other.stuck = True
            result = await search.wait()
        with pytest.raises(LostError):
            await machine.serving
    assert result.statistics.nodes == tree.nodes
    assert sorted(result.solutions) == list(tree.answers)


async def test_a_machine_that_wants_to_leave_gives_everything_back_first() -> None:
    tree = Lopsided(height=29)
    async with pool(1) as (opened, listener):
        machine = Machine(listener, 2)
        async with Search(tree, pool=opened) as search:
            await until(lambda: len(search.statistics().workers) > 2)
            await until(lambda: search.statistics().workers[2].nodes > 100)
            machine.agent.leave()
            assert (await machine.serving).reason == "it is let go"
            done = [one.nodes for one in search.statistics().workers[1:]]
            result = await search.wait()
    assert [one.nodes for one in result.statistics.workers[1:]] == done
    assert result.statistics.nodes == tree.nodes


async def test_z3_is_asked_once_whichever_machine_answers() -> None:
    problem = Superopt()
    alone = await explored_alone(problem)
    async with pool() as (opened, listener):
        machines = [Machine(listener), Machine(listener)]
        result = await explored(opened, problem)
        assert len(machines) == 2
    assert result.statistics.checks.checks == alone.statistics.checks.checks
    assert sorted(map(repr, result.solutions)) == sorted(map(repr, alone.solutions))


async def explored_alone(problem: Any) -> Any:
    async with Pool(workers=1, cache=None) as opened:
        return await explored(opened, problem)


async def test_a_problem_that_is_not_installed_there_is_refused_by_name() -> None:
    warned: list[str] = []
    async with pool(1) as (opened, listener):
        machine = Machine(listener)
        await until(lambda: machine.pids)
        async with Search(
            Balanced(), pool=opened, on=[lambda event: _note(event, warned)]
        ) as search:
            result = await search.wait()
    assert result.status is SearchStatus.COMPLETE
    assert any("Balanced is not installed here" in text for text in warned)


def _note(event: Any, warned: list[str]) -> None:
    if hasattr(event, "message"):
        warned.append(event.message)


class Raw:
    """An end of a link that says what it likes."""

    def __init__(self, link: PairLink) -> None:
        self.heard: list[Any] = []
        self.reason: str | None = None
        self._link = link
        link.open(lambda payload: self.heard.append(decode_for_agent(payload)), self._ended)

    def _ended(self, reason: str) -> None:
        self.reason = reason

    def say(self, message: Any) -> None:
        self._link.send(message if isinstance(message, bytes) else encode(message))


def _here(**changes: Any) -> Here:
    from aiosearch.remote.versions import versions

    here = Here(1, "raw", 1, 0, versions())
    return msgspec.structs.replace(here, **changes)


@pytest.mark.parametrize(
    ("here", "told"),
    [
        (_here(api=9), "version 9 of the protocol"),
        (_here(versions={"python": "3.11"}), "aiosearch is missing there"),
    ],
)
async def test_other_versions_are_refused_by_name(here: Here, told: str) -> None:
    async with pool(1) as (_, listener):
        raw = Raw(listener.connect())
        raw.say(here)
        await until(lambda: raw.reason is not None)
    (farewell,) = [one for one in raw.heard if isinstance(one, Farewell)]
    assert farewell.refused
    assert told in farewell.reason


@pytest.mark.parametrize("nonsense", [b"", b"\xc1", b"\x93\x0d\x01\xc4\x00", b"\x91\x63"])
@pytest.mark.parametrize("greeted", [False, True])
async def test_nonsense_closes_that_link_and_nothing_else(nonsense: bytes, greeted: bool) -> None:
    async with pool(1) as (opened, listener):
        raw = Raw(listener.connect())
        if greeted:
            raw.say(_here())
        raw.say(nonsense)
        await until(lambda: raw.reason is not None)
        result = await explored(opened, Queens(n=6))
    assert result.status is SearchStatus.COMPLETE


async def test_a_worker_that_dies_as_it_starts_is_replaced_too() -> None:
    """Its start and its end may come in one breath, before anybody has looked at it."""
    async with pool(1) as (_, listener):
        raw = Raw(listener.connect())
        raw.say(_here())
        await until(lambda: _spawned(raw) == [1])
        raw.say(Spawned(1, 4711))
        raw.say(Gone(1, "signal 9"))
        await until(lambda: _spawned(raw) == [1, 2])


def _spawned(raw: Raw) -> list[int]:
    return [one.channel for one in raw.heard if isinstance(one, Spawn)]
