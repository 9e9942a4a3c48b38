"""What it costs to hand one task to a worker and have it back, through the whole engine.

Ten thousand leaves travel one by one: strategy, books, frame, socket, worker, exploration, report,
books. Beside it, in the same run, ProcessPoolExecutor with a function that does nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import uvloop
from lib.figures import figure, spread

from aiosearch import Search
from aiosearch.strategies import API, Assign, Command, Event, Idle, Opened, Plan
from aiosearch.workloads.shapes import Tiny

TARGET = 60.0


class OneByOne:
    """Splits the root into its children and hands them to the only seat, one at a time."""

    api = API

    def start(self, plan: Plan) -> None:
        self.tasks: list[int] = []
        self.times: list[float] = []
        self._handed = 0.0
        self._split = False

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Opened(tasks=tasks):
                self.tasks += [task.id for task in tasks]
            case Idle() if self.tasks and not self._split:
                self._split = True
                yield Assign(0, (self.tasks.pop(),), depth=1)
            case Idle() if self.tasks:
                now = time.perf_counter()
                if self._handed:
                    self.times.append(now - self._handed)
                self._handed = now
                yield Assign(0, (self.tasks.pop(),))


async def through_engine() -> list[float]:
    strategy = OneByOne()
    async with Search(Tiny(10_000), workers=1, strategy=strategy) as search:
        await search.wait()
    return [seconds * 1e6 for seconds in strategy.times]


def nothing() -> None:
    return


def through_executor() -> list[float]:
    times = []
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        executor.submit(nothing).result()
        for _ in range(5_000):
            start = time.perf_counter()
            executor.submit(nothing).result()
            times.append((time.perf_counter() - start) * 1e6)
    return times


def main() -> None:
    found = {}
    for name, loop in (("asyncio", asyncio.new_event_loop), ("uvloop", uvloop.new_event_loop)):
        runs = []
        for _ in range(5):
            with asyncio.Runner(loop_factory=loop) as runner:
                runs.append(statistics.median(runner.run(through_engine())))
        found[name] = runs
    # Last, because its threads and pipes slow down what comes after it in this process
    executor = statistics.median(through_executor())
    for name, runs in found.items():
        figure(
            f"round trip of one task to a worker, {name}",
            statistics.median(runs),
            "us",
            target=TARGET,
            runs=spread(runs),
            process_pool_executor=round(executor, 1),
        )


if __name__ == "__main__":
    main()
