"""Other machines serve a search: real worker processes, and links that never leave this process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from testkit.hosts.in_process_links import PairLink
from testkit.hosts.in_process_machines import Machine, explored, pool, until

from aiosearch import Limits, Pool, Search
from aiosearch.events import AnyEvent, Progress, Warned, WorkerLost
from aiosearch.remote.links import LostError
from aiosearch.remote.protocol import (
    Farewell,
    HostGreeting,
    ProcessGone,
    Spawn,
    Spawned,
    decode_for_agent,
    encode,
)
from aiosearch.result import SearchStatus
from aiosearch.testing.problems import Balanced, Grid
from aiosearch.workloads import Lopsided, Queens, Superopt

TREE = Lopsided(height=24)


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
    async with pool(1) as (opened, listener), Search(Lopsided(height=36), pool=opened) as search:
        await until(lambda: search.statistics().nodes > 1000)
        Machine(listener)
        result = await search.wait()
    assert result.statistics.nodes == Lopsided(height=36).nodes
    assert result.statistics.workers[1].nodes > 0


async def test_workers_that_are_killed_elsewhere_are_replaced_and_nothing_is_lost() -> None:
    tree = Lopsided(height=36)
    async with pool() as (opened, listener):
        machine = Machine(listener, 2)
        async with Search(tree, pool=opened) as search:
            await until(lambda: search.statistics().nodes > 1000)
            os.kill(machine.pids[0], signal.SIGKILL)
            result = await search.wait()
    assert result.statistics.worker_deaths == 1
    assert result.statistics.nodes == tree.nodes
    assert sorted(result.solutions) == list(tree.answers)


async def test_a_worker_behind_a_slow_link_is_not_taken_for_one_that_is_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked whether it listens where a search ends before its last report has come."""
    monkeypatch.setattr("aiosearch.pool.ANSWER_SECONDS", 0.2)
    async with pool() as (opened, listener):
        machine = Machine(listener)
        async with Search(Lopsided(height=60), pool=opened) as search:
            await until(lambda: search.statistics().nodes > 100)
            machine.link.delay = machine.link.other.delay = 0.3
            search.stop()
            await search.wait()
        (pid,) = machine.pids
        result = await explored(opened, TREE)
        assert machine.pids == [pid]
    assert result.statistics.worker_deaths == 0
    assert result.statistics.nodes == TREE.nodes


async def test_a_worker_elsewhere_that_is_stuck_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aiosearch.pool.ANSWER_SECONDS", 0.2)
    async with pool() as (opened, listener):
        machine = Machine(listener)
        async with Search(Lopsided(height=60), pool=opened) as search:
            await until(lambda: search.statistics().nodes > 100)
            (pid,) = machine.pids
            os.kill(pid, signal.SIGSTOP)
            search.stop()
            await search.wait()
        result = await explored(opened, TREE)
        assert machine.pids != [pid]
    assert result.statistics.nodes == TREE.nodes


@pytest.mark.parametrize("way", ["closed", "cut"])
async def test_a_machine_that_is_gone_has_its_work_done_by_others(
    way: str,
) -> None:
    """Whether it says so or not; what it says later is heard by nobody."""
    tree = Lopsided(height=36)
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
    tree = Lopsided(height=36)
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


async def explored_alone(problem: Any, **options: Any) -> Any:
    async with Pool(workers=1, cache=None) as opened:
        return await explored(opened, problem, **options)


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines run the problems of the tests as well, which are not installed."""
    monkeypatch.setattr("aiosearch.remote.admission.installed", lambda problem: True)


@pytest.mark.usefixtures("trusting")
async def test_a_machine_learns_which_keys_were_explored_before_a_resume(tmp_path: Path) -> None:
    """Thousands of them, which are more than one message; it would not meet the first by itself."""
    graph, journal = Grid(side=2000), tmp_path / "journal"
    await explored_alone(graph, journal=journal, limits=Limits(nodes=6000))
    async with pool() as (opened, listener):
        machine = Machine(listener)
        async with Search(graph, pool=opened, journal=journal, resume=True) as search:
            (member,) = opened.members
            known = b"".join(takewhile(bool, map(member.known_keys, count())))
            assert len(known) == 6000 * 16
            await until(lambda: machine.knows(member.id, known))
            search.stop()


@pytest.mark.usefixtures("trusting")
async def test_a_resumed_search_of_a_graph_finds_everything_wherever_it_goes_on(
    tmp_path: Path,
) -> None:
    """Nodes with equal keys may be explored once by each machine, and solutions count once."""
    graph, journal = Grid(side=60), tmp_path / "journal"
    await explored_alone(graph, journal=journal, limits=Limits(nodes=1000))
    async with pool(1) as (opened, listener):
        Machine(listener)
        Machine(listener)
        result = await explored(opened, graph, journal=journal, resume=True)
    assert result.status is SearchStatus.COMPLETE
    assert sorted(result.solutions) == [(place, place) for place in range(60)]
    assert 60**2 <= result.statistics.nodes <= 3 * 60**2


async def test_a_problem_that_is_not_installed_there_is_refused_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once for each machine, on both sides; and the search goes on with those that have it."""
    events: list[AnyEvent] = []
    async with pool() as (opened, listener):
        Machine(listener, 2)
        async with Search(
            Balanced(), pool=opened, on=events.append, progress_seconds=0.01
        ) as search:
            await until(lambda: any(_refused(events)))
            await until(lambda: sum(isinstance(event, WorkerLost) for event in events) == 2)
            (machine,) = json.loads(_state(opened))["refused"]
            search.stop()
            result = await search.wait()
    reason = "aiosearch.testing.problems:Balanced is not installed; install the package that has it"
    [warned] = [event.message for event in events if isinstance(event, Warned)]
    assert warned.startswith(f"{machine} cannot serve: {reason}")
    [seen_there] = [text for text in caplog.messages if "this host cannot serve" in text]
    assert reason in seen_there
    assert _refused(events)[-1].keys() == {machine}
    assert result.statistics.worker_deaths == 0
    assert not any(event.died for event in events if isinstance(event, WorkerLost))


async def test_a_search_whose_machines_were_all_refused_is_served_by_one_that_comes_later() -> None:
    events: list[AnyEvent] = []
    async with pool() as (opened, listener):
        raw = Raw(listener.connect())
        raw.say(_here(api=9))
        await until(lambda: raw.reason is not None)
        async with Search(TREE, pool=opened, on=events.append, progress_seconds=0.01) as search:
            await until(lambda: any(_refused(events)))
            assert json.loads(_state(opened))["refused"].keys() == {"raw"}
            Machine(listener)
            result = await search.wait()
    assert result.statistics.nodes == TREE.nodes
    assert "version 9 of the protocol" in _refused(events)[0]["raw"]


def _refused(events: list[AnyEvent]) -> list[Mapping[str, str]]:
    """What has been told of machines that do not serve, while nobody else does."""
    return [one.refused for one in events if isinstance(one, Progress) and one.workers == 0]


def _state(pool: Pool) -> bytes:
    assert pool.machines is not None
    return pool.machines.state()


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


def _here(**changes: Any) -> HostGreeting:
    from aiosearch.remote.admission import versions

    here = HostGreeting(1, "raw", 1, 0, versions())
    return msgspec.structs.replace(here, **changes)


@pytest.mark.parametrize(
    ("here", "told"),
    [
        (_here(api=9), "version 9 of the protocol"),
        (_here(versions={"python": "3.11"}), "aiosearch is missing on the worker's machine, "),
    ],
)
async def test_other_versions_are_refused_by_name(here: HostGreeting, told: str) -> None:
    async with pool(1) as (_, listener):
        raw = Raw(listener.connect())
        raw.say(here)
        await until(lambda: raw.reason is not None)
    (farewell,) = [one for one in raw.heard if isinstance(one, Farewell)]
    assert farewell.refused
    assert told in farewell.reason


async def test_what_machines_are_called_is_told_so_that_no_terminal_obeys_it() -> None:
    """Whether they were taken or not."""
    events: list[AnyEvent] = []
    evil = "\x1b[2Jraw\nworker 0 died\x9b1A"
    async with (
        pool(1) as (opened, listener),
        Search(Lopsided(height=60), pool=opened, on=events.append),
    ):
        for here in (_here(name=evil, api=9), _here(name=evil)):
            raw = Raw(listener.connect())
            raw.say(here)
            raw.say(b"\xc1")
        await until(lambda: sum(isinstance(event, Warned) for event in events) == 2)
    told = [event.message for event in events if isinstance(event, Warned)]
    assert all(text.startswith(r"\x1b[2Jraw\nworker 0 died\x9b1A (there) ") for text in told)
    assert all(text.isprintable() for text in told)


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
        raw.say(ProcessGone(1, "signal 9"))
        await until(lambda: _spawned(raw) == [1, 2])


def _spawned(raw: Raw) -> list[int]:
    return [one.channel for one in raw.heard if isinstance(one, Spawn)]
