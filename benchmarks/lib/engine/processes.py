"""Looking at other processes, and killing them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def cpu_of(pid: int) -> float:
    """CPU seconds of a process, to the nanosecond: Linux numbers their clocks like this."""
    return time.clock_gettime(~pid << 3 | 2)


def children_of(host: int, module: str) -> list[int]:
    """The processes that a host has started with `python -m module`."""
    try:
        children = Path(f"/proc/{host}/task/{host}/children").read_text().split()
    except OSError:
        return []
    return [int(pid) for pid in children if module in command_of(int(pid))]


def wait_until(host: subprocess.Popen[bytes], true: Callable[[], object]) -> None:
    """Waits for something to be true of a process, until it is gone, or half a minute."""
    end = time.monotonic() + 30
    while host.poll() is None and time.monotonic() < end and not true():
        time.sleep(0.005)


def kill_child(host: int, module: str) -> bool:
    """Kills one of them; says whether there was one."""
    victims = children_of(host, module)
    if victims:
        os.kill(victims[time.monotonic_ns() % len(victims)], signal.SIGKILL)
    return bool(victims)


def alive_in_group(group: int) -> list[int]:
    """The processes of a group that run: zombies are gone for our purposes."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] not in "ZX":
                found.append(int(entry))
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""
