"""How long a search takes to be gone, with every process: from cancelling it, and from leaving it.

    python benchmarks/cancel.py [--quick]

The clock stops when no process is left, not even a zombie. The searches are busy exploring, hold z3
processes that think, or have a worker that computes in `expand` for a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from lib.engine.endless_searches import Doubling, Doubtful, Stuck
from lib.figures import figure, spread

from aiosearch import Search
from aiosearch.events import AnyEvent, TaskAssigned, WorkerJoined, WorkReported

TARGET_MS = 100.0
STUCK_SECONDS = 0.2
"""From the moment when a worker has work; it is stuck by then."""


PATIENCE = 20.0
TASK_SECONDS = 1.0


class Watch:
    """A hook that knows the processes, and what has happened."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.assigned = self.reported = False

    def __call__(self, event: AnyEvent) -> None:
        match event:
            case WorkerJoined(pid=pid):
                self.pids.append(pid)
            case TaskAssigned():
                self.assigned = True
            case WorkReported(nodes=nodes):
                self.reported |= nodes > 0


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.005)


async def exploring(search: Search[Any, Any], watch: Watch) -> None:
    await until(lambda: watch.reported)


async def stuck(search: Search[Any, Any], watch: Watch) -> None:
    await until(lambda: watch.assigned)
    await asyncio.sleep(STUCK_SECONDS)


async def asking(search: Search[Any, Any], watch: Watch) -> None:
    """Waits until every z3 process has a question; then their ids are known too."""

    def all_busy() -> bool:
        checks = search.statistics().checks
        return checks is not None and checks.in_flight >= len(watch.pids)

    await until(all_busy)
    await asyncio.sleep(STUCK_SECONDS)


SITUATIONS: dict[str, tuple[Any, Any]] = {
    "exploring": (Doubling(), exploring),
    "z3 thinking": (Doubtful(), asking),
    "a worker stuck in expand": (Stuck(), stuck),
}


async def cancelled(problem: Any, ready: Any, workers: int) -> float:
    """Cancels the task that a search runs in."""
    watch = Watch()
    go = asyncio.Event()

    async def body() -> None:
        async with Search(problem, workers=workers, on=watch, cache=None) as search:
            await ready(search, watch)
            go.set()
            await search.wait()

    task = asyncio.create_task(body())
    await go.wait()
    started = time.perf_counter()
    task.cancel()
    await asyncio.wait([task])
    return gone(started)


async def left(problem: Any, ready: Any, workers: int) -> float:
    """Leaves the block."""
    watch = Watch()
    async with Search(problem, workers=workers, on=watch, cache=None) as search:
        await ready(search, watch)
        started = time.perf_counter()
    return gone(started)


def gone(started: float) -> float:
    """Gives the milliseconds until there is no child, dead or alive: there should be none now."""
    while time.perf_counter() - started < PATIENCE:
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return (time.perf_counter() - started) * 1e3
    raise SystemExit("a search left processes behind")


WAYS = {"cancelling the task": cancelled, "leaving the block": left}


def sleep_long(_: int) -> None:
    time.sleep(TASK_SECONDS)


def executor_gone(workers: int) -> float:
    """What a ProcessPoolExecutor takes: a task that has begun cannot be cancelled."""
    with ProcessPoolExecutor(workers, get_context("spawn")) as executor:
        list(executor.map(abs, range(workers)))
        for _ in range(3 * workers):
            executor.submit(sleep_long, 0)
        time.sleep(STUCK_SECONDS)
        started = time.perf_counter()
        executor.shutdown(cancel_futures=True)
    return (time.perf_counter() - started) * 1e3


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def show(name: str, times: list[float], **more: Any) -> None:
    figure(
        f"time until everything is gone: {name}",
        percentile(times, 0.5),
        "ms",
        p99=round(percentile(times, 0.99), 2),
        most=round(max(times), 2),
        runs=spread(times),
        **more,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    repeats = options.repeats or (3 if options.quick else 50)
    for situation, (problem, ready) in SITUATIONS.items():
        for workers in (2, 8):
            times: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(repeats):
                for way, run in WAYS.items():
                    times[way].append(asyncio.run(run(problem, ready, workers)))
            for way in WAYS:
                show(f"{situation}, {workers} workers, {way}", times[way], target=TARGET_MS)
    for workers in (2, 8):
        seconds = [executor_gone(workers) for _ in range(min(repeats, 5))]
        name = f"ProcessPoolExecutor, tasks of {TASK_SECONDS:g} s, {workers} workers"
        show(name, seconds, compared="concurrent.futures")


if __name__ == "__main__":
    main()
