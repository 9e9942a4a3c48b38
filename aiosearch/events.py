"""What a search tells whoever listens: frozen structs that encode as JSON objects with a `type`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct


class Event(Struct, frozen=True, tag_field="type", tag=lambda name: name, kw_only=True):
    """Base of all events."""

    seconds: float
    """Search time at which it happened."""


class SearchStarted(Event, frozen=True, kw_only=True):
    problem: str
    order: str
    strategy: str
    workers: int
    seed: int
    resumed: bool
    """Whether a journal was taken up."""
    nodes: int = 0
    """Nodes that the journal holds as explored."""
    machines: bool = False
    """Whether other machines may join."""


class WorkerJoined(Event, frozen=True, kw_only=True):
    worker: int
    pid: int
    host: str = ""
    """The machine that the worker is on, where it is another one; `pid` is a process there."""


class WorkerLost(Event, frozen=True, kw_only=True):
    """A worker is gone; if it died, its work since its last report is done again."""

    worker: int
    reason: str
    died: bool = True
    """False where the worker was let go, or does not serve this search."""


class TaskAssigned(Event, frozen=True, kw_only=True):
    worker: int
    subtrees: int


class WorkReported(Event, frozen=True, kw_only=True):
    """A worker handed in what it did since its last report."""

    worker: int
    nodes: int
    busy: float
    waiting: float
    kept: int
    """Subtrees that it still holds, where the report tells."""
    given: int
    depths: Mapping[int, int] = {}
    """About how many of the nodes lie at which depth: plain depth-first search counts a sample."""


class Improved(Event, frozen=True, kw_only=True):
    """A better solution; without costs, a new one."""

    number: int
    solution: Any
    cost: float | None
    worker: int


class Checked(Event, frozen=True, kw_only=True):
    """z3 answered a question."""

    process: int
    status: str
    started: float
    """Search time at which z3 began, in seconds as in `Event.seconds`."""


class Progress(Event, frozen=True, kw_only=True):
    """Comes a few times a second while a search runs."""

    nodes: int
    nodes_per_second: float
    open: int
    solutions: int
    best_cost: float | None
    explored: float | None
    """The share of the tree that is explored, from 0 to 1, where it can be estimated."""
    remaining: float | None
    """Seconds to go, where they can be estimated."""
    cache_hits: int
    checks: int
    checks_in_flight: int
    workers: int
    """Workers that serve the search now."""
    refused: Mapping[str, str]
    """Machines that came and do not serve, and why."""
    bound: float | None = None
    """What no solution's cost is below, where subtrees are ordered by the problem's `bound`."""


class Warned(Event, frozen=True, kw_only=True):
    message: str


class SearchFinished(Event, frozen=True, kw_only=True):
    status: str
    reason: str
    nodes: int
    solutions: int
    best: Any
    best_cost: float | None


AnyEvent: TypeAlias = (
    SearchStarted
    | WorkerJoined
    | WorkerLost
    | TaskAssigned
    | WorkReported
    | Improved
    | Checked
    | Progress
    | Warned
    | SearchFinished
)

Hook: TypeAlias = Callable[[AnyEvent], Any]
"""Listens to a search, plain or with `async def`. What it returns or raises changes nothing."""
