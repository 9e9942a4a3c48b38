"""One search of fused kernels by the console script: begun, watched, interrupted and ended."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread

from ..devices import Device
from ..events import AnyEvent, Progress, SearchFinished, WorkerLost
from ..search import Search
from ..superoptimizer.advice import limits_to_raise
from ..superoptimizer.clock import Clock, cpu_seconds
from ..superoptimizer.findings import Findings, superoptimize
from ..superoptimizer.going import Noting
from ..superoptimizer.refereeing import Refereed, referee
from ..superoptimizer.space import Space
from ..superoptimizer.tables import Tables
from ..tensor import Program
from .figures import duration
from .interrupts import Interrupts
from .screen import LiveScreen, NoScreen, PlainScreen, Screen
from .ticking import ticking
from .watch import progress_text


@dataclass(frozen=True)
class Wanted:
    """What is to be searched, and how."""

    program: Program
    device: Device
    space: Space
    top: int
    options: dict[str, Any]
    referee: bool
    quiet: bool


@dataclass(frozen=True)
class Outcome:
    """What a search came to, and what was asked about it."""

    findings: Findings
    raised: list[tuple[str, int]]
    """Where nothing was found: limits that alone stand in the way."""
    refereed: Refereed | None
    seconds: dict[str, float]
    """CPU seconds by what was done."""
    undone: tuple[str, ...] = ()
    """What a signal kept from being done once the search had ended."""


class _BrokenOffError(Exception):
    """Takes a thread out of its work."""


class Following:
    """Searches on the running loop; made and used once.

    The first signal ends what is going on: the search, the ranking, the verification. What comes
    after that is done, with what there is. The second ends everything, and so does one that comes
    before the search.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._screen: Screen = NoScreen()
        self._now = "reading the program"
        self._search: Search[Any, Any] | None = None
        self._has_begun = False
        self._enough = False
        self._is_off = False
        self.interrupted = False

    @property
    def at(self) -> str:
        """What is going on, or was when it ended."""
        return self._now

    async def run(self) -> Outcome | None:
        """Gives what was found; nothing where a signal ended it before there was anything."""
        self._started = time.monotonic()
        with ExitStack() as stack, suppress(_BrokenOffError), anyio.CancelScope() as self._scope:
            self._screen = self._opened()
            stack.callback(self._screen.close)
            stack.enter_context(Interrupts(self._stop, self._break_off))
            async with ticking(self._screen, self._status):
                return await self._outcome()
        return None

    def _opened(self) -> Screen:
        if self._wanted.quiet:
            return NoScreen()
        return LiveScreen() if sys.stderr.isatty() else PlainScreen(self._break_off)

    async def _outcome(self) -> Outcome:
        start_up = cpu_seconds()
        findings = await self._found()
        clock = Clock()
        raised, refereed = [], None
        noting = Noting(self._going)
        if not findings.graphs and findings.status == "complete":
            raised = await to_thread.run_sync(limits_to_raise, findings.problem, noting)
            clock.took("looking further")
        if self._wanted.referee:
            refereed = await self._refereed(findings.problem.tables)
            clock.took("referee")
        seconds = {"start-up": start_up, **findings.seconds, **clock.seconds}
        undone = (*findings.undone, *noting.undone)
        return Outcome(findings, raised, refereed, seconds, undone)

    async def _refereed(self, tables: Tables) -> Refereed:
        processes = max(1, self._wanted.options["workers"])
        return await referee(tables, processes=processes, going=self._going)

    async def _found(self) -> Findings:
        wanted = self._wanted
        return await superoptimize(
            wanted.program,
            wanted.device,
            space=wanted.space,
            top=wanted.top,
            on=self._heard,
            tell=self._tell,
            going=self._going,
            opened=self._begun,
            **wanted.options,
        )

    def _stop(self) -> None:
        self.interrupted = True
        if not self._has_begun:
            self._break_off()
        elif self._search is not None:
            self._search.stop("interrupted")
        else:
            self._enough = True

    def _break_off(self) -> None:
        self.interrupted = self._is_off = True
        self._scope.cancel()

    def _begun(self, search: Search[Any, Any]) -> None:
        self._search, self._has_begun = search, True
        self._tell("searching kernel graphs")

    def _heard(self, event: AnyEvent) -> None:
        match event:
            case Progress():
                self._now = f"searching: {progress_text(event)}"
            case WorkerLost(died=True):
                self._tell(f"worker {event.worker} died ({event.reason}); its work is done again")
            case SearchFinished():
                self._search = None

    def _going(self, text: str) -> bool:
        if self._is_off:
            raise _BrokenOffError
        self._now = text
        goes_on, self._enough = not self._enough, False
        return goes_on

    def _tell(self, text: str) -> None:
        self._screen.line(f"{self._past():>6}  {text}")

    def _status(self) -> str:
        return f"{self._past():>6}  {self._now} ..."

    def _past(self) -> str:
        return duration(time.monotonic() - self._started)
