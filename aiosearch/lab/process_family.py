"""CPU time of all processes that descend from this one, agents' workers included."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..pool import resident_bytes

SAMPLE_SECONDS = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> Iterator[int]:
    """The processes that descend from `pid`; none where the system does not list them."""
    for task in _listed(Path(f"/proc/{pid}/task")):
        with suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                # Depth first, and each level read anew: processes come and go meanwhile
                yield child
                yield from descendants(child)


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process until now; 0 where `pid` is gone or its times cannot be read."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    return 0.0


def arguments(pid: int) -> list[str]:
    """The command line of a process; empty where `pid` is gone or it cannot be read."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


class Family:
    """Watches the processes that this one has started; `peak` is the most memory that they ever
    occupied."""

    def __init__(self) -> None:
        self.peak = 0
        # Processes that were there before count from now on only
        self._before = {pid: cpu_seconds(pid) for pid in descendants(os.getpid())}

    @property
    def cpu(self) -> float:
        """CPU seconds since the start of watching, of those that still live."""
        return sum(map(self._spent, descendants(os.getpid())))

    def cpu_of(self, module: str) -> tuple[float, ...]:
        """CPU seconds of each process that runs as `python -m MODULE`."""
        mine = (pid for pid in descendants(os.getpid()) if module in arguments(pid))
        return tuple(map(self._spent, mine))

    async def watch(self) -> None:
        """Calls `look` every `SAMPLE_SECONDS`, until it is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(SAMPLE_SECONDS)

    def look(self) -> None:
        self.peak = max(self.peak, sum(map(resident_bytes, descendants(os.getpid()))))

    def _spent(self, pid: int) -> float:
        return cpu_seconds(pid) - self._before.get(pid, 0.0)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
