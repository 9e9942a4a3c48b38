"""`Progress` and `Statistics` of a search, computed from the `Coordinator`'s state."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from ...documents import Document
from ...events import Progress
from ...statistics import Statistics
from ..books.coordinator import Coordinator
from ..explore.counts import Counts
from ..wire.solutions import SolutionSet
from .obligations import SearchObligations


def progress(
    books: Coordinator,
    solutions: SolutionSet,
    questions: SearchObligations | None,
    seconds: float,
    rate: float,
    prunes: bool,
    scored_by_bound: bool,
    refused: Mapping[str, str],
) -> Progress:
    """What hooks get a few times a second.

    `prunes` says that the search leaves subtrees out, so that no time remaining can be told, and
    `scored_by_bound` that the scores of subtrees are what no cost in them is below.
    """
    explored, remaining = _outlook(books, seconds, prunes)
    checks = questions.statistics() if questions else None
    return Progress(
        seconds=seconds,
        nodes=books.totals.nodes,
        nodes_per_second=rate,
        open=books.ledger.subtrees,
        solutions=len(solutions.encoded),
        best_cost=solutions.best_cost,
        explored=explored,
        remaining=remaining,
        cache_hits=checks.memory_hits + checks.disk_hits if checks else 0,
        checks=checks.checks if checks else 0,
        checks_in_flight=checks.in_flight if checks else 0,
        workers=sum(place.alive for place in books.seats),
        refused=refused,
        bound=_bound(books, solutions) if scored_by_bound else None,
    )


def _bound(books: Coordinator, solutions: SolutionSet) -> float | None:
    """What no cost of a solution is below, here or to come.

    A worker's subtrees count as of its last report: those below them have no lower bound.
    """
    lowest, best = books.ledger.lowest_priority(), solutions.best_cost
    if lowest is None:
        return None
    bound = lowest if best is None else min(lowest, best)
    return bound if math.isfinite(bound) else None


def _outlook(books: Coordinator, seconds: float, prunes: bool) -> tuple[float, float | None]:
    """The explored share of the tree, and the seconds that the rest should take."""
    explored = min(max(1.0 - books.ledger.weight, 0.0), 1.0)
    # Below a hundredth the estimate is noise
    if explored <= 0.01 or prunes:
        return explored, None
    return explored, seconds * (1.0 - explored) / explored


def statistics(
    books: Coordinator | None,
    solutions: SolutionSet,
    questions: SearchObligations | None,
    seconds: float,
    hook_errors: int,
    deaths: int,
) -> Statistics:
    """All figures; a search that has not begun has no `books`."""
    counts = books.totals if books else Counts()
    now = time.monotonic_ns()
    return Statistics(
        seconds=seconds,
        nodes=counts.nodes,
        leaves=counts.leaves,
        depth=counts.depth,
        open=books.ledger.subtrees if books else 1,
        pruned=counts.pruned,
        duplicates=counts.duplicates,
        reopened=counts.reopened,
        unclaimed=counts.unclaimed,
        proved=counts.proved,
        refuted=counts.refuted,
        unknown=counts.unknown,
        skipped=counts.skipped,
        published=counts.published,
        solutions=len(solutions.encoded),
        hook_errors=hook_errors,
        worker_deaths=deaths,
        workers=tuple(seat.statistics(now) for seat in books.seats) if books else (),
        checks=questions.statistics() if questions else None,
    )


def state(
    books: Coordinator | None, solutions: SolutionSet, seconds: float, rate: float, prunes: bool
) -> Document:
    """What `aiosearch status` shows of a search, for JSON."""
    seats = books.seats if books else ()
    explored, remaining = _outlook(books, seconds, prunes) if books else (0.0, None)
    return {
        "seconds": round(seconds, 3),
        "nodes": books.totals.nodes if books else 0,
        "nodes_per_second": round(rate, 1),
        "open": books.ledger.subtrees if books else 1,
        "explored": explored,
        "remaining": None if remaining is None else round(remaining, 1),
        "solutions": len(solutions.encoded),
        "best_cost": solutions.best_cost,
        "busy": sum(place.busy for place in seats),
        "seats": sum(place.alive for place in seats),
    }


def explored(skipped: int) -> str:
    """What a search that has come to its end is said to have explored."""
    if not skipped:
        return "everything is explored"
    many = "1 subtree" if skipped == 1 else f"{skipped} subtrees"
    return f"everything is explored but {many}, skipped after errors"
