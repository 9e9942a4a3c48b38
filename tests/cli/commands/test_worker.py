"""`aiosearch worker` while it calls; what it does once it serves is in the tests of transports."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from testkit.hosts.console import Cli
from testkit.hosts.in_process_links import pair

from aiosearch.cli.output.streams import Exit
from aiosearch.cli.runs.worker import WorkerService
from aiosearch.remote.links import API, Link, Listener


class Line:
    """A transport on which a call takes as long as the test says."""

    api = API

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.answered: asyncio.Future[Link] = asyncio.get_running_loop().create_future()

    def listener(self, address: str | None, token_file: Path | None) -> Listener:
        raise NotImplementedError

    async def connect(self, address: str, token_file: Path | None) -> Link:
        self.called.set()
        return await self.answered


def serving(line: Line) -> WorkerService:
    return WorkerService(line, "there", None, 1, 0, "", stay=False, patience=5.0)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--workers", "4097"), "--workers must be from 1 to 4096, not 4097"),
        (("--workers", "0"), "--workers must be from 1 to 4096, not 0"),
        (("--checkers", "-1"), "--checkers must be from 0 to 4096, not -1"),
        (("--patience", "nan"), "--patience must be above 0 seconds"),
        (("--patience", "1e9"), "a day at most"),
        (("--connect", ""), "--connect takes an address"),
    ],
)
def test_what_no_machine_can_do_is_refused(cli: Cli, flags: tuple[str, ...], told: str) -> None:
    outcome = cli("worker", "--connect", "127.0.0.1:1", *flags)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert told in outcome.err


async def test_a_worker_that_nobody_answers_leaves_when_it_is_told_to() -> None:
    line = Line()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(serving(line).run())
        await line.called.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running is Exit.INTERRUPTED
    assert line.answered.cancelled()


async def test_a_worker_that_is_told_to_leave_as_it_is_answered_does_not_serve(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = Line()
    service = serving(line)
    here, there = pair()
    said: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    there.open(lambda _: said.set_result("it served"), said.set_result)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(service.run())
        await line.called.wait()
        line.answered.set_result(here)
        service._leave()
        assert await running is Exit.INTERRUPTED
    assert await said == "closed by the other end"
    assert "serving" not in capsys.readouterr().err
