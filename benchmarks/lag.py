"""How long the engine holds up the host's event loop: 8 workers, 10**6 open nodes, progress on.

A probe sleeps a millisecond at a time and notes how late it wakes. It runs first beside eight
processes that only compute (what a machine with so many of them does to a loop anyway), then
beside a breadth-first search through each phase of its life: start, growth to a million open
nodes, snapshots of the journal, cancel, resume. What the engine adds is the difference.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lib.figures import figure

from aiosearch import Search
from aiosearch.engine.journal import journal as journal_module
from aiosearch.events import AnyEvent
from aiosearch.workloads.uts import TREES

TARGET_MS = 5.0
WORKERS = 8
OPEN = 1_000_000
BUSY = "while True: sum(range(1000))"


class Probe:
    """Notes by how much a sleeping task oversleeps."""

    def __init__(self) -> None:
        self.late: list[float] = []

    async def run(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self.late.append((time.perf_counter() - before - 0.001) * 1000)

    def percentile(self, share: float) -> float:
        late = sorted(self.late)
        return late[min(int(len(late) * share), len(late) - 1)]


@asynccontextmanager
async def probed(phase: str, baseline: float | None) -> AsyncIterator[Probe]:
    probe = Probe()
    task = asyncio.get_running_loop().create_task(probe.run())
    try:
        yield probe
    finally:
        task.cancel()
        figure(
            f"loop lag, 99th percentile: {phase}",
            probe.percentile(0.99),
            "ms",
            added=None if baseline is None else round(probe.percentile(0.99) - baseline, 3),
            target=None if baseline is None else TARGET_MS,
            median=round(probe.percentile(0.5), 3),
            worst=round(max(probe.late), 2),
            samples=len(probe.late),
        )


async def machine_alone() -> float:
    """The lag beside processes that have nothing to do with the engine."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(WORKERS)]
    try:
        await asyncio.sleep(1)
        async with probed(f"{WORKERS} unrelated busy processes (baseline)", None) as probe:
            await asyncio.sleep(8)
        return probe.percentile(0.99)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def listen(event: AnyEvent) -> None:
    """Makes progress events flow."""


def open_search(path: Path, resume: bool) -> Search[tuple[int, bytes], tuple[int, bytes]]:
    return Search(
        TREES["T1L"].problem,
        order="breadth-first",
        workers=WORKERS,
        journal=path,
        resume=resume,
        on=listen,
        progress_seconds=0.25,
    )


async def until_open(search: Search[tuple[int, bytes], tuple[int, bytes]], count: int) -> None:
    while search.statistics().open < count:
        await asyncio.sleep(0.05)


async def phases(path: Path, baseline: float) -> None:
    search = open_search(path, resume=False)
    async with probed("start, and growth to a million open nodes", baseline):
        await search.__aenter__()
        await until_open(search, OPEN)
    async with probed("a million open nodes, journal snapshots", baseline):
        await asyncio.sleep(10)
    async with probed("cancel", baseline):
        await search.__aexit__(None, None, None)
        await asyncio.sleep(0.2)
    search = open_search(path, resume=True)
    async with probed("resume of a million open nodes", baseline):
        await search.__aenter__()
        await asyncio.sleep(5)
        await search.__aexit__(None, None, None)


async def main() -> None:
    journal_module.COMPACT_BYTES = 1024 * 1024  # snapshots as often as can be
    baseline = await machine_alone()
    with tempfile.TemporaryDirectory() as folder:
        await phases(Path(folder) / "lag.journal", baseline)


if __name__ == "__main__":
    asyncio.run(main())
