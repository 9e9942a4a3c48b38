"""A fork server whose children are its own: what `aiosearch.processes.sibling_fork` does without.

Run as `python -m lib.engine.plain_fork FD HOSTPID SECONDS`; `plain_fork` is the host's side. Its
child is tied to the life of the server, and nobody tells the host how it ended.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Any
from unittest.mock import patch

from aiosearch.processes import fork_client, fork_server
from aiosearch.processes.launch import StartedProcess
from aiosearch.processes.sibling_fork import Cloner


class PlainCloner(Cloner):
    """Forks with the C library's `fork`."""

    def fork(self) -> int:
        return os.fork()

    def quieten(self) -> None:
        """Waits for the child of its own, which the kernel must not reap before."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        super().quieten()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


class Grandchild:
    """What the host can know of a process that is another one's child."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            self.returncode = 0  # gone; its exit status went to the server
        return self.returncode

    def wait(self) -> int | None:
        while self.poll() is None:
            continue
        return self.returncode

    def send_signal(self, number: int, /) -> None:
        os.kill(self.pid, number)


async def plain_fork(
    brood: str, module: str, arguments: tuple[str, ...], files: tuple[int, ...]
) -> tuple[StartedProcess, socket.socket] | None:
    """Stands in for `aiosearch.processes.fork_client.fork`; has servers of its own."""
    with (
        patch.object(fork_client, "MODULE", __name__),
        patch.object(fork_client, "ForkedChild", Grandchild),
    ):
        return await fork_client.fork(f"{brood}, plain", module, arguments, files)


def become_grandchild(order: dict[str, Any]) -> None:
    """Names the server as the parent to die with, and hears of its own children again."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    order["arguments"][1] = str(os.getppid())
    become(order)


become = fork_server.become

if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    fork_server.Cloner = PlainCloner  # type: ignore[misc]  # only this process is another one
    fork_server.become = become_grandchild
    fork_server.main()
