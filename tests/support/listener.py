"""A process that waits for a bell as a worker does, once, and says that it has heard it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from aiosearch.engine.worker.work_sharing import Bell
from aiosearch.processes.frames import Channel


class Listener:
    """Starts one, which ends when it has heard the bell."""

    def __init__(self, bell: Bell) -> None:
        self._host, child = socket.socketpair()
        fds = (child.fileno(), *bell.fds)
        self._process = subprocess.Popen(
            [sys.executable, __file__, *map(str, fds)],
            pass_fds=fds,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        child.close()
        assert self._said() == b"waiting\n"

    @property
    def asleep(self) -> bool:
        """Whether it is blocked; there is nothing but bell and host that it blocks for."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_bytes()
        return stat.rpartition(b") ")[2].startswith(b"S")

    def fileno(self) -> int:
        """Where there is something to read when it has heard the bell."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _said(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def heard(self) -> bool:
        """Waits until it has said that it woke; says whether that was the bell."""
        return self._said() == b"the bell\n"

    def close(self) -> None:
        """Ends it, where it has not ended yet."""
        self._host.close()
        self._process.kill()
        self._process.communicate()


def listen(channel: Channel, bell: int) -> None:
    channel.hear(bell)
    print("waiting", flush=True)  # noqa: T201  # it is a protocol
    print("the bell" if channel.await_bell() else "the host", flush=True)  # noqa: T201


if __name__ == "__main__":
    listen(Channel(int(sys.argv[1])), int(sys.argv[2]))
