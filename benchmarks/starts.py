"""What it takes to start a process that needs jax, z3 or the engine: forked by a nursery, or not.

    python benchmarks/starts.py [--repeats 15]

In turns: a worker and a z3 process until they say that they are ready, and an executor with one
compiler until it is open, which are two processes. CPU seconds are those of all processes that took
part, the nursery's included. The first start is one that finds no nursery.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

from lib.engine.processes import cpu_of
from lib.figures import figure, spread

from aiosearch.checks import solver_process as z3
from aiosearch.engine.worker import slots
from aiosearch.measure.host.jax_executor import JaxExecutor
from aiosearch.processes.child import Child
from aiosearch.processes.fork_client import live_fork_servers

Start = Callable[[], Awaitable[None]]


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
    """CPU seconds of the children that are gone, and of the nurseries that are not."""
    gone = resource.getrusage(resource.RUSAGE_CHILDREN)
    return gone.ru_utime + gone.ru_stime + sum(cpu_of(one.pid) for one in live_fork_servers())


async def timed(start: Start) -> tuple[float, float]:
    """Milliseconds on the clock until it is there, and of CPU until it is gone."""
    before, begun = cpu(), time.perf_counter()
    await start()
    return 1e3 * (stopped[-1] - begun), 1e3 * (cpu() - before)


async def without(*_: Any) -> None:
    """A nursery that has nothing."""


async def compared(name: str, start: Start, repeats: int) -> None:
    first = await timed(start)
    forked, started = [], []
    for _ in range(repeats):
        forked.append(await timed(start))
        with patch("aiosearch.processes.child.fork", without):
            started.append(await timed(start))
    for at, kind in enumerate(("clock", "CPU")):
        ours, theirs = ([each[at] for each in some] for some in (forked, started))
        usual = statistics.median(theirs)
        more = {"without": round(usual, 3), "first": round(first[at], 3), "runs": spread(ours)}
        figure(f"starting {name}, {kind}", statistics.median(ours), "ms", **more)


async def main(repeats: int) -> None:
    for name, start in STARTS.items():
        await compared(name, start, repeats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    asyncio.run(main(parser.parse_args().repeats))
