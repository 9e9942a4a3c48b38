"""The screen of a running command: lines that stay, one that changes, and how far a search is.

A last line that tells that it goes on.

Tells a person how a search goes: a line per improvement, and one that says how far it is.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from ...display.status_line import gap_share
from ...events import (
    AnyEvent,
    Improved,
    Progress,
    SearchFinished,
    SearchStarted,
    WorkerLost,
    WorkReported,
)
from ...plain import plain, plain_lines
from .streams import dated
from .units import cost, count, duration, of, percent, short

if TYPE_CHECKING:
    from rich.live import Live

QUIET_SECONDS = 10.0
"""Without a terminal, how long nothing is written before a progress line is."""


class Screen(Protocol):
    """Shows lines."""

    @property
    def width(self) -> int: ...

    def line(self, text: str) -> None:
        """Shows a line that stays."""
        ...

    def status(self, text: str) -> None:
        """Shows how it stands now."""
        ...

    def close(self) -> None:
        """Takes away what does not stay."""
        ...


class PlainScreen:
    """Writes lines; how it stands, only when nothing else was written for a while."""

    width = 120

    def __init__(self, closed: Callable[[], None]) -> None:
        self._closed = closed
        self._last = time.monotonic()

    def line(self, text: str) -> None:
        self._last = time.monotonic()
        try:
            sys.stderr.write(dated(plain_lines(text)) + "\n")
            sys.stderr.flush()
        except OSError:
            self._closed()

    def status(self, text: str) -> None:
        if time.monotonic() - self._last >= QUIET_SECONDS:
            self.line(text)

    def close(self) -> None:
        return


class LiveScreen:
    """A terminal whose last line changes in place, and is gone at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live: Live | None = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    @property
    def width(self) -> int:
        return self._console.width

    def line(self, text: str) -> None:
        self._console.print(plain_lines(text), soft_wrap=True)

    def status(self, text: str) -> None:
        from rich.text import Text

        if self._live is not None:
            self._live.update(
                Text(plain(text), "dim", no_wrap=True, overflow="ellipsis"), refresh=True
            )

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class NoScreen:
    """Shows nothing."""

    width = 80

    def line(self, text: str) -> None:
        return

    def status(self, text: str) -> None:
        return

    def close(self) -> None:
        return


TICK_SECONDS = 0.25


@asynccontextmanager
async def ticking(screen: Screen, text: Callable[[], str]) -> AsyncIterator[None]:
    """Shows what the text is now, four times a second."""
    task = asyncio.create_task(_tick(screen, text))
    try:
        yield
    finally:
        task.cancel()


async def _tick(screen: Screen, text: Callable[[], str]) -> None:
    while True:
        screen.status(text())
        await asyncio.sleep(TICK_SECONDS)


ALWAYS_SHOWN_IMPROVEMENTS = 10
"""So many improvements are shown whatever they are."""
SHOWN_IMPROVEMENT_SECONDS = 0.1
"""Later ones with a cost are shown this many seconds apart."""


class ProgressPrinter:
    """A hook that writes to a screen.

    Of solutions without a cost, of which there may be thousands a second, the first ten are shown
    and then the 16th, the 32nd and so on.
    """

    def __init__(self, screen: Screen, title: str) -> None:
        self._screen = screen
        self._title = title
        self._nodes = 0
        self._shown = -SHOWN_IMPROVEMENT_SECONDS
        self._held: Improved | None = None
        self._machines = False

    def __call__(self, event: AnyEvent) -> None:
        match event:
            case Progress():
                self._release()
                self._screen.status(self._status(event))
            case WorkReported():
                self._nodes += event.nodes
            case Improved():
                self._improved(event)
            case SearchStarted():
                self._nodes = event.nodes
                self._machines = event.machines
                self._screen.line(self._started(event))
            case WorkerLost(died=True):
                self._screen.line(
                    f"worker {event.worker} died ({event.reason}); its work is done again"
                )
            case SearchFinished():
                self._release()
                self._screen.close()

    def _started(self, event: SearchStarted) -> str:
        how = f"{self._title}  {event.order}, strategy {event.strategy}, {_worker_slots(event)}"
        if event.resumed:
            how += f"; resumed at {duration(event.seconds)}, {count(event.nodes)} nodes"
        return how

    def _status(self, event: Progress) -> str:
        if self._machines and event.workers == 0:
            return f"{duration(event.seconds):>8}  {_waiting(event.refused)}"
        return f"{duration(event.seconds):>8}  {progress_text(event)}"

    def _improved(self, event: Improved) -> None:
        few = event.number <= ALWAYS_SHOWN_IMPROVEMENTS
        if event.cost is None:
            if few or event.number.bit_count() == 1:
                self._show(event)
        elif few or event.seconds - self._shown >= SHOWN_IMPROVEMENT_SECONDS:
            self._show(event)
        else:
            self._held = event

    def _release(self) -> None:
        if self._held is not None:
            self._show(self._held)

    def _show(self, event: Improved) -> None:
        self._held = None
        self._shown = event.seconds
        begin = f"#{event.number:<5} {duration(event.seconds):>8}  "
        end = f"  worker {event.worker}  nodes {count(self._nodes)}"
        if event.cost is not None:
            self._screen.line(f"{begin}best {cost(event.cost)}{end}")
            return
        room = max(self._screen.width - len(begin) - len(end), 20)
        self._screen.line(f"{begin}{short(event.solution, room)}{end}")


def _waiting(refused: Mapping[str, str]) -> str:
    """How many machines do not serve, for each reason."""
    parts = [f"{n} refused: {reason}" for reason, n in Counter(refused.values()).items()]
    return "; ".join(["waiting for machines", *parts])


def progress_text(event: Progress) -> str:
    """How far a search is, on one line."""
    parts = [f"{count(event.nodes)} nodes", f"{count(event.nodes_per_second)}/s"]
    if event.best_cost is not None:
        parts.append(f"best {cost(event.best_cost)}")
        if event.bound is not None:
            parts.append(f"bound {cost(event.bound)}")
            parts.append(f"gap {percent(gap_share(event.best_cost, event.bound))}")
    elif event.solutions:
        parts.append(f"{count(event.solutions)} solutions")
    parts.append(f"open {count(event.open)}")
    if event.explored is not None:
        parts.append(f"explored {percent(event.explored)}")
    if event.remaining is not None:
        parts.append(f"{duration(event.remaining)} to go")
    if event.checks or event.cache_hits or event.checks_in_flight:
        parts.append(f"z3 {event.checks_in_flight} in flight, {count(event.checks)} asked")
        parts.append(f"{count(event.cache_hits)} cache hits")
    return "  ".join(parts)


def _worker_slots(event: SearchStarted) -> str:
    if event.workers == 0:
        return "other machines" if event.machines else "this process"
    here = of(event.workers, "worker")
    return f"{here} and other machines" if event.machines else here
