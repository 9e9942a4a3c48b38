"""How much faster two workers are than one on a Ray of this machine; beside it Ray's own tasks.

    python benchmarks/ray_local.py                 # twenty seconds of one worker for each search
    python benchmarks/ray_local.py --quick         # two seconds

Efficiency is T1 / (2 T2) from the moment the actors are up. On a busy machine wall time measures
the neighbours, so `cpu` gives the same from CPU seconds of the workers, as in speedup.py. By hand
it is one Ray task for every subtree at a fixed depth. Needs aiosearch-ray.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import lib.engine.process_pool_search as byhand
import ray
from aiosearch_ray import RayListener
from aiosearch_ray.cluster import Cluster
from lib.engine.processes import command_of, cpu_of
from lib.engine.sized_searches import Rung, ladder
from lib.figures import figure, spread, versions
from msgspec import Struct
from speedup import agree, efficiency, median, per_node

from aiosearch import Pool, Search
from aiosearch.workloads.shapes import Lopsided

TARGET = 0.90
CALLS = 1_000


class Measured(Struct, frozen=True):
    """One search on a warm pool."""

    seconds: float
    nodes: int
    cpu: float
    """CPU seconds of the workers."""
    others: float
    """CPU seconds of this process and of the actor."""
    idle: float
    """The share of their time in which workers had nothing."""
    messages: int
    best: float | None


class Served(Struct, frozen=True):
    """A pool that an actor serves, and their processes."""

    pool: Pool
    actor: int
    workers: list[int]


@contextlib.asynccontextmanager
async def served(workers: int) -> AsyncIterator[Served]:
    """Opens a pool, and waits until every worker has done something."""
    before = actors()
    async with Pool(cache=None, listener=RayListener(cpus=workers)) as pool:
        done: set[int] = set()
        while len(done) < workers:
            async with Search(Lopsided(height=24), pool=pool, strategy="ray") as search:
                found = (await search.wait()).statistics.workers
            done |= {seat for seat, worker in enumerate(found) if worker.nodes}
        (actor,) = actors() - before
        yield Served(pool, actor, workers_of(actor))


def actors() -> set[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {pid for pid in pids if command_of(pid).startswith("ray::HostActor")}


def workers_of(actor: int) -> list[int]:
    """An actor starts them from the thread of its event loop."""
    threads = Path(f"/proc/{actor}/task").glob("*/children")
    children = [int(pid) for thread in threads for pid in thread.read_text().split()]
    return [pid for pid in children if "aiosearch.engine.worker.worker_main" in command_of(pid)]


async def measure(rung: Rung, on: Served) -> Measured:
    cpu, others = sum(map(cpu_of, on.workers)), time.process_time() + cpu_of(on.actor)
    async with Search(rung.problem, pool=on.pool, strategy="ray") as search:
        result = await search.wait()
    found = result.statistics
    return Measured(
        seconds=found.seconds,
        nodes=found.nodes,
        cpu=sum(map(cpu_of, on.workers)) - cpu,
        others=time.process_time() + cpu_of(on.actor) - others,
        idle=sum(worker.idle for worker in found.workers) / len(found.workers) / found.seconds,
        messages=sum(worker.messages for worker in found.workers),
        best=result.best_cost,
    )


def by_hand(rung: Rung, workers: int) -> byhand.ByHand:
    """One task for each subtree at the depth of the cut; two processors are left for them."""
    part: Any = ray.remote(num_cpus=2 // workers)(below)
    problem = ray.put(rung.problem)
    ray.get([part.remote(problem, None) for _ in range(workers)])
    started = time.perf_counter()
    above, roots = byhand.cut(rung)
    results = ray.get([part.remote(problem, root) for root in roots])
    seconds = time.perf_counter() - started
    nodes = above + sum(nodes for nodes, _ in results)
    return byhand.ByHand(seconds, nodes, len(roots), sum(cpu for _, cpu in results), 0.0)


def below(problem: Any, root: Any) -> tuple[int, float]:
    """Explores a subtree, where there is one."""
    started = time.process_time()
    nodes, waiting = 0, [] if root is None else [root]
    while waiting:
        node = waiting.pop()
        nodes += 1
        problem.solutions(node)
        waiting.extend(problem.expand(node))
    return nodes, time.process_time() - started


async def compare(rung: Rung, one: Served, two: Served, repeats: int) -> None:
    ones, twos, hand_ones, hand_twos = [], [], [], []
    for _ in range(repeats):  # in turns, so that a busy hour slows all alike
        ones.append(await measure(rung, one))
        twos.append(await measure(rung, two))
        hand_ones.append(await asyncio.to_thread(by_hand, rung, 1))
        hand_twos.append(await asyncio.to_thread(by_hand, rung, 2))
    agree(rung, [*ones, *twos, *hand_ones, *hand_twos])
    idle = median(twos, lambda run: run.idle)
    figure(
        f"efficiency of two workers, ray: {rung.name}",
        efficiency(ones, twos, lambda run: run.seconds),
        "T1 / (2 T2)",
        target=TARGET,
        cpu=round(median(ones, lambda r: r.cpu) / median(twos, lambda r: r.cpu) * (1 - idle), 4),
        per_node=per_node(ones, twos),
        idle_share=round(idle, 4),
        messages=median(twos, lambda run: run.messages),
        host_and_actor_cpu=round(median(twos, lambda run: run.others), 3),
        seconds_one=spread([run.seconds for run in ones]),
        seconds_two=spread([run.seconds for run in twos]),
        ray=versions("ray"),
    )
    figure(
        f"efficiency of two workers, Ray tasks cut at depth {rung.cut}: {rung.name}",
        efficiency(hand_ones, hand_twos, lambda run: run.seconds),
        "T1 / (2 T2)",
        tasks=hand_twos[-1].tasks,
        seconds_one=spread([run.seconds for run in hand_ones]),
        seconds_two=spread([run.seconds for run in hand_twos]),
        aiosearch_seconds_two=spread([run.seconds for run in twos]),
    )


async def call_figure() -> None:
    """What a message to a host actor costs at least: an empty call and its answer."""
    cluster = Cluster(None)
    await cluster.open()
    actor = await cluster.place((await cluster.nodes())[0], 1)
    await actor.collect()
    times = []
    for _ in range(CALLS):
        started = time.perf_counter()
        await actor.deliver([])
        times.append((time.perf_counter() - started) * 1e6)
    await cluster.kill(actor)
    await cluster.close()
    late = sorted(times)[CALLS * 99 // 100]
    figure("call of a host actor and its answer", statistics.median(times), "us", late=round(late))


async def run(seconds: float, repeats: int, only: str) -> None:
    await call_figure()
    async with served(1) as one, served(2) as two:
        for rung in ladder(seconds):
            if only in rung.name and not hasattr(rung.problem, "bound"):
                await compare(rung, one, two, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, help="of one worker, for each search")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--only", default="", help="searches whose name holds this, alone")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seconds = options.seconds or (2.3 if options.quick else 20.0)
    # Both pools stay open, and what is done by hand has as many processors again
    with tempfile.TemporaryDirectory(prefix="aiosearch-ray-") as folder:
        os.environ["RAY_TMPDIR"] = folder
        ray.init(num_cpus=5, include_dashboard=False, log_to_driver=False)
        try:
            asyncio.run(run(seconds, options.repeats or (2 if options.quick else 3), options.only))
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
