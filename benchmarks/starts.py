"""What it takes to start a process that needs jax, z3 or the engine, with a fork server or without.

    python benchmarks/starts.py [--repeats 15] [--of 'a worker' 'a z3 process' 'an executor']

In turns: a worker and a z3 process until they say that they are ready, and an executor with one
compiler until it is open, which are two processes. CPU seconds are those of all processes that took
part, the fork server's included. The first start is one that finds no fork server.

`plain` is a fork server without `sibling_fork`: its children are its own, and the host's
grandchildren. What the host learns of their deaths is counted, and how many outlive their server,
which ends by itself where children are the host's and otherwise has to stay, in so much memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

from lib.engine.plain_fork import plain_fork
from lib.engine.processes import cpu_of
from lib.figures import figure, spread

from aiosearch.checks import solver_process as z3
from aiosearch.engine.worker import slots
from aiosearch.measure.host.jax_executor import JaxExecutor
from aiosearch.pool import resident_bytes
from aiosearch.processes.child import Child
from aiosearch.processes.fork_client import fork, live_fork_servers

Start = Callable[[], Awaitable[None]]

DEATHS = 20


async def child(module: str, brood: str, arguments: tuple[str, ...]) -> None:
    """One process, from its start until it has said something and is gone."""
    heard = asyncio.Event()
    one = await Child.spawn(
        module, lambda frame: heard.set(), heard.set, arguments=arguments, brood=brood
    )
    await heard.wait()
    stopped.append(time.perf_counter())
    one.kill()
    await one.reap()


async def worker() -> None:
    await child(slots.MODULE, slots.BROOD, ())


async def solver() -> None:
    await child(z3.MODULE, z3.BROOD, ("5", "500"))


async def executor() -> None:
    async with JaxExecutor("cpu", compilers=1):
        stopped.append(time.perf_counter())


stopped: list[float] = []
STARTS: dict[str, Start] = {"a worker": worker, "a z3 process": solver, "an executor": executor}


def cpu() -> float:
    """CPU seconds of the children that are gone, and of the fork servers that are not."""
    gone = resource.getrusage(resource.RUSAGE_CHILDREN)
    return gone.ru_utime + gone.ru_stime + sum(cpu_of(one.pid) for one in live_fork_servers())


async def timed(start: Start) -> tuple[float, float]:
    """Milliseconds on the clock until it is there, and of CPU until it is gone."""
    before, begun = cpu(), time.perf_counter()
    await start()
    return 1e3 * (stopped[-1] - begun), 1e3 * (cpu() - before)


async def without(*_: Any) -> None:
    """A fork server that has nothing."""


async def compared(name: str, start: Start, repeats: int) -> None:
    first = await timed(start)
    forked, started, plain = [], [], []
    for _ in range(repeats):
        forked.append(await timed(start))
        with patch("aiosearch.processes.child.fork", plain_fork):
            plain.append(await timed(start))
        with patch("aiosearch.processes.child.fork", without):
            started.append(await timed(start))
    for at, kind in enumerate(("clock", "CPU")):
        ours, theirs = ([each[at] for each in some] for some in (forked, started))
        usual = statistics.median(theirs)
        more = {"without": round(usual, 3), "first": round(first[at], 3), "runs": spread(ours)}
        if kind == "clock":  # the CPU time of grandchildren is the server's to know
            more["plain"] = spread([milliseconds for milliseconds, _ in plain[1:]])
        figure(f"starting {name}, {kind}", statistics.median(ours), "ms", **more)


async def ends(way: str, forking: Any) -> None:
    """Kills workers, and then the server of some more."""
    known = outlived = 0
    with patch("aiosearch.processes.child.fork", forking):
        for _ in range(DEATHS):
            victim = await spawned()
            os.kill(victim.pid, signal.SIGKILL)
            await victim.reap()
            known += victim.returncode == -signal.SIGKILL
        survivors = [await spawned() for _ in range(DEATHS)]
    servers = live_fork_servers()
    memory = max(resident_bytes(server.pid) for server in servers)
    for server in servers:
        server.end()
    await asyncio.sleep(0.2)  # for the kernel to end the children of the dead
    for survivor in survivors:
        outlived += survivor.alive
        survivor.kill()
        await survivor.reap()
    figure(f"deaths of which the host learns the signal, {way}", known / DEATHS, "ratio")
    figure(f"workers that outlive their fork server, {way}", outlived / DEATHS, "ratio")
    figure(f"memory of the fork servers' largest, {way}", memory / 1e6, "MB")


async def spawned() -> Child:
    """A worker that has said that it is there."""
    heard = asyncio.Event()
    started = await Child.spawn(slots.MODULE, lambda frame: heard.set(), brood=slots.BROOD)
    await heard.wait()
    return started


async def main(repeats: int, names: list[str]) -> None:
    for name in names:
        await compared(name, STARTS[name], repeats)
    await ends("siblings", fork)
    await ends("plain", plain_fork)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--of", nargs="+", choices=list(STARTS), default=list(STARTS))
    options = parser.parse_args()
    asyncio.run(main(options.repeats, options.of))
