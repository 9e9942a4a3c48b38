"""Whether simulations are right: beside real runs of the same searches, and then far beyond them.

    python benchmarks/simulated.py            # searches of seconds
    python benchmarks/simulated.py --quick    # of a second

A search is recorded, run for real, and simulated: on `queue` with one and two workers, on
`stealing` with two, and on `sockets` over loopback with one here and one in a process of its own,
each with one z3 process. What a message costs the host is measured in the same run, on a search of
nothing but messages. Then the recording, scaled to a thousand CPU-seconds, is simulated on 64 and
1,024 workers of sixteen a machine. There a node counts for no more than fifty average ones: what
struck it was this machine, not the problem.

On a busy machine wall time measures the neighbours, so `busiest` compares with the CPU seconds of
the process that spent most: no run is over sooner.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiosearch_sockets import TcpListener
from lib.engine.processes import children_of, cpu_of
from lib.figures import figure

from aiosearch import Pool, Search
from aiosearch.engine.run.run import OnUnknown
from aiosearch.lab.ladder import RUNGS
from aiosearch.lab.recording.replay import RecordedWithQuestions
from aiosearch.recording import Recorded, load, record
from aiosearch.strategies import API, Assign, Command, Event, Idle, Opened, Plan
from aiosearch.testing import Simulation, simulate
from aiosearch.workloads.shapes import Tiny
from aiosearch.workloads.superopt import Superopt
from aiosearch.workloads.uts import TREES, UTS

AGREEMENT = 0.10
TARGETS = {64: 0.90, 1024: 0.60}
LONG = 1000.0
LOCAL, LOOPBACK, NETWORK = 15e-6, 75e-6, 200e-6
"""Seconds of a message one way: to a process here, over loopback, to another machine."""
WAYS = (("queue", 1, 1), ("queue", 2, 1), ("stealing", 2, 1), ("sockets", 2, 2))


@asynccontextmanager
async def opened(strategy: str, workers: int) -> AsyncIterator[Pool]:
    """Opens a pool; that of `sockets` has one worker here, and the others elsewhere."""
    if strategy != "sockets":
        async with Pool(workers, cache=None, checkers=1) as pool:
            yield pool
        return
    listener = TcpListener()
    async with Pool(1, cache=None, checkers=1, listener=listener) as pool:
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "aiosearch", "worker", "--workers", str(workers - 1)),
            *("--checkers", "0", "--stay", "--connect", listener.address),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            yield pool
        finally:
            worker.terminate()
            await worker.wait()


async def warm(pool: Pool, workers: int, asks: bool = False) -> None:
    """Searches until every worker has done something, and z3 has answered."""
    problem = Superopt("P1", 2, 16) if asks else UTS(depth=6)
    done = 0
    while done < workers:
        async with Search(problem, pool=pool) as search:
            found = (await search.wait()).statistics.workers
        done = sum(worker.nodes > 0 for worker in found)
        problem = UTS(depth=6)


async def really(
    problem: Any, strategy: str, workers: int, repeats: int, on_unknown: OnUnknown
) -> tuple[float, float]:
    """The seconds of a search, and of its busiest process: medians of so many."""
    runs = [await _once(problem, strategy, workers, on_unknown) for _ in range(repeats)]
    return statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs)


async def _once(
    problem: Any, strategy: str, workers: int, on_unknown: OnUnknown
) -> tuple[float, float]:
    """Searches on a pool of its own, which knows no verdicts."""
    async with opened(strategy, workers) as pool:
        await warm(pool, workers, hasattr(problem, "obligation"))
        pids = _processes(os.getpid())
        before = {pid: cpu_of(pid) for pid in pids}
        async with Search(problem, pool=pool, strategy=strategy, on_unknown=on_unknown) as search:
            found = (await search.wait()).statistics
        return found.seconds, max(cpu_of(pid) - before[pid] for pid in pids)


def _processes(host: int) -> list[int]:
    """Workers and z3 processes, of the machine that the benchmark started too."""
    hosts = [host, *(pid for pid in children_of(host, "worker --workers"))]
    modules = ("aiosearch.engine.worker.worker_main", "aiosearch.checks.solver")
    return [pid for each in hosts for module in modules for pid in children_of(each, module)]


class OneByOne:
    """A strategy that deals single subtrees: nothing but messages."""

    api = API

    def start(self, plan: Plan) -> None:
        self._tasks: list[int] = []
        self._idle: list[int] = []

    def handle(self, event: Event) -> Iterable[Command]:
        if isinstance(event, Opened):
            self._tasks += [task.id for task in event.tasks]
        elif isinstance(event, Idle):
            self._idle.append(event.worker)
        while self._tasks and self._idle:
            yield Assign(self._idle.pop(), (self._tasks.pop(),), depth=0 if self._root else 1)
            self._root = True

    _root = False


async def message_cost(pool: Pool) -> float:
    """The host's CPU seconds for one message, where there is little else."""
    before = time.process_time()
    async with Search(Tiny(5_000), pool=pool, strategy=OneByOne()) as search:
        found = (await search.wait()).statistics.workers
    return (time.process_time() - before) / sum(worker.messages for worker in found)


def simulated(
    recorded: Recorded, strategy: str, workers: int, hosts: int, host: float, **more: Any
) -> Simulation:
    scale = more.pop("scale", 1.0)
    most = more.pop("most", float("inf"))
    asking = isinstance(recorded, RecordedWithQuestions)
    return simulate(
        strategy,
        recorded,
        workers,
        hosts=hosts,
        local_latency=LOCAL,
        order="depth-first",
        node_seconds=lambda node: min(recorded.seconds(node), most) * scale,
        host_seconds=host,
        verdict=recorded.verdict_after(scale) if asking else None,  # type: ignore[attr-defined]
        **more,
    )


async def agree(
    name: str,
    problem: Any,
    host: float,
    repeats: int,
    folder: Path,
    on_unknown: OnUnknown = "defer",
) -> Recorded:
    """Compares simulated with measured seconds, and gives the recording."""
    path = folder / "search.tree"
    footer = await asyncio.to_thread(record, problem, path, unknown_lives=on_unknown != "drop")
    recorded = load(path)
    for strategy, workers, hosts in WAYS:
        wall, busiest = await really(problem, strategy, workers, repeats, on_unknown)
        found = simulated(recorded, strategy, workers, hosts, host, latency=LOOPBACK)
        figure(
            f"simulated over measured time, {strategy}, {workers} workers: {name}",
            found.seconds / wall,
            "ratio",
            target=f"within {AGREEMENT:.0%}",
            busiest=round(found.seconds / busiest, 4),
            simulated=round(found.seconds, 4),
            measured=round(wall, 4),
            nodes=footer.nodes,
            bytes_per_node=round(path.stat().st_size / footer.nodes, 2),
        )
    return recorded


def far(name: str, recorded: Recorded, host: float) -> None:
    """The efficiency on many machines, of a search as long as those who have them run."""
    scale = LONG / recorded.cpu_seconds
    work = {"scale": scale, "most": 50 * recorded.cpu_seconds / recorded.footer.nodes}
    one = simulated(recorded, "queue", 1, 1, host, **work)
    for strategy in ("queue", "sockets"):
        for workers, target in TARGETS.items():
            found = simulated(
                recorded, strategy, workers, workers // 16, host, latency=NETWORK, **work
            )
            figure(
                f"simulated efficiency of {workers} workers, {strategy}: {name}",
                one.seconds / found.seconds / workers,
                "T1 / (n Tn)",
                target=target,
                seconds=[round(one.seconds, 2), round(found.seconds, 3)],
                balance=round(found.balance, 4),
                messages=found.messages,
                tasks=found.tasks,
                host_share=round(found.host / found.seconds, 3),
                scale=round(scale, 1),
                longest_node=round(recorded.longest * scale, 3),
            )


async def run(quick: bool, repeats: int) -> None:
    tree = UTS(depth=9) if quick else TREES["T1"].problem
    rung = RUNGS["second" if quick else "seconds"].problem
    blocks = RUNGS["blocks-second" if quick else "blocks-seconds"]
    async with Pool(2, cache=None) as pool:
        await warm(pool, 2)
        costs = [await message_cost(pool) for _ in range(3)]
    host = statistics.median(costs)
    figure("what a message costs the host", host * 1e6, "us", runs=[c * 1e6 for c in costs])
    with tempfile.TemporaryDirectory() as folder:
        recorded = await agree("UTS, geometric", tree, host, repeats, Path(folder))
        await agree("Hacker's Delight", rung, host, repeats, Path(folder))
        again = blocks.problem, host, repeats, Path(folder), blocks.on_unknown
        await agree("blocks", *again)
    far("UTS, geometric", recorded, host)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    asyncio.run(run(options.quick, options.repeats))


if __name__ == "__main__":
    main()
