"""Who may work beside whom."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aiosearch.measure.host.exclusive_lock import ExclusiveLock, paused


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_waits_to_be_alone_goes_first() -> None:
    """Those who are busy may finish; newcomers wait until the one who asked has been alone."""
    quiet = ExclusiveLock()
    told: list[str] = []

    async def alone() -> None:
        async with quiet.alone():
            told.append("alone")

    async def busy() -> None:
        async with quiet.busy():
            told.append("busy")

    async with asyncio.TaskGroup() as group, quiet.busy():
        group.create_task(alone())
        await turns()
        group.create_task(busy())
        await turns()
        assert told == []
    assert told == ["alone", "busy"]


async def test_giving_up_holds_nobody_up() -> None:
    """Who is cancelled while he waits to be alone no longer keeps others waiting."""
    quiet = ExclusiveLock()

    async def alone() -> None:
        async with quiet.alone():
            raise AssertionError("somebody is busy")

    async with quiet.busy():
        waiting = asyncio.ensure_future(alone())
        await turns()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(5), quiet.busy():
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_paused_processes_do_not_run() -> None:
    """Processes stand still inside the block, and run after it; one that is gone is no trouble."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    child = subprocess.Popen(["sleep", "60"])
    try:
        with paused([gone.pid, child.pid]):
            _, status = os.waitpid(child.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            assert state(child.pid) == "T"
        _, status = os.waitpid(child.pid, os.WCONTINUED)
        assert os.WIFCONTINUED(status)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
