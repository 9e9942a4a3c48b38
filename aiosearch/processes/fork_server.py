"""The fork server's process: `python -m aiosearch.processes.fork_server FD HOSTPID SECONDS`.

It imports what children need, once, and forks whenever one is asked for; `fork_client` shows the
steps. This is safe where a fork of the host would not be: nothing but imports happens here, no
device is opened and no backend of JAX made, so that there is one thread only, and no lock that a
child would find held by another.

That is not taken for granted. Invariants, checked before every fork: one thread (`has_one_thread`);
no open file but the server's own (`open_files`); room for the child's files. Where one does not
hold, nothing is forked, the host hears `FORK_REFUSED` and starts its child as a process of its own.

A child's files come as numbers above all that are wanted and are then put where its arguments name
them: with files 5 and 9 to become 4 and 5, a plain `dup2(5, 4); dup2(9, 5)` is right, but `dup2(9,
5)` first would lose file 5; see `place`.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import itertools
import json
import os
import resource
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from .frames import FORK_REFUSED, FORK_REPLY, HEADER, READY, die_with_host
from .sibling_fork import Cloner, has_one_thread

MOST_FILES = 64


class ForkServerProcess:
    """Serves until the host closes the socket, or asks for nothing for so many `seconds`."""

    def __init__(self, door: socket.socket, seconds: float) -> None:
        self._door = door
        self._seconds = seconds
        self._cloner = Cloner()
        self._prepared: set[str] = set()
        self._alone = True

    def serve(self) -> str | None:
        """Gives the name of the module that is to run, in each child; None at the end of
        the server."""
        knocks = select.poll()
        knocks.register(self._door, select.POLLIN)
        while knocks.poll(self._seconds * 1000):
            name, files, _, _ = socket.recv_fds(self._door, 1024, 1)
            if not files:
                return None
            channel = socket.socket(fileno=files[0])
            if self._attend(name.decode(), channel):
                return name.decode()
            channel.close()
            os.chdir("/")
        return None

    def _attend(self, module: str, channel: socket.socket) -> bool:
        """Serves one request; whether this process is the child."""
        files: list[int] = []
        try:
            self._prepare(module, channel)
            channel.send(FORK_REPLY.pack(READY))
            order = _order(channel, files)
            return order is not None and self._fork(order, channel, files)
        except Exception:  # a library that does not load raises what it likes
            _refuse(channel)
            return False
        finally:
            for file in files:
                os.close(file)

    def _prepare(self, name: str, channel: socket.socket) -> None:
        """Imports a module, and what its `prepare` says that it will need."""
        if not self._alone:
            raise OSError("a library has started a thread")
        if name in self._prepared:
            return
        try:
            module: Any = importlib.import_module(name)
            if hasattr(module, "prepare"):
                module.prepare()
        except SystemExit as error:
            raise ImportError(f"{name} ends the process") from error
        # NumPy's OpenBLAS starts threads while it is imported, and ends them before a fork
        if len(os.listdir("/proc/self/task")) > 1:
            self._cloner.quieten()
        self._alone = has_one_thread()
        if not self._alone or open_files() - self._own_files(channel):
            raise OSError("a library has started a thread, or keeps a file open")
        # A collection in a child would write to every object's header and copy all of its pages
        gc.collect()
        gc.freeze()  # what is never looked at again stays shared
        self._prepared.add(name)

    def _own_files(self, channel: socket.socket) -> set[int]:
        return {0, 1, 2, self._door.fileno(), channel.fileno()}

    def _fork(self, order: dict[str, Any], channel: socket.socket, files: list[int]) -> bool:
        folder, *received = files
        numbers = order["numbers"]
        check_room(numbers)
        os.fchdir(folder)
        if not has_one_thread():
            raise OSError("a library has started a thread")
        if self._cloner.fork():
            return False
        try:
            channel.send(FORK_REPLY.pack(os.getpid()))
            place([*received, channel.fileno()], numbers)
            for socket_ in (self._door, channel):
                socket_.detach()
            files.clear()
            become(order)
        except BaseException:  # a child must not serve as a fork server
            traceback.print_exc()
            os._exit(1)
        return True


def _refuse(channel: socket.socket) -> None:
    try:
        channel.send(FORK_REPLY.pack(FORK_REFUSED))
    except OSError:
        return


def _order(channel: socket.socket, files: list[int]) -> dict[str, Any] | None:
    """What the child is to be; None where the host has given it up. Received `files` are added,
    also when this raises."""
    data = b""
    while len(data) < HEADER or len(data) < HEADER + int.from_bytes(data[:HEADER], "little"):
        chunk, received, _, _ = socket.recv_fds(channel, 1 << 16, MOST_FILES)
        files += received
        if not chunk:
            return None
        data += chunk
    order: dict[str, Any] = json.loads(data[HEADER:])
    if len(files) != len(order["numbers"]):
        raise OSError("there is no room for so many files")
    return order


def open_files() -> set[int]:
    """The files that are open in this process, by number."""
    numbers = set()
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            os.fstat(fd)
        except OSError:  # that of the listing itself
            continue
        numbers.add(fd)
    return numbers


def check_room(numbers: list[int]) -> None:
    """Raises `OSError` where files cannot be lifted above these `numbers`."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max([*numbers, *open_files()])
    if most != resource.RLIM_INFINITY and highest + len(numbers) + 1 >= most:
        raise OSError("there is no room for so many files")


def place(files: list[int], numbers: list[int]) -> None:
    """Puts `files` where a child's arguments name them, and closes all others but its input."""
    # Two steps, by way of numbers that nobody uses: a file may be where another is to go
    above = max([*files, *numbers]) + 1
    lifted = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files]
    for file, number in zip(lifted, numbers, strict=True):
        os.dup2(file, number)
    reserved = sorted({0, *numbers})
    for reserved_number, next_ in itertools.pairwise(reserved):
        os.closerange(reserved_number + 1, next_)
    os.closerange(reserved[-1] + 1, max(open_files()) + 1)


def become(order: dict[str, Any]) -> None:
    """Sets what a process of its own would find: arguments, environment, `__main__`; all else a
    server has from its host like any child."""
    for name, value in order["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    module = sys.modules[order["module"]]
    sys.modules["__main__"] = module
    sys.argv = [module.__file__ or "", *order["arguments"]]
    rename([sys.executable, "-P", "-u", "-m", order["module"], *order["arguments"]])
    # Else all children would draw the same numbers
    if random := sys.modules.get("numpy.random"):
        random.seed()


def rename(words: list[str]) -> None:
    """Shows a command to those who list processes, as much of it as there is room for in `argv`."""
    # Fields 48 and 49 of proc(5), arg_start and arg_end, counted here behind the command's
    # parenthesis
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    line = "\0".join(words).encode(errors="surrogateescape")[: end - start - 1]
    ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


def main() -> None:
    """Serves; both SIGINT, which the host holds at the start, and SIGTERM are the host's
    business."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    door, host, seconds = sys.argv[1:4]
    die_with_host(int(host))
    module = ForkServerProcess(socket.socket(fileno=int(door)), float(seconds)).serve()
    if module is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        sys.modules[module].main()


if __name__ == "__main__":
    main()
