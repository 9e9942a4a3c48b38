"""Killable child processes that speak length-prefixed frames over a socket pair.

The search workers and the z3 processes are both children. The host side is an asyncio protocol;
the child side is plain blocking code, because a process that computes has no use for a loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

HEADER = 4
MAX_FRAME = 64 * 1024
"""What senders aim at: longer messages are cut into parts by whoever builds them."""
HARD_LIMIT = 256 * 1024 * 1024
"""A single node may be large; a length beyond this is not a frame."""


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(HEADER, "little") + payload


class Frames:
    """Cuts a stream of bytes into the frames it holds."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        buffer = self._buffer
        buffer += data
        frames = []
        start = 0
        size = len(buffer)
        while size - start >= HEADER:
            length = int.from_bytes(buffer[start : start + HEADER], "little")
            if length > HARD_LIMIT:
                raise ValueError(f"a frame of {length} bytes is not a frame")
            end = start + HEADER + length
            if end > size:
                break
            frames.append(bytes(buffer[start + HEADER : end]))
            start = end
        if start:
            del buffer[:start]
        return frames


class Child(asyncio.Protocol):
    """The host's handle on one child process.

    `on_frame` gets every frame; `on_gone` is called once, when the child has closed its side (it
    exited, crashed or was killed). `reap` returns when the operating system has let go of it.
    """

    def __init__(
        self, on_frame: Callable[[bytes], None], on_gone: Callable[[], None] | None = None
    ) -> None:
        self._on_frame = on_frame
        self._on_gone = on_gone
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
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
    ) -> Child:
        """Starts `python -m module FD ...` in the host's own process group."""
        ours, theirs = socket.socketpair()
        child = cls(on_frame, on_gone)
        try:
            ours.setblocking(False)
            child._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno()), str(os.getpid()), *arguments],
                pass_fds=(theirs.fileno(), *pass_fds),
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: child, sock=ours)
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

    def send(self, payload: bytes) -> None:
        """Queues one frame; frames to a child that is gone are dropped."""
        if self._transport is not None:
            self.sent += 1
            self._transport.write(frame(payload))

    def kill(self) -> None:
        """Ends the child at once. Safe to call at any time and twice."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
        if self._transport is not None:
            self._transport.abort()

    async def reap(self) -> None:
        """Waits until the child is gone and its exit status is collected."""
        if self._process is None or self._process.poll() is not None:
            return
        await _exited(self._process)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for payload in self._frames.feed(data):
            self.received += 1
            self._on_frame(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._on_gone is not None:
            self._on_gone()


async def _exited(process: subprocess.Popen[bytes]) -> None:
    loop = asyncio.get_running_loop()
    if not hasattr(os, "pidfd_open"):  # macOS
        while process.poll() is None:
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


class Channel:
    """The child's side: blocking sends, receives with a time-out."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._frames = Frames()

    def send(self, payload: bytes) -> None:
        self._socket.sendall(frame(payload))

    def receive(self, seconds: float | None = None) -> list[bytes]:
        """Gives the frames that are there, waiting up to `seconds` (None: for ever) for some.

        Raises EOFError when the host is gone.
        """
        frames: list[bytes] = []
        while not frames:
            if not self._poll.poll(None if seconds is None else seconds * 1000):
                return frames
            data = self._socket.recv(256 * 1024)
            if not data:
                raise EOFError
            frames = self._frames.feed(data)
        return frames

    def fileno(self) -> int:
        return self._socket.fileno()


def enter_child() -> tuple[Channel, list[str]]:
    """Called first in a child: ties its life to the host's and gives its channel and arguments.

    Ctrl-C is the host's business: it reaches the whole process group, and a worker that died of it
    could not hand in what it found.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    fd, host, *arguments = sys.argv[1:]
    channel = Channel(int(fd))
    _die_with_host(int(host))
    threading.Thread(target=_watch_for_hangup, args=(channel.fileno(),), daemon=True).start()
    return channel, arguments


def _die_with_host(host: int) -> None:
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != host:  # it died before we asked
        os._exit(1)


def _watch_for_hangup(fd: int) -> None:
    """Ends the process when the host closes the socket, also in the middle of a long expand."""
    poll = select.poll()
    poll.register(fd, getattr(select, "POLLRDHUP", 0))
    while True:
        for _, event in poll.poll():
            if event & (select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)):
                os._exit(1)
