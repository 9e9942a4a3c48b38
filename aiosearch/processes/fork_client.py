"""The host's side of fork servers, which have imported what children need, and fork them.

Importing jax takes a CPU second, z3 a tenth and the engine another; a fork takes milliseconds. A
nursery is a child of the thread that asks, and so are the children that it forks, as if the thread
had started each itself: it waits for them and kills them in the same way, they end with it, and it
makes no difference to them when the nursery ends. A nursery belongs to one thread, because the
kernel ends its children with that thread.

What a child inherits is its nursery's, from variables of the environment to limits. So a nursery
serves its host as long as the host would hand down the same. A child that no nursery can fork is
started as a process of its own, which then also tells what the trouble is.
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
"""After so long without a child to fork, a nursery ends."""
PATIENCE_SECONDS = 60.0
"""On a machine where imports take longer, processes start by themselves."""
TAKE_BACK_SECONDS = 1.0
"""A fork takes milliseconds."""
LAST_SECONDS = 5.0
"""Nobody forks any more: either a child is there and about to speak, or nobody is."""
TRIES = 3
"""So many nurseries of a brood may die young before there is no other."""


class ForkServer:
    """The host's end of one; it is ended when nobody has it any more."""

    def __init__(self, found: tuple[object, ...]) -> None:
        self.inherited = found
        self.refused: set[str] = set()
        """Modules that it could not import."""
        self.forked = 0
        self._host = os.getpid()
        self._timer: asyncio.TimerHandle | None = None
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
        _living.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def door(self) -> int:
        """The number of the file by which it is asked."""
        return self._door.fileno()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    async def fork(
        self, module: str, arguments: tuple[str, ...], files: tuple[int, ...]
    ) -> tuple[ForkedChild, socket.socket] | None:
        """A child and the channel to it; None where it cannot be had from here."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                numbers = (theirs.fileno(), *files)
                socket.send_fds(self._door, [module.encode()], [theirs.fileno()])
            ours.setblocking(False)
            async with asyncio.timeout(PATIENCE_SECONDS):
                pid = await self._ask(ours, module, arguments, numbers)
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
        """It ends by itself; this is to wait for it, where an event loop is still there then."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(IDLE_SECONDS + 1, _check_idle, weakref.ref(self))

    def look(self) -> None:
        """Waits for it if it has ended."""
        self._timer = None
        if self.alive:
            self._look_later()
        else:
            self.end()

    def end(self) -> None:
        """Returns when it is gone. Safe to call twice."""
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


def _check_idle(known: weakref.ref[ForkServer]) -> None:
    if found := known():
        found.look()


async def _next_reply(ours: socket.socket) -> int:
    """What is said of a child next; raises EOFError where nobody is there to say it.

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
    """Those of one thread, by brood."""

    def __init__(self) -> None:
        self.host = os.getpid()
        self.found: dict[str, ForkServer] = {}
        self.stillborn: dict[str, int] = {}
        """How many have forked nothing."""


_living: weakref.WeakSet[ForkServer] = weakref.WeakSet()
_thread_servers = _ForkServers()


async def fork(
    brood: str, module: str, arguments: tuple[str, ...], files: tuple[int, ...]
) -> tuple[StartedProcess, socket.socket] | None:
    """A child of this thread that runs a module's `main`, and the channel to it.

    None where there is no nursery of this brood, and none can be had.
    """
    if not brood or sys.platform != "linux":
        return None
    try:
        nursery = _fork_server(brood)
        if nursery is None or module in nursery.refused:
            return None
        found = await nursery.fork(module, arguments, files)
    except OSError:  # whoever starts it without a nursery will hear of it
        return None
    if found is None and not nursery.forked and module not in nursery.refused:
        _thread_servers.stillborn[brood] = _thread_servers.stillborn.get(brood, 0) + 1
    return found


def live_fork_servers() -> list[ForkServer]:
    """Those of this process that live, of whatever thread; nothing is left of others."""
    for one in list(_living):
        if not one.alive:
            one.end()
    return [one for one in list(_living) if one.alive]


def _fork_server(brood: str) -> ForkServer | None:
    if (
        _thread_servers.host != os.getpid()
    ):  # a fork has the numbers of its host's, but not its children
        _thread_servers.__init__()  # type: ignore[misc]
    now = inherited()
    for name, known in list(_thread_servers.found.items()):
        if not known.alive or (name == brood and known.inherited != now):
            known.end()
            del _thread_servers.found[name]
    if brood not in _thread_servers.found and _thread_servers.stillborn.get(brood, 0) < TRIES:
        _thread_servers.found[brood] = ForkServer(now)
    return _thread_servers.found.get(brood)


@atexit.register
def _end_all() -> None:
    for one in list(_living):
        one.end()
