"""What it takes to have work of which somebody has too much.

Through shared memory, another process that is awake takes what this one has laid out, and loads it:
from its look at the board until it could explore. Where it sleeps until the bell rings: from the
offer until then, which is mostly what this machine takes to wake a process. Over TCP on loopback, a
worker of another machine says that it is idle, and the host has work ready: from that report until
it has loaded the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, TypeAlias

import uvloop
from aiosearch_sockets import TcpListener
from aiosearch_stealing.board import SharedBoard
from lib.figures import figure

from aiosearch import Search
from aiosearch.engine.explore.bundles import ROOT, Codec
from aiosearch.engine.explore.explorer import DepthFirstExplorer
from aiosearch.engine.wire.reference import return_type
from aiosearch.engine.worker.work_sharing import Bell, WorkSharing
from aiosearch.processes.frames import Channel
from aiosearch.strategies import API, Assign, Command, Event, Idle, Opened, Plan
from aiosearch.workloads.queens import Queens
from aiosearch.workloads.uts import UTS

STEAL = "steal from a published surplus"
MEMORY_TARGET, LOOPBACK_TARGET = 20.0, 500.0
GIVER, TAKER = 1, 2
EXPLORED = 2_000
"""Nodes of a tree, after which it has some thirty subtrees to give."""
DROWSY_SECONDS = 0.001
"""By then, whoever has nothing to do is asleep."""
TREE = UTS()
PUZZLE = Queens(9)
CUT = 5
"""The depth at which it is in some thousand pieces."""

Life: TypeAlias = Callable[[str, Connection], None]
"""What the process that takes does, with the path of the board and a line to this one."""


def explorer() -> DepthFirstExplorer[Any]:
    return DepthFirstExplorer(TREE, Codec("UTS", return_type(TREE, "root")))


def sharing(exchange: Any, owner: int) -> WorkSharing:
    return WorkSharing(exchange, owner, 0, verdicts=True)


def load(board: WorkSharing, mine: DepthFirstExplorer[Any]) -> int:
    """Takes what lies there; gives the number of subtrees."""
    bundles = board.take()
    for bundle in bundles:
        mine.load(bundle)
    return sum(bundle.size for bundle in bundles)


def awake(path: str, connection: Connection) -> None:
    """The other process, where it looks for work again and again, as a worker does at first."""
    board = sharing(SharedBoard.join(path, 1, TAKER, lambda: None), TAKER)
    mine = explorer()
    while not connection.poll():
        started = time.perf_counter_ns()
        if size := load(board, mine):
            connection.send((started, time.perf_counter_ns(), size))
            board.told(0)  # what was taken is told of with the next report
            mine = explorer()
    board.close()


def asleep(path: str, connection: Connection) -> None:
    """The other process, where it sleeps as a worker does until the bell rings."""
    bell = Bell(recv_handle(connection))
    channel = Channel(os.dup(connection.fileno()))
    channel.hear(*bell.fds)
    board = sharing(SharedBoard.join(path, 1, TAKER, lambda: None), TAKER)
    mine = explorer()
    while channel.await_bell():
        started = time.perf_counter_ns()
        bell.hush()
        size = load(board, mine)
        connection.send((started, time.perf_counter_ns(), size))
        board.told(0)
        mine = explorer()
    board.close()
    bell.close()


@contextmanager
def taker(life: Life, path: str, bell: Bell) -> Iterator[Connection]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=life, args=(path, theirs))
    process.start()
    if life is asleep:
        send_handle(ours, *bell.fds, process.pid)
    yield ours
    ours.send(False)
    process.join()


def through_memory(steals: int, life: Life) -> tuple[list[float], float]:
    """Microseconds of each steal, and how many subtrees were taken at a time.

    From the taker's look at the board, or from the offer where the taker sleeps.
    """
    board, bell = SharedBoard.create(2), Bell.make()
    here = sharing(board.exchange(0, GIVER, bell.ring), GIVER)
    mine = explorer()
    mine.load(ROOT)
    mine.run(sys.maxsize, EXPLORED)
    times, sizes = [], []
    with taker(life, board.path, bell) as connection:
        for steal in range(1, steals + 1):
            bundles = mine.split(1)
            assert here.enter(bundles) == []
            here.told(steal)
            if life is asleep:
                time.sleep(DROWSY_SECONDS)
            offered = time.perf_counter_ns()
            here.lay_out(steal)
            started, loaded, size = connection.recv()
            times.append((loaded - (started if life is awake else offered)) / 1e3)
            sizes.append(size)
            here.look()
            here.told(0)
            for bundle in bundles:
                mine.load(bundle)
    here.close()
    board.close()
    bell.close()
    assert min(sizes) > 0
    return times, statistics.mean(sizes)


class OneByOne:
    """Cuts the root into pieces once, and deals them to the only worker, one at a time."""

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
            case Idle(worker=seat) if self._tasks and not self._cut:
                self._cut = True
                yield Assign(seat, (self._tasks.pop(),), depth=CUT)
            case Idle(worker=seat) if self._tasks:
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


def show(name: str, times: list[float], target: float | None, **more: Any) -> None:
    figure(
        name,
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
    times, size = through_memory(options.steals, awake)
    show(f"{STEAL}, shared memory", times, MEMORY_TARGET, subtrees=round(size, 1))
    times, size = through_memory(options.steals, asleep)
    woken = "from an offer until a worker that slept has loaded it, shared memory"
    show(woken, times, None, subtrees=round(size, 1))
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "asyncio": asyncio.new_event_loop,
        "uvloop": uvloop.new_event_loop,
    }
    for loop, factory in loops.items():
        with asyncio.Runner(loop_factory=factory) as runner:
            cycles, busy = runner.run(over_loopback())
        waits = [cycle - busy for cycle in cycles]
        show(f"{STEAL}, loopback TCP, {loop}", waits, LOOPBACK_TARGET, explored=round(busy, 1))


if __name__ == "__main__":
    main()
