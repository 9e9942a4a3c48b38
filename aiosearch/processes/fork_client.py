"""The host's side of fork servers, which have imported what children need, and fork them.

The problem: importing jax takes a CPU second, z3 a tenth and the engine another, and a search on 64
cores would pay that 64 times. A fork takes milliseconds (benchmarks/starts.py).

A `ForkServer` is a child of the thread that asks, and so are the children that it forks (see
`sibling_fork`), as if the thread had started each itself: it waits for them and kills them in the
same way, they end with it, and it makes no difference to them when the server ends. A server
belongs to one thread, because the kernel ends its children with that thread. The steps of one fork:

    host -> server     a module's name and one end of a new socket pair
    server -> host     READY, once the module is imported
    host -> server     arguments, environment, and the files to inherit
    server forks; the child -> host     its process id, and from then on frames

What a child inherits is its server's, from variables of the environment to limits. So a server
serves its host as long as the host would hand down the same (`inherited`). A child that no server
can fork is started as a process of its own, which then also tells what the trouble is.

Invariant: a fork that is cancelled or times out leaves no child behind: `_take_back` waits for the
id of a child that may be there, and kills it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref

import anyio

from .frames import FORK_REFUSED, FORK_REPLY, READY, frame
from .launch import LATE, ForkedChild, StartedProcess, inherited, start

MODULE = "aiosearch.processes.fork_server"
DESCRIPTION = "forks processes that have imported what they need"
IDLE_SECONDS = 30.0
"""Seconds without a child to fork after which a server ends."""
PATIENCE_SECONDS = 60.0
"""Seconds for an import and a fork; on a machine where imports take longer, processes start by
themselves."""
TAKE_BACK_SECONDS = 1.0
"""Seconds in which a fork that was given up has surely happened: a fork takes milliseconds."""
LAST_SECONDS = 5.0
"""Seconds after the server's end: either a child is there and about to speak, or nobody is."""
TRIES = 3
"""After this many servers of a brood that died without a fork, there is no other."""


class ForkServer:
    """The host's end of one fork server; it is ended when nobody has it any more."""

    def __init__(self, inheritance: tuple[object, ...]) -> None:
        self.inherited = inheritance
        self.refused: set[str] = set()
        """Modules that it could not import; they are started as processes of their own."""
        self.forked = 0
        self._host = os.getpid()
        self._timer: asyncio.TimerHandle | None = None
        # Sequenced packets: a request is one datagram, and its end is heard like a stream's
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.setblocking(False)
        try:
            arguments = (str(theirs.fileno()), str(self._host), str(IDLE_SECONDS), DESCRIPTION)
            self._process = start(MODULE, arguments, (theirs.fileno(),), subprocess.DEVNULL)
        except BaseException:
            self._door.close()
            raise
        finally:
            theirs.close()
        # For the end of the program: whatever thread it belongs to, it is ended then
        _living.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def door(self) -> int:
        """The number of the socket by which the server is asked."""
        return self._door.fileno()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    async def fork(
        self, module: str, arguments: tuple[str, ...], files: tuple[int, ...]
    ) -> tuple[ForkedChild, socket.socket] | None:
        """A child and the channel to it; None where it cannot be had from this server."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                numbers = (theirs.fileno(), *files)
                # Only the channel's other end now; the order goes over the channel, once the module
                # is imported
                socket.send_fds(self._door, [module.encode()], [theirs.fileno()])
            ours.setblocking(False)
            async with asyncio.timeout(PATIENCE_SECONDS):
                pid = await self._ask(ours, module, arguments, numbers)
        # Who did not answer in time may still fork: ended, it cannot
        except (TimeoutError, EOFError):
            self.end()
            pid = None
        except BaseException:
            ours.close()
            raise
        if pid is None:
            ours.close()
            return None
        self.forked += 1
        self._look_later()
        return ForkedChild(pid), ours

    async def _ask(
        self, ours: socket.socket, module: str, arguments: tuple[str, ...], numbers: tuple[int, ...]
    ) -> int | None:
        if await _next_reply(ours) != READY:
            self.refused.add(module)
            return None
        if not _order(ours, module, arguments, numbers):
            return None
        try:
            said = await _next_reply(ours)
        except BaseException:
            self._take_back(ours)
            raise
        return said if said != FORK_REFUSED else None

    def _take_back(self, ours: socket.socket) -> None:
        """Ends a child that nobody waits for any more, which may be there in a moment."""
        ours.settimeout(TAKE_BACK_SECONDS)
        data = b""
        try:
            data = ours.recv(FORK_REPLY.size)
        except TimeoutError:
            self.end()  # now only a child has the other end, and it speaks first of all
            ours.settimeout(LAST_SECONDS)
            with contextlib.suppress(OSError):
                data = ours.recv(FORK_REPLY.size)
        except OSError:
            return
        if len(data) == FORK_REPLY.size and (pid := FORK_REPLY.unpack(data)[0]) != FORK_REFUSED:
            child = ForkedChild(pid)
            child.send_signal(signal.SIGKILL)
            child.wait()

    def _look_later(self) -> None:
        """Schedules `look`: the server ends by itself, and somebody has to wait for it."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        # A weak reference: the timer must not keep a server alive that nobody has any more
        self._timer = loop.call_later(IDLE_SECONDS + 1, _check_idle, weakref.ref(self))

    def look(self) -> None:
        """Waits for the server if it has ended."""
        self._timer = None
        if self.alive:
            self._look_later()
        else:
            self.end()

    def end(self) -> None:
        """Kills the server and returns when it is gone. Safe to call twice."""
        if self._door.fileno() < 0:
            return
        self._door.close()
        if os.getpid() != self._host:  # we are a fork of its host
            self._process.returncode = 0
        elif self._process.returncode is None:
            self._process.kill()
            self._process.wait()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.end()


def _check_idle(reference: weakref.ref[ForkServer]) -> None:
    if server := reference():
        server.look()


async def _next_reply(ours: socket.socket) -> int:
    """What is said of a child next; raises `EOFError` where nobody is there to say it.

    Who is cancelled here has not heard it: it can still be read.
    """
    await anyio.wait_readable(ours)
    said = b""
    with contextlib.suppress(ConnectionError):
        said = ours.recv(FORK_REPLY.size)
    if not said:
        raise EOFError
    return int(FORK_REPLY.unpack(said)[0])


def _order(
    ours: socket.socket, module: str, arguments: tuple[str, ...], numbers: tuple[int, ...]
) -> bool:
    """Says what the child is to be, and hands over what it needs; whether all of it went."""
    channel, *files = numbers
    order = {
        "module": module,
        "arguments": [str(channel), str(os.getpid()), *arguments],
        "numbers": [1, 2, *files, channel],
        "environment": {name: os.environ.get(name) for name in LATE},
    }
    data = frame(json.dumps(order).encode())
    folder = os.open(".", os.O_PATH | os.O_DIRECTORY)
    try:
        return socket.send_fds(ours, [data], [folder, 1, 2, *files]) == len(data)
    finally:
        os.close(folder)


class _ForkServers(threading.local):
    """The servers of one thread, by brood."""

    def __init__(self) -> None:
        self.host = os.getpid()
        self.servers: dict[str, ForkServer] = {}
        self.failures: dict[str, int] = {}
        """How many servers of each brood have forked nothing."""


_living: weakref.WeakSet[ForkServer] = weakref.WeakSet()
_thread_servers = _ForkServers()


async def fork(
    brood: str, module: str, arguments: tuple[str, ...], files: tuple[int, ...]
) -> tuple[StartedProcess, socket.socket] | None:
    """A child of this thread that runs a module's `main`, and the channel to it.

    None where there is no server for this `brood`, and none can be had.
    """
    if not brood or sys.platform != "linux":
        return None
    try:
        server = _fork_server(brood)
        if server is None or module in server.refused:
            return None
        child = await server.fork(module, arguments, files)
    except OSError:  # whoever starts it without a server will hear of it
        return None
    if child is None and not server.forked and module not in server.refused:
        _thread_servers.failures[brood] = _thread_servers.failures.get(brood, 0) + 1
    return child


def live_fork_servers() -> list[ForkServer]:
    """The servers of this process that live, of whatever thread; nothing is left of others."""
    for server in list(_living):
        if not server.alive:
            server.end()
    return [server for server in list(_living) if server.alive]


def _fork_server(brood: str) -> ForkServer | None:
    if (
        _thread_servers.host != os.getpid()
    ):  # a fork has the numbers of its host's, but not its children
        _thread_servers.__init__()  # type: ignore[misc]  # the same object, empty again
    # Compared at every fork: a test or a user may have changed the environment or a limit meanwhile
    now = inherited()
    for name, server in list(_thread_servers.servers.items()):
        if not server.alive or (name == brood and server.inherited != now):
            server.end()
            del _thread_servers.servers[name]
    if brood not in _thread_servers.servers and _thread_servers.failures.get(brood, 0) < TRIES:
        _thread_servers.servers[brood] = ForkServer(now)
    return _thread_servers.servers.get(brood)


@atexit.register
def _end_all() -> None:
    for server in list(_living):
        server.end()
