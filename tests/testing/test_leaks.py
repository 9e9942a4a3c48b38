"""The leak checker notices processes, files and tasks that a block leaves behind."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from aiosearch.testing import no_leaks

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


async def test_a_block_that_cleans_up_passes() -> None:
    async with no_leaks():
        await asyncio.create_task(asyncio.sleep(0))
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
        await child.wait()


def test_the_event_loops_own_files_do_not_count() -> None:
    async def connect() -> None:
        async with no_leaks():
            ours, theirs = socket.socketpair()
            _, writer = await asyncio.open_unix_connection(sock=ours)
            theirs.close()
            writer.close()
            await writer.wait_closed()

    uvloop.run(connect())


async def test_what_was_there_before_does_not_count() -> None:
    read, write = os.pipe()
    task = asyncio.create_task(asyncio.Event().wait())
    async with no_leaks():
        pass
    task.cancel()
    os.close(read)
    os.close(write)


async def test_a_task_is_noticed() -> None:
    with pytest.raises(AssertionError, match="left behind: task left-over"):
        async with no_leaks():
            task = asyncio.create_task(asyncio.Event().wait(), name="left-over")
    task.cancel()


@needs_proc
async def test_a_file_is_noticed() -> None:
    with pytest.raises(AssertionError, match=r"left behind: file \d+ \(/dev/null\)"):
        async with no_leaks():
            file = os.open("/dev/null", os.O_RDONLY)
    os.close(file)


@needs_proc
async def test_another_file_under_a_number_that_was_there_is_noticed() -> None:
    file = os.open("/dev/null", os.O_RDONLY)
    other = os.open("/dev/zero", os.O_RDONLY)
    with pytest.raises(AssertionError, match=rf"left behind: file {file} \(/dev/zero\)"):
        async with no_leaks():
            os.dup2(other, file)
    os.close(file)
    os.close(other)


def dead_child() -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return child


@needs_proc
async def test_a_process_is_noticed_even_when_it_is_only_not_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"left behind: process \d+$"):
        async with no_leaks():
            child = dead_child()
    child.wait()


async def test_an_error_of_the_block_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        async with no_leaks():
            raise ZeroDivisionError
