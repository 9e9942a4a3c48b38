"""Progress of an optimization, in numbers: `racing 8, best 2.6x, 14 s left`.

`ProgressReporter` knows what is going on, the best so far and how much is still to come; it tells
that four times a second, to a function or, where a person looks, to the terminal or the notebook.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import Struct

from ..display.status_line import TerminalLine, usual_line
from .effort import Budget, EffortStep

TICK_SECONDS = 0.25
_CHECK_SECONDS = 3.0
"""Seconds that a check on the device is expected to take, before anything is known of it."""
_COMPILE_SECONDS = 0.3
"""Seconds that a candidate is expected to take to compile."""


class OptimizeProgress(Struct, frozen=True):
    """How an optimization stands."""

    doing: str
    """What goes on, such as `racing 8`."""
    best: float | None
    """How many times as fast the best so far is; `None` before there is one."""
    seconds: float
    """Seconds since it began."""
    left: float | None
    """Seconds that are expected to be left, at most those up to the limit; `None` where more was
    spent already than expected."""

    @property
    def figures(self) -> str:
        """What is known in numbers, such as `best 2.6x, 14 s left`."""
        parts = [] if self.best is None else [f"best {self.best:.1f}x"]
        parts += [] if self.left is None else [f"{_duration(self.left)} left"]
        return ", ".join(parts)

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.doing, self.figures)))


HearProgress: TypeAlias = Callable[[OptimizeProgress], object]
"""Hears how an optimization stands."""


def expected_seconds(budget: Budget) -> float:
    """Seconds that one program is expected to take, by what may be spent: a guess, which the steps
    that have ended correct."""
    rewriting = 1 + 1.5 * budget.search_seconds
    compiling = _COMPILE_SECONDS * (budget.contenders + budget.kernels)
    races = budget.race_seconds * (3 if budget.contenders > budget.finalists else 2)
    return rewriting + compiling + races + budget.trial_seconds + _CHECK_SECONDS


@dataclass
class ProgressReporter:
    """How one optimization stands, for whoever asks."""

    deadline: float | None = None
    """By `time.monotonic`, when it has to end."""
    best: float | None = None
    history: list[tuple[float, float]] = field(default_factory=list)
    """The seconds at which something better was there, and how many times as fast it is."""
    _doing: str = "tracing"
    _started: float = field(default_factory=time.monotonic)
    _coming: list[EffortStep] = field(default_factory=list)
    """The steps that are still to come, each for a program."""
    _begun: float | None = None
    """When the first of `_coming` was begun."""
    _expected: float = 0.0
    """What those that have ended were expected to take."""
    _spent: float = 0.0
    """What they took."""

    def now(self) -> OptimizeProgress:
        """How it stands."""
        return OptimizeProgress(
            self._doing, self.best, time.monotonic() - self._started, self._left()
        )

    def improved(self, speedup: float) -> None:
        """Says how many times as fast the best so far is."""
        if speedup != self.best:
            self.history.append((time.monotonic() - self._started, speedup))
        self.best = speedup

    def doing(self, text: str) -> None:
        """Says what goes on from now on."""
        self._doing = text

    def comes(self, steps: list[EffortStep]) -> None:
        """Says what is to be done, a step for each program."""
        self._coming, self._begun = steps, None

    def begins(self) -> None:
        """Says that the next of the steps begins."""
        self._begun = time.monotonic()

    def ends(self) -> None:
        """Says that it has ended, from which one learns how long others take."""
        if self._begun is None or not self._coming:
            return
        self._expected += expected_seconds(self._coming.pop(0).budget)
        self._spent += time.monotonic() - self._begun
        self._begun = None

    def _left(self) -> float | None:
        until = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        if not self._coming:
            return until
        factor = self._spent / self._expected if self._expected else 1.0
        current, *later = (factor * expected_seconds(step.budget) for step in self._coming)
        current -= 0.0 if self._begun is None else time.monotonic() - self._begun
        if current < 0:
            return until
        expected = current + sum(later)
        return expected if until is None else min(until, expected)


def progress_listener(
    progress: bool | HearProgress | None,
) -> tuple[HearProgress | None, Callable[[], None]]:
    """Who hears it, and what is called at the end, by what `optimize` was asked for."""
    if callable(progress):
        return progress, lambda: None
    display = None if progress is False else usual_line()
    if display is None and progress is True:
        display = TerminalLine(sys.stderr)
    if display is None:
        return None, lambda: None
    line = display
    return lambda standing: line.show(str(standing)), line.close


@asynccontextmanager
async def told_progress(
    reporter: ProgressReporter, progress: bool | HearProgress | None
) -> AsyncIterator[None]:
    """Tells how it stands while this is open, and once more at the end."""
    hear, close = progress_listener(progress)
    if hear is None:
        yield
        return
    task = asyncio.create_task(_tick(reporter, hear))
    try:
        yield
        hear(reporter.now())
    finally:
        task.cancel()
        close()
        # What a listener raised is not lost.
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def _tick(reporter: ProgressReporter, hear: HearProgress) -> None:
    while True:
        hear(reporter.now())
        await asyncio.sleep(TICK_SECONDS)


def _duration(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
