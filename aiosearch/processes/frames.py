r"""Length-prefixed frames over a socket pair, for the host and for the child.

A frame is four bytes of length, little-endian, and the payload: `frame(b"hi")` is
`b"\x02\0\0\0hi"`. `Frames` puts a stream's pieces together again, however they were cut.

The search workers and the z3 processes are both children of the host. Their side, `Channel`, is
plain blocking code, because a process that computes has no use for an event loop; nor does this
module import one, for a child's start is on somebody's clock.

`enter_child` ties a child's life to its host's, in two ways, because neither is enough: the kernel
kills it when the thread that started it ends (which a host that forks and goes on would miss), and
a thread waits for the socket to be closed (which a stopped process would not notice).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import threading

HEADER = 4
MAX_FRAME = 64 * 1024
"""Bytes that senders aim at: longer messages are cut into parts by whoever builds them."""
HARD_LIMIT = 256 * 1024 * 1024
"""A single node may be large; a length beyond this many bytes is not a frame."""
FORK_REPLY = struct.Struct("=i")
"""What a fork server says of a child before there are frames: `READY`, then its id; or
`FORK_REFUSED`."""
READY, FORK_REFUSED = 0, -1


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
            # Before memory is taken for it: a stream that is out of step would ask for gigabytes
            if length > HARD_LIMIT:
                raise ValueError(f"a frame of {length} bytes is not a frame")
            end = start + HEADER + length
            if end > size:
                break
            frames.append(bytes(buffer[start + HEADER : end]))
            start = end
        # Once for all frames: deleting from the front moves what is behind it
        if start:
            del buffer[:start]
        return frames


class Channel:
    """The child's side: blocking sends, receives with a time-out."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._with_bell: select.epoll | None = None
        self._frames = Frames()

    def send(self, payload: bytes) -> None:
        self._socket.sendall(frame(payload))

    def hear(self, bell: int) -> None:
        """Makes it possible to wait for a `Bell` as well."""
        self._with_bell = select.epoll()
        self._with_bell.register(self._socket.fileno(), select.EPOLLIN)
        # One ring is for one: of all that wait, the kernel wakes the first
        self._with_bell.register(bell, select.EPOLLIN | select.EPOLLEXCLUSIVE)

    def await_bell(self, seconds: float | None = None) -> bool:
        """Waits until there are frames, the bell or the time-out; says whether it is the bell."""
        assert self._with_bell is not None
        events = self._with_bell.poll(seconds)
        return bool(events) and all(fd != self._socket.fileno() for fd, _ in events)

    def receive(self, seconds: float | None = None) -> list[bytes]:
        """Gives the frames that are there, waiting up to `seconds` (None: for ever) for
        some.

        Raises `EOFError` when the host is gone.
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

    Ctrl-C and SIGTERM are the host's business: they reach the whole process group, and a worker
    that died of them could not hand in what it found.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the host started us with it held
    fd, host, *arguments = sys.argv[1:]
    channel = Channel(int(fd))
    die_with_host(int(host))
    threading.Thread(target=_watch_for_hangup, args=(channel.fileno(),), daemon=True).start()
    return channel, arguments


def die_with_host(host: int) -> None:
    """Has the kernel end this process when the thread of the host ends that has started it."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != host:  # it died before we asked
        os._exit(1)


def _watch_for_hangup(fd: int) -> None:
    """Ends the process when the host closes the socket, also in the middle of a long `expand`."""
    poll = select.poll()
    poll.register(fd, getattr(select, "POLLRDHUP", 0))
    while True:
        for _, event in poll.poll():
            if event & (select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)):
                os._exit(1)
