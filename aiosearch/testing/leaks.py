"""Shows that a block of code left nothing behind: no process, no open file, no asyncio task."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ..processes.fork_client import live_fork_servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

SETTLING = 10
"""Turns of the loop in which transports that were closed may finish closing."""


class Holdings(Struct, frozen=True):
    """What this process holds at a moment; processes and files where there is a /proc.

    Nurseries do not count, which end by themselves: see `aiosearch.processes.fork_client`.
    """

    children: frozenset[int]
    """Processes that were started here and not waited for, dead ones included."""
    files: Mapping[int, str]
    tasks: frozenset[asyncio.Task[object]]

    def beyond(self, before: Holdings) -> list[str]:
        """Describes what was not there `before`, the same descriptor with another file included."""
        children = [f"process {pid}" for pid in sorted(self.children - before.children)]
        files = [
            f"file {fd} ({target})"
            for fd, target in self.files.items()
            if before.files.get(fd) != target
        ]
        tasks = [f"task {task.get_name()}" for task in self.tasks - before.tasks]
        return children + files + tasks


def holdings() -> Holdings:
    """Looks at what this process holds now, as `Holdings`. Must run in an event loop."""
    servers = live_fork_servers()
    files = dict(_files())
    for server in servers:
        files.pop(server.door, None)
    started = frozenset(children()) - {server.pid for server in servers}
    return Holdings(started, files, frozenset(asyncio.all_tasks()))


def children() -> list[int]:
    """The process ids of those that this one started."""
    pids: list[int] = []
    for thread in Path("/proc/self/task").glob("*/children"):
        try:
            pids += map(int, thread.read_text().split())
        except OSError:  # the thread has ended
            continue
    return pids


def _files() -> list[tuple[int, str]]:
    descriptions = []
    for entry in Path("/proc/self/fd").glob("*"):
        try:
            descriptions.append((int(entry.name), os.readlink(entry)))
        except OSError:  # it was the descriptor of this very listing
            continue
    return descriptions


async def _open_a_stream() -> None:
    """Makes uvloop open the file that it keeps for itself from its first stream on."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_unix_connection(asyncio.Protocol, sock=ours)
    transport.close()
    theirs.close()
    await _settle()


async def _settle() -> None:
    for _ in range(SETTLING):
        await asyncio.sleep(0)


@asynccontextmanager
async def no_leaks() -> AsyncIterator[None]:
    """Raises `AssertionError` when the block left a process, an open file or a task behind.

    Where there is no /proc, only tasks are seen.
    """
    # Else the file that uvloop opens with its first stream would look like a leak
    await _open_a_stream()
    before = holdings()
    yield
    await _settle()
    if left := holdings().beyond(before):
        raise AssertionError(f"left behind: {', '.join(left)}")
