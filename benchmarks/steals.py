"""What it takes until an idle worker has work of which somebody has too much.

Through shared memory, another process takes what this one has laid out, and loads it: from its
look at the board until it could explore. Over TCP on loopback, a worker of another machine says
that it is idle, and the host has work ready: from that report until it has loaded the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import uvloop
from aiosearch_sockets import TcpListener
from aiosearch_stealing.board import SharedBoard
from figures import figure

from aiosearch import Search
from aiosearch.engine.bundles import ROOT, Codec
from aiosearch.engine.explorer import DepthFirstExplorer
from aiosearch.engine.reference import return_type
from aiosearch.engine.sharing import Sharing
from aiosearch.strategies import API, Assign, Command, Event, Idle, Opened, Plan
from aiosearch.workloads.queens import Queens
from aiosearch.workloads.uts import UTS

MEMORY_TARGET, LOOPBACK_TARGET = 20.0, 500.0
GIVER, TAKER = 1, 2
EXPLORED_NS = 2_000_000
TREE = UTS()
PUZZLE = Queens(9)
CUT = 5
"""The depth at which it is in some thousand pieces."""


def explorer() -> DepthFirstExplorer[Any]:
    return DepthFirstExplorer(TREE, Codec("UTS", return_type(TREE, "root")))


def sharing(exchange: Any, owner: int) -> Sharing:
    return Sharing(exchange, owner, 0, verdicts=True)


def take(path: str, connection: Connection) -> None:
    """The other process: takes what lies there whenever it is told that something does."""
    board = sharing(SharedBoard.join(path, 1, TAKER, lambda: None), TAKER)
    while connection.recv():
        mine = explorer()
        started = time.perf_counter_ns()
        bundles = board.take()
        for bundle in bundles:
            mine.load(bundle)
        nanoseconds = time.perf_counter_ns() - started
        board.told(0)  # what was taken is told of with the next report
        connection.send((nanoseconds / 1e3, sum(bundle.size for bundle in bundles)))
    board.close()


@contextmanager
def taker(path: str) -> Iterator[Connection]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=take, args=(path, theirs))
    process.start()
    yield ours
    ours.send(False)
    process.join()


def through_memory(steals: int) -> tuple[list[float], float]:
    """Microseconds of each steal, and how many subtrees were taken at a time."""
    board = SharedBoard.create(2)
    here = sharing(board.exchange(0, GIVER, lambda: None), GIVER)
    mine = explorer()
    mine.load(ROOT)
    mine.run(time.perf_counter_ns() + EXPLORED_NS, 1 << 60)
    times, sizes = [], []
    with taker(board.path) as connection:
        for steal in range(1, steals + 1):
            bundles = mine.split(1)
            assert here.enter(bundles) == []
            here.told(steal)
            here.lay_out(steal)
            connection.send(True)
            microseconds, size = connection.recv()
            times.append(microseconds)
            sizes.append(size)
            here.look()
            here.told(0)
            for bundle in bundles:
                mine.load(bundle)
    here.close()
    board.close()
    assert min(sizes) > 0
    return times, statistics.mean(sizes)


class OneByOne:
    """Cuts the root into pieces once, and deals them to the only seat, one at a time."""

    api = API

    def start(self, plan: Plan) -> None:
        self.times: list[float] = []
        self._tasks: list[int] = []
        self._dealt = 0.0
        self._cut = False

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Opened(tasks=tasks):
                self._tasks += [task.id for task in tasks]
            case Idle(seat=seat) if self._tasks and not self._cut:
                self._cut = True
                yield Assign(seat, (self._tasks.pop(),), depth=CUT)
            case Idle(seat=seat) if self._tasks:
                now = time.perf_counter()
                if self._dealt:
                    self.times.append((now - self._dealt) * 1e6)
                self._dealt = now
                yield Assign(seat, (self._tasks.pop(),))


async def over_loopback() -> tuple[list[float], float]:
    """Microseconds from one report to the next, and how many of them the worker explored."""
    strategy = OneByOne()
    listener = TcpListener()
    search = Search(PUZZLE, strategy=strategy, workers=0, listener=listener, cache=None)
    async with search:
        command = (sys.executable, "-m", "aiosearch", "worker", "--connect", listener.address)
        machine = subprocess.Popen([*command, "--workers", "1"], stderr=subprocess.DEVNULL)
        found = (await search.wait()).statistics
    await asyncio.to_thread(machine.wait)
    busy = sum(worker.busy for worker in found.workers) / len(strategy.times)
    return strategy.times, busy * 1e6


def show(name: str, times: list[float], target: float, **more: Any) -> None:
    figure(
        f"steal from a published surplus, {name}",
        statistics.median(times),
        "us",
        target=target,
        p90=round(statistics.quantiles(times, n=10)[-1], 1),
        steals=len(times),
        **more,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steals", type=int, default=3_000, help="through shared memory")
    options = parser.parse_args()
    times, size = through_memory(options.steals)
    show("shared memory", times, MEMORY_TARGET, subtrees=round(size, 1))
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "asyncio": asyncio.new_event_loop,
        "uvloop": uvloop.new_event_loop,
    }
    for loop, factory in loops.items():
        with asyncio.Runner(loop_factory=factory) as runner:
            cycles, busy = runner.run(over_loopback())
        waits = [cycle - busy for cycle in cycles]
        show(f"loopback TCP, {loop}", waits, LOOPBACK_TARGET, explored=round(busy, 1))


if __name__ == "__main__":
    main()
