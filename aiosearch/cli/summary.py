"""What is told at the end of a search."""

from __future__ import annotations

from typing import Any

from ..checks import VerifierStatistics
from ..result import Result
from ..statistics import Statistics, WorkerStatistics
from .figures import cost, count, duration, of, short
from .tables import table

_NOTED = ("pruned", "duplicates", "reopened", "skipped")


def summary(result: Result[Any], *, solution: bool) -> str:
    """Says how a search ended, with its best solution if it is not shown elsewhere."""
    figures = result.statistics
    failed = result.error is not None  # then the reason is told apart
    rows = [("status", str(result.status) if failed else f"{result.status}: {result.reason}")]
    if result.best is not None and solution:
        rows.append(("best", short(result.best, 100)))
    if result.best_cost is not None:
        rows.append(("cost", cost(result.best_cost)))
    rows.append(("solutions", f"{figures.solutions:,}"))
    rows.append(("nodes", _nodes(figures)))
    if noted := _noted(figures):
        rows.append(("", noted))
    if figures.checks is not None and figures.checks.asked:
        rows.append(("z3", _checks(figures.checks)))
    if figures.worker_deaths:
        rows.append(("deaths", _deaths(figures.worker_deaths)))
    parts = [table(rows)]
    if len(figures.workers) > 1:
        parts.append(_workers(figures.workers))
    return "\n".join(parts)


def _deaths(number: int) -> str:
    return f"{of(number, 'worker')} died, {'its' if number == 1 else 'their'} work was done again"


def _nodes(figures: Statistics) -> str:
    rate = count(figures.nodes_per_second)
    return (
        f"{figures.nodes:,} in {duration(figures.seconds)} ({rate}/s), "
        f"depth {figures.depth}, {figures.open:,} open"
    )


def _noted(figures: Statistics) -> str:
    named = ((getattr(figures, name), name) for name in _NOTED)
    return ", ".join(f"{number:,} {name}" for number, name in named if number)


def _checks(figures: VerifierStatistics) -> str:
    hits = figures.memory_hits + figures.disk_hits
    return (
        f"{figures.checks:,} asked ({figures.proved:,} proved, {figures.refuted:,} refuted,"
        f" {figures.unknown:,} unknown), {hits:,} cache hits"
    )


def _workers(workers: tuple[WorkerStatistics, ...]) -> str:
    rows = [("worker", "nodes", "busy", "waiting", "idle", "tasks")]
    rows += [(str(number), *_shares(worker)) for number, worker in enumerate(workers)]
    return table(rows, right=frozenset(range(6)))


def _shares(worker: WorkerStatistics) -> tuple[str, str, str, str, str]:
    times = (worker.busy, worker.waiting, worker.idle)
    whole = sum(times) or 1.0
    busy, waiting, idle = (f"{time / whole:.0%}" for time in times)
    return f"{worker.nodes:,}", busy, waiting, idle, str(worker.tasks)
