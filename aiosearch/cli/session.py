"""One search of the console script: begun, watched, interrupted and ended."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from ..events import Hook
from ..result import Result, SearchStatus
from ..search import Search
from ..trace import ChromeTrace
from .exits import Exit
from .figures import short
from .goingon import going_on, higher
from .interrupts import Interrupts
from .jsonlines import JsonLines
from .output import complain, tell
from .request import Request
from .screen import LiveScreen, NoScreen, PlainScreen, Screen
from .summary import summary
from .watch import Watch

PROGRESS_SECONDS = 0.25


@dataclass(frozen=True)
class Manner:
    """How a search is shown."""

    stdout: int
    """The descriptor that the result goes to."""
    json: bool
    quiet: bool
    verbose: bool
    trace: Path | None


@dataclass(frozen=True)
class Ending:
    """What remains to be done after a search."""

    code: Exit
    best: Any = None
    """The solution to show; None where there is none, or nobody wants it."""


class Session:
    """Runs one search on the running loop; made and used once."""

    def __init__(self, request: Request, manner: Manner) -> None:
        self._request = request
        self._manner = manner
        self._screen: Screen = NoScreen()
        self._lines: JsonLines | None = None
        self._unread = False
        self._open = False

    async def run(self) -> Ending:
        """Searches to the end, and tells it."""
        with ExitStack() as stack, anyio.CancelScope() as self._scope:
            hooks = self._hooks(stack)
            self._search: Search[Any, Any] = Search(
                self._request.problem,
                on=hooks,
                progress_seconds=PROGRESS_SECONDS,
                **self._request.options,
            )
            with Interrupts(self._stop, self._scope.cancel) as self._interrupts:
                await self._through()
        return self._end()

    def _hooks(self, stack: ExitStack) -> list[Hook]:
        hooks: list[Hook] = []
        if self._is_watched():
            terminal = sys.stderr.isatty()
            self._screen = LiveScreen() if terminal else PlainScreen(self._nobody_reads)
            stack.callback(self._screen.close)
            hooks.append(Watch(self._screen, short(self._request.problem, 100)))
        if self._manner.json:
            self._lines = JsonLines(self._manner.stdout, self._nobody_reads)
            hooks.append(self._lines)
        if self._manner.trace is not None:
            hooks.append(stack.enter_context(ChromeTrace(self._manner.trace)))
        return hooks

    def _is_watched(self) -> bool:
        """Says whether a person is told; JSON lines and a live one do not share a terminal."""
        shared = not sys.stderr.isatty() or os.isatty(self._manner.stdout)
        return not (self._manner.quiet or (self._manner.json and shared))

    async def _through(self) -> None:
        async with self._search as search:
            self._open = True
            self._invite()
            try:
                await search.wait()
            except Exception as error:
                if error is not search.result.error:
                    raise
        if self._lines is not None:
            await self._lines.drain()

    def _invite(self) -> None:
        """Says how other machines join."""
        listener = self._request.options["listener"]
        if listener is not None and not self._manner.quiet:
            self._screen.line(f"machines join with: {listener.invitation}")

    def _stop(self) -> None:
        if self._open:
            self._search.stop("interrupted")
        else:
            self._scope.cancel()

    def _nobody_reads(self) -> None:
        self._unread = True
        self._stop()

    def _end(self) -> Ending:
        if self._unread:
            return self._end_unread()
        if not self._open:
            tell("interrupted before the search began")
            return Ending(Exit.INTERRUPTED)
        result = self._search.result
        if self._interrupts.count < 2:
            self._screen.line(summary(result, solution=not os.isatty(self._manner.stdout)))
        else:
            self._screen.line("interrupted")
        code = _exit_code(result, self._interrupts.count)
        if result.error is not None:
            self._complain(result.error)
        if not self._manner.quiet:
            self._tell_how_to_go_on(result)
        unwanted = self._manner.json or self._interrupts.count > 1
        return Ending(code, None if unwanted else result.best)

    def _end_unread(self) -> Ending:
        error = self._lines.error if self._lines is not None else None
        if error is None or isinstance(error, BrokenPipeError):
            return Ending(Exit.FINE)
        complain(f"cannot write to stdout: {error.strerror}")
        return Ending(Exit.FAILED)

    def _complain(self, error: Exception) -> None:
        complain(str(error))
        notes = getattr(error, "__notes__", [])
        if self._manner.verbose:
            tell("\n".join(notes).rstrip())
        elif notes:
            tell("(-v shows the worker's traceback)")

    def _tell_how_to_go_on(self, result: Result[Any]) -> None:
        if self._request.journal is None or result.status is SearchStatus.COMPLETE:
            return
        how, limits = "to go on", dict[str, str]()
        if result.status is SearchStatus.FAILED:
            how = "to try again from there"
        elif result.status is SearchStatus.LIMIT:
            limits = higher(self._request.options["limits"], result.statistics)
            how += ", with a higher limit" if limits else ""
        tell(f"{how}: {going_on(self._request.argv, limits)}")


def _exit_code(result: Result[Any], interrupts: int) -> Exit:
    if result.status is SearchStatus.FAILED:
        return Exit.FAILED
    if interrupts > 1 or (interrupts and result.status is SearchStatus.CANCELLED):
        return Exit.INTERRUPTED
    return Exit.FINE
