"""How much faster two workers are than one, on the ladder; beside it ProcessPoolExecutor and pybnb.

    python benchmarks/speedup.py                 # a minute of one worker for each search
    python benchmarks/speedup.py --quick         # two seconds

Efficiency is T1 / (2 T2) from the moment the workers are up; starting them is shown apart. On a
busy machine wall time measures the neighbours, so `cpu` gives the same from CPU seconds: what one
worker spent over what two spent together, times the share of time that they had work.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import lib.engine.process_pool_search as byhand
from lib.engine.processes import cpu_of
from lib.engine.sized_searches import Rung, ladder
from lib.figures import figure, spread, versions
from msgspec import Struct
from pybnb_comparison import pybnb_figures

from aiosearch import Pool, Search
from aiosearch.workloads.shapes import Tiny

TARGET = 0.95


class Measured(Struct, frozen=True):
    """One search on a warm pool."""

    seconds: float
    nodes: int
    cpu: float
    """CPU seconds of the workers."""
    host: float
    """CPU seconds of the host."""
    busy: float
    """Seconds that the workers explored, as they say, interruptions by others included."""
    idle: float
    """The share of their time in which workers had nothing."""
    balance: float
    tasks: int
    messages: int
    best: float | None


@contextlib.asynccontextmanager
async def warm_pool(workers: int, times: list[float]) -> AsyncIterator[Pool]:
    """Opens a pool and waits until every worker has done something."""
    started = time.perf_counter()
    async with Pool(workers, cache=None) as pool:
        done: set[int] = set()
        while len(done) < workers:
            async with Search(Tiny(20_000), pool=pool) as search:
                found = (await search.wait()).statistics.workers
            done |= {seat for seat, worker in enumerate(found) if worker.nodes}
        times.append(time.perf_counter() - started)
        yield pool


async def measure(rung: Rung, pool: Pool) -> Measured:
    before, host = sum(map(cpu_of, pool.pids)), time.process_time()
    async with Search(rung.problem, pool=pool) as search:
        result = await search.wait()
    found = result.statistics
    return Measured(
        seconds=found.seconds,
        nodes=found.nodes,
        cpu=sum(map(cpu_of, pool.pids)) - before,
        host=time.process_time() - host,
        busy=sum(worker.busy for worker in found.workers),
        idle=sum(worker.idle for worker in found.workers) / len(found.workers) / found.seconds,
        balance=found.balance,
        tasks=sum(worker.tasks for worker in found.workers),
        messages=sum(worker.messages for worker in found.workers),
        best=result.best_cost,
    )


def median(runs: list[Any], of: Callable[[Any], float]) -> float:
    return statistics.median(map(of, runs))


def efficiency(one: list[Any], two: list[Any], of: Callable[[Any], float]) -> float:
    return median(one, of) / (2 * median(two, of))


def per_node(one: list[Any], two: list[Any]) -> float:
    """The efficiency if both had explored as many nodes, which branch and bound need not do."""
    return round(efficiency(one, two, lambda run: run.seconds / run.nodes), 4)


def show(rung: Rung, one: list[Measured], two: list[Measured]) -> None:
    idle = median(two, lambda run: run.idle)
    figure(
        f"efficiency of two workers: {rung.name}",
        efficiency(one, two, lambda run: run.seconds),
        "T1 / (2 T2)",
        target=TARGET,
        cpu=round(median(one, lambda r: r.cpu) / median(two, lambda r: r.cpu) * (1 - idle), 4),
        busy=round(median(one, lambda r: r.busy) / median(two, lambda r: r.busy), 4),
        per_node=per_node(one, two),
        idle_share=round(idle, 4),
        balance=round(median(two, lambda r: r.balance), 4),
        tasks=median(two, lambda r: r.tasks),
        messages=median(two, lambda r: r.messages),
        host_cpu=round(median(two, lambda r: r.host), 3),
        seconds_one=spread([run.seconds for run in one]),
        seconds_two=spread([run.seconds for run in two]),
        nodes=[one[-1].nodes, two[-1].nodes],
    )


def show_by_hand(rung: Rung, one: list[Any], two: list[Any], ours: list[Measured]) -> None:
    figure(
        f"efficiency of two workers, ProcessPoolExecutor cut at depth {rung.cut}: {rung.name}",
        efficiency(one, two, lambda run: run.seconds),
        "T1 / (2 T2)",
        cpu=round(median(one, lambda run: run.cpu) / median(two, lambda run: run.cpu), 4),
        per_node=per_node(one, two),
        tasks=two[-1].tasks,
        seconds_one=spread([run.seconds for run in one]),
        seconds_two=spread([run.seconds for run in two]),
        aiosearch_seconds_two=spread([run.seconds for run in ours]),
        nodes=[one[-1].nodes, two[-1].nodes],
    )


def agree(rung: Rung, runs: list[Any]) -> None:
    """Whoever searched, the answer is the same, and so is the tree where nothing is pruned."""
    if hasattr(rung.problem, "bound"):
        assert len({run.best for run in runs}) == 1, [run.best for run in runs]
    else:
        assert len({run.nodes for run in runs}) == 1, [run.nodes for run in runs]


async def compare(rung: Rung, pools: tuple[Pool, Pool], repeats: int) -> None:
    ones: list[Measured] = []
    twos: list[Measured] = []
    hand_ones: list[byhand.ByHand] = []
    hand_twos: list[byhand.ByHand] = []
    for _ in range(repeats):  # in turns, so that a busy hour slows all alike
        ones.append(await measure(rung, pools[0]))
        twos.append(await measure(rung, pools[1]))
        hand_ones.append(byhand.run(rung, 1))
        hand_twos.append(byhand.run(rung, 2))
    agree(rung, [*ones, *twos, *hand_ones, *hand_twos])
    show(rung, ones, twos)
    show_by_hand(rung, hand_ones, hand_twos, twos)


async def run(seconds: float, repeats: int, only: str) -> None:
    times: list[float] = []
    async with warm_pool(1, times) as single, warm_pool(2, times) as double:
        figure("start-up of a pool until every worker has worked", times[1], "s", one=times[0])
        for rung in (rung for rung in ladder(seconds) if only in rung.name):
            await compare(rung, (single, double), repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, help="of one worker, for each search")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--only", default="", help="searches whose name holds this, alone")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seconds = options.seconds or (2.3 if options.quick else 60.0)
    asyncio.run(run(seconds, options.repeats or (2 if options.quick else 3), options.only))
    if options.only:
        return
    pybnb_figures(seconds / 25, versions("pybnb", "mpi4py", "mpich"))


if __name__ == "__main__":
    main()
