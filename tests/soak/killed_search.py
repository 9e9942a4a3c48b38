"""The process that a trial kills: one search of `subjects`, with every rhythm quickened.

    python tests/soak/killed_search.py '{"subject": "tree", ...}'   # a Request as JSON

Snapshots, batches, reports and verdict writes come many times a second here, so that a search of a
second passes through as many dangerous moments as one of an hour.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import sys
from collections import Counter
from pathlib import Path

import msgspec
from killable_problems import SUBJECTS

from aiosearch import Search
from aiosearch.checks import cache as cache_module
from aiosearch.engine.journal import journal
from aiosearch.engine.run import run as run_module
from aiosearch.orders import BestFirst
from aiosearch.processes import fault_points

PRUNING = BestFirst(prune=True)


class Request(msgspec.Struct):
    """What to search, and where to write what came of it."""

    subject: str
    order: str
    strategy: str
    workers: int
    journal: str
    cache: str
    outcome: str
    resume: bool


class Outcome(msgspec.Struct):
    """What a search that came to its end reports."""

    status: str
    reason: str
    nodes: int
    unknown: int
    deaths: int
    best_cost: float | None
    solutions: bytes
    """The list of them as msgpack."""
    seconds: float
    passages: dict[str, int]
    """How often each fault point was passed."""


def quicken() -> None:
    """Makes in a second what else takes a minute."""
    run_module.REPORT_SECONDS = 0.02
    journal.BATCH_SECONDS = 0.005
    journal.COMPACT_BYTES = 1024
    cache_module.DELAY = 0.01


def count_passages() -> Counter[str]:
    """Counts what passes the fault points."""
    passages: Counter[str] = Counter()
    armed = fault_points.armed

    def counting(place: str) -> bool:
        passages[place] += 1
        return armed(place)

    fault_points.armed = counting
    return passages


async def search(request: Request, passages: Counter[str]) -> Outcome:
    async with Search(
        SUBJECTS[request.subject].problem,
        order=PRUNING if request.order.endswith("pruning") else request.order,
        strategy=request.strategy,
        workers=request.workers,
        journal=request.journal,
        resume=request.resume,
        cache=request.cache,
    ) as opened:
        result = await opened.wait()
    figures = result.statistics
    return Outcome(
        str(result.status),
        result.reason,
        figures.nodes,
        figures.unknown,
        figures.worker_deaths,
        result.best_cost,
        msgspec.msgpack.encode(list(result.solutions)),
        figures.seconds,
        dict(passages),
    )


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    request = msgspec.json.decode(sys.argv[1], type=Request)
    quicken()
    outcome = asyncio.run(search(request, count_passages()))
    partial = Path(request.outcome + ".tmp")
    partial.write_bytes(msgspec.json.encode(outcome))
    partial.replace(request.outcome)


if __name__ == "__main__":
    main()
