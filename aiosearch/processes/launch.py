"""The start of `python -m MODULE` as a child: its command line and environment, and its handle.

`start` gives a `subprocess.Popen`, `ForkedChild` has as much of its interface as `StartedProcess`
names, and `inherited` says whether a forked child would have what a started one has.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


def command(module: str, *options: str) -> list[str]:
    """The command that runs `module`; `-P` keeps the folder where we are off its path, unless
    it is on ours."""
    return [sys.executable, "-P", *options, "-m", module]


def environment() -> dict[str, str]:
    """This process's environment, with its `search_path`."""
    return {**os.environ, "PYTHONPATH": search_path()}


def search_path() -> str:
    """What the child may import is what this process may; an empty entry means where we are now."""
    folders = [path for path in sys.path if path]
    if "" in sys.path:
        with contextlib.suppress(FileNotFoundError):  # the folder was deleted
            folders.insert(sys.path.index(""), os.getcwd())
    return os.pathsep.join(folders)


LATE = ("OLDPWD", "PWD", "PYTEST_CURRENT_TEST", "XDG_CACHE_HOME")
"""Variables that no module reads while it is imported: those that often change, tests' included."""
_STATUS = (
    "Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapBnd",
    "CapAmb", "NoNewPrivs", "Seccomp", "Cpus_allowed", "Mems_allowed",
)  # fmt: skip
# Read as text and compared: a child whose limits, namespaces or affinity differ would behave
# otherwise than a process that the host starts now
_FILES = ("limits", "cgroup", "oom_score_adj")
_LINKS = ("cgroup", "ipc", "mnt", "net", "pid_for_children", "user", "uts")


class StartedProcess(Protocol):
    """A child process, as the operating system's parent of it sees it."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int | None: ...

    def send_signal(self, number: int, /) -> None: ...


def start(
    module: str, arguments: tuple[str, ...], files: tuple[int, ...], output: int | None = None
) -> subprocess.Popen[bytes]:
    """Starts `python -m module ...` in the host's own process group; raises `OSError`."""
    with _sigint_held():
        return subprocess.Popen(
            [*command(module, "-u"), *arguments],
            pass_fds=files,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(),
        )


def inherited() -> tuple[object, ...]:
    """All that a child has from its host but the variables in `LATE`, files and folder. Linux
    only."""
    variables = frozenset((name, os.environ[name]) for name in os.environ if name not in LATE)
    status = Path("/proc/thread-self/status").read_text().splitlines()
    return (
        sys.executable,
        search_path(),
        variables,
        tuple(line for line in status if line.partition(":")[0] in _STATUS),
        tuple(Path("/proc/self", name).read_bytes() for name in _FILES),
        tuple(os.readlink(f"/proc/self/ns/{name}") for name in _LINKS),
        os.readlink("/proc/self/root"),
        (os.getpgrp(), os.getsid(0)),
        (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)),
    )


@contextlib.contextmanager
def _sigint_held() -> Iterator[None]:
    """Lets a child begin with SIGINT blocked, so that Ctrl-C cannot end it before it ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ForkedChild:
    """A child of this process that a `ForkServer` has forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._collect(os.WNOHANG)

    def wait(self) -> int | None:
        return self._collect(0)

    def send_signal(self, number: int, /) -> None:
        """Signals the child, never another process: until it is waited for, the number is
        its own."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _collect(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # as subprocess has it where somebody else has waited
                self.returncode = 0
                return 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode
