"""The clock of a running search: limits, pace, search time, and how often workers report."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Protocol

from ...limits import Limits
from ...result import SearchStatus

PACE_SECONDS = 3.0
"""Seconds over which the rate of nodes is taken, at least."""
REPORT_SHARE = 0.02
"""Reports come this share of the elapsed time apart, so that a crash repeats little of it."""


class Pace:
    """The rate of nodes over the last few reports; in a long search reports come seconds apart."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now: float, nodes: int) -> float:
        """Nodes per second, given that there are `nodes` of them `now`."""
        seen = self._seen
        seen.append((now, nodes))
        # At least three reports in the window, however far apart they are by now
        window = max(PACE_SECONDS, 3 * REPORT_SHARE * now)
        while len(seen) > 2 and seen[0][0] < now - window:
            seen.popleft()
        before, fewer = seen[0]
        return (nodes - fewer) / (now - before) if now > before else 0.0


class SearchStopwatch:
    """Search time: what a journal holds, and what passes between `start` and `stop`."""

    def __init__(self) -> None:
        self.before = 0.0
        """Seconds of earlier runs, which a resume adds."""
        self._started: float | None = None
        self._ended: float | None = None

    def start(self) -> None:
        self._started = time.monotonic()

    def stop(self) -> None:
        self._ended = time.monotonic()

    @property
    def seconds(self) -> float:
        if self._started is None:
            return 0.0
        return self.before + (self._ended or time.monotonic()) - self._started

    def seconds_at(self, moment: float) -> float:
        """The search time of a `moment` of the monotonic clock."""
        return moment + self.before - (self._started or 0.0)


TICK_SECONDS = 0.05
MEMORY_SECONDS = 0.25


class Ticked(Protocol):
    """A search, as its `Ticker` sees it."""

    done: bool

    @property
    def checks(self) -> int:
        """Questions that z3 itself was asked."""
        ...

    def memory(self) -> int:
        """Bytes that its processes occupy."""
        ...

    def settle(self) -> None:
        """Looks again at what could not be settled when it happened."""
        ...

    def stop(self, status: SearchStatus, reason: str) -> None: ...

    def fail(self, error: Exception) -> None: ...

    def space_reports(self, seconds: float) -> None:
        """Has its workers report every so many `seconds` from now on."""
        ...

    def emit_progress(self) -> None: ...


class Ticker:
    """Ticks until its search is done; if it cannot, the search fails.

    Progress is emitted `progress_seconds` apart, or never where that is None.
    """

    def __init__(
        self,
        search: Ticked,
        stopwatch: SearchStopwatch,
        limits: Limits,
        report_seconds: float,
        progress_seconds: float | None,
    ) -> None:
        self._search = search
        self._stopwatch = stopwatch
        self._limits = limits
        self._report_seconds = report_seconds
        self._progress_seconds = progress_seconds
        self._next_memory = 0.0
        self._next_progress = 0.0
        self._task = asyncio.get_running_loop().create_task(self._tick())
        self._task.add_done_callback(self._ticked)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _tick(self) -> None:
        while not self._search.done:
            await asyncio.sleep(TICK_SECONDS)
            now = self._stopwatch.seconds
            # First: a limit that is reached should find the books as complete as they can be
            self._search.settle()
            self._limit_seconds(now)
            self._limit_memory(now)
            self._limit_checks()
            self._space_reports(now)
            self._emit_progress(now)

    def _ticked(self, task: asyncio.Task[None]) -> None:
        """Fails the search where ticking itself failed: that must not go unseen."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._search.fail(error)

    def _limit_seconds(self, now: float) -> None:
        limit = self._limits.seconds
        if limit is not None and now >= limit:
            before = ", those before the resume included" if self._stopwatch.before else ""
            self._search.stop(SearchStatus.LIMIT, f"{limit:g} seconds are over{before}")

    def _limit_memory(self, now: float) -> None:
        limit = self._limits.memory
        if limit is None or now < self._next_memory:
            return
        # Reading /proc for every process is not for every tick
        self._next_memory = now + MEMORY_SECONDS
        if self._search.memory() > limit:
            self._search.stop(SearchStatus.LIMIT, f"more than {limit} bytes of memory in use")

    def _limit_checks(self) -> None:
        limit = self._limits.checks
        if limit is not None and self._search.checks >= limit:
            self._search.stop(SearchStatus.LIMIT, f"{limit} questions asked of z3")

    def _space_reports(self, now: float) -> None:
        if now * REPORT_SHARE > 2 * self._report_seconds and not self._search.done:
            self._report_seconds = now * REPORT_SHARE
            self._search.space_reports(self._report_seconds)

    def _emit_progress(self, now: float) -> None:
        if self._progress_seconds is not None and now >= self._next_progress:
            self._next_progress = now + self._progress_seconds
            self._search.emit_progress()
