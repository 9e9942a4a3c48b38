"""The host's side of a killable child process: its start, its frames and its end.

The problem: a child runs what users wrote, so it may crash, hang or be killed at any moment, and
the host must notice all of it without blocking its event loop. Each child has a socket pair to the
host; its death closes it.

    child = await Child.spawn("aiosearch.checks.solver", on_frame, on_gone, arguments=("5", "500"))
    child.send(b"...")        one frame; `on_frame` gets the frames that come back
    child.kill()              SIGKILL; nothing is heard any more
    await child.reap()        its exit status is collected: no zombie is left

Invariants: `on_gone` is called once, after the last frame; a process id is signalled only as long
as it has not been waited for, so that it cannot be another process's by then. See
docs/why/architecture.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from typing import Protocol, cast

from .fork_client import fork
from .frames import Frames, frame
from .launch import StartedProcess, start

READ_BYTES = 256 * 1024
BEATS = 5
"""In so many parts is a child's time to answer waited for: a loop that was held up has missed one
part, and then reads first."""


class Handle(Protocol):
    """What the engine needs of a child process, wherever it runs; `Child` is one on this
    machine."""

    sent: int
    received: int

    @property
    def pid(self) -> int: ...

    @property
    def alive(self) -> bool: ...

    @property
    def death(self) -> str: ...

    def send(self, payload: bytes) -> None: ...

    def probe(self, payload: bytes, seconds: float, silent: Callable[[], None]) -> None:
        """Sends what asks for an answer, and calls `silent` if nothing is heard for so many
        `seconds`.

        These are seconds where the process runs: a slow link is no silence.
        """
        ...

    def kill(self) -> None: ...

    async def reap(self) -> None: ...


class Spawner(Protocol):
    """Starts a child of one kind; raises `OSError` where it cannot."""

    async def __call__(
        self, on_frame: Callable[[bytes], None], on_gone: Callable[[], None], /
    ) -> Handle: ...


class Child(asyncio.Protocol):
    """The host's handle on one child process.

    `on_frame` gets every frame; `on_gone` is called once, after the last of them, when the
    child has closed its side (it exited, crashed or was killed). Nothing is heard after `kill`.
    `reap` returns when the operating system has let go of it.
    """

    def __init__(
        self, on_frame: Callable[[bytes], None], on_gone: Callable[[], None] | None = None
    ) -> None:
        self._on_frame = on_frame
        self._on_gone = on_gone
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._process: StartedProcess | None = None
        self._unread: socket.socket | None = None
        self.sent = 0
        self.received = 0

    @classmethod
    async def spawn(
        cls,
        module: str,
        on_frame: Callable[[bytes], None],
        on_gone: Callable[[], None] | None = None,
        pass_fds: tuple[int, ...] = (),
        arguments: tuple[str, ...] = (),
        brood: str = "",
    ) -> Child:
        """Starts `python -m module FD HOSTPID ...` in the host's own process group.

        Children that import the same name the same `brood`: a `ForkServer` that has
        imported it forks them. Without a name, or where no server can, the child is an
        interpreter of its own.
        """
        child = cls(on_frame, on_gone)
        child._process, ours = await fork(brood, module, arguments, pass_fds) or _started(
            module, arguments, pass_fds
        )
        try:
            loop = asyncio.get_running_loop()
            # Before the transport owns the socket: see `_read_on`
            child._unread = ours.dup()
            await loop.create_unix_connection(lambda: child, sock=ours)
        except BaseException:
            child.kill()
            child._process.wait()
            ours.close()
            raise
        return child

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._transport is not None

    @property
    def returncode(self) -> int | None:
        return self._process.returncode if self._process else None

    @property
    def death(self) -> str:
        """How it ended, such as `signal 9` or `exit status 1`."""
        code = self.returncode
        if code is None:
            return "it is gone"
        return f"signal {-code}" if code < 0 else f"exit status {code}"

    def send(self, payload: bytes) -> None:
        """Queues one frame; frames to a child that is gone are dropped."""
        if self._transport is not None and not self._transport.is_closing():
            self.sent += 1
            self._transport.write(frame(payload))

    def probe(self, payload: bytes, seconds: float, silent: Callable[[], None]) -> None:
        self.send(payload)
        self._listen(self.received, seconds / BEATS, BEATS, silent)

    def _listen(self, received: int, pause: float, beats: int, silent: Callable[[], None]) -> None:
        if not self.alive or self.received > received:
            return
        if beats == 0:
            silent()
            return
        loop = asyncio.get_running_loop()
        # A timer that is late comes before frames that wait to be read, so one silent timer proves
        # nothing
        loop.call_later(pause, self._listen, received, pause, beats - 1, silent)

    def kill(self) -> None:
        """Ends the child at once. Safe to call at any time and twice."""
        # Not waited for, so the number is still this child's and cannot have been given away
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                # SIGKILL, for a child in the middle of somebody's C code listens to nothing else
                self._process.send_signal(signal.SIGKILL)
        if self._transport is not None:
            self._transport.abort()
        self._forget_unread()

    async def reap(self) -> None:
        """Waits until the child is gone and its exit status is collected; a second call
        returns at once."""
        if self._process is None or self._process.poll() is not None:
            return
        await _exited(self._process)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass

    def data_received(self, data: bytes) -> None:
        for payload in self._frames.feed(data):
            self.received += 1
            self._on_frame(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        try:
            if isinstance(exc, ConnectionError):
                self._read_on()
        finally:
            self._forget_unread()
            if self._on_gone is not None:
                self._on_gone()

    def _read_on(self) -> None:
        """Reads what a dead child had said: a transport that cannot write does not read
        either.

        A child that sends its last frame and dies while the host writes to it resets the
        connection, and asyncio then drops what was received. The duplicate `_unread` of the
        socket still has it.
        """
        while data := self._rest():
            self.data_received(data)

    def _rest(self) -> bytes:
        try:
            return self._unread.recv(READ_BYTES) if self._unread else b""
        except OSError:
            return b""

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.close()
            self._unread = None


def _started(
    module: str, arguments: tuple[str, ...], pass_fds: tuple[int, ...]
) -> tuple[StartedProcess, socket.socket]:
    """An interpreter of its own that runs the module, and the channel to it."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            identity = (str(theirs.fileno()), str(os.getpid()))
            ours.setblocking(False)
            # A fork costs a millisecond or two; a thread for it would be what PDEATHSIG watches
            process = start(module, (*identity, *arguments), (theirs.fileno(), *pass_fds))
    except BaseException:
        ours.close()
        raise
    return process, ours


async def _exited(process: StartedProcess) -> None:
    loop = asyncio.get_running_loop()
    if not hasattr(os, "pidfd_open"):  # macOS
        while process.poll() is None:  # noqa: ASYNC110  # nothing tells us there
            await asyncio.sleep(0.005)
        return
    fd = os.pidfd_open(process.pid)
    try:
        gone = asyncio.Event()
        loop.add_reader(fd, gone.set)
        try:
            while process.poll() is None:
                await gone.wait()
        finally:
            loop.remove_reader(fd)
    finally:
        os.close(fd)
