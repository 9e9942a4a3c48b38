"""One search of the console script: begun, watched, ended, its summary, and how to resume it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from ...checks import VerifierStatistics
from ...display.live_page import REFRESH_SECONDS, LivePage
from ...display.search_report import SearchReport
from ...display.tables import table
from ...events import Hook
from ...limits import Limits
from ...problem import AnyProblem
from ...result import Result, SearchStatus
from ...search import Search
from ...statistics import Statistics, WorkerStatistics
from ...trace import ChromeTrace
from ..inputs.problems import unshared
from ..inputs.request import Request, chosen_settings, make_request
from ..inputs.settings import show_settings
from ..output.files import require_place
from ..output.json_lines import JsonLines
from ..output.screen import LiveScreen, NoScreen, PlainScreen, ProgressPrinter, Screen
from ..output.streams import (
    Exit,
    complain,
    dated_messages,
    give,
    logs_to_stderr,
    reserved_stdout,
    tell,
)
from ..output.units import cost, count, duration, of, short, size
from ..signals import Interrupts

if TYPE_CHECKING:
    from ..commands.search import SearchArguments


def resume_command(argv: Sequence[str], limits: Mapping[str, str] = {}) -> str:
    """What to type to go on where the journal of this command stops, with other limits."""
    words = ["aiosearch", *argv]
    for name, value in limits.items():
        _set(words, f"--{name}", value)
    if "--resume" not in words:
        words.append("--resume")
    return shlex.join(words)


def _set(words: list[str], flag: str, value: str) -> None:
    """Changes a flag where it is given, and gives it where another origin had set it."""
    places = [place for place, word in enumerate(words) if word.partition("=")[0] == flag]
    for place in places:
        if words[place] == flag:
            words[place + 1] = value
        else:
            words[place] = f"{flag}={value}"
    if not places:
        words += [flag, value]


def higher(limits: Limits, figures: Statistics) -> dict[str, str]:
    """As much again of what a search that was stopped by a limit has used up.

    Questions to z3 are counted from 0 in each run, so their limit may stay.
    """
    used = {"seconds": figures.seconds, "nodes": figures.nodes, "solutions": figures.solutions}
    raised = {
        name: f"{limit * (round(used[name] / limit) + 1):.15g}"
        for name in used
        if (limit := getattr(limits, name)) is not None and used[name] >= limit
    }
    if not raised and limits.memory is not None and not _asked_enough(limits, figures):
        raised["memory"] = size(2 * limits.memory).replace(" ", "")
    return raised


def _asked_enough(limits: Limits, figures: Statistics) -> bool:
    if limits.checks is None or figures.checks is None:
        return False
    return figures.checks.checks >= limits.checks


AnyResult: TypeAlias = "Result[Any]"
"""How a search ended, with solutions of a type that the user's problem alone has."""

_NOTED = ("pruned", "duplicates", "reopened", "skipped")


def summary(result: AnyResult, *, solution: bool) -> str:
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
        parts.append(_workers(figures))
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


def _workers(figures: Statistics) -> str:
    """What each did in this run, where others are on which machine, and what was done before."""
    workers = figures.workers
    rows = [("worker", "nodes", "busy", "waiting", "idle", "tasks")]
    rows += [(str(number), *_shares(worker)) for number, worker in enumerate(workers)]
    before = figures.nodes - sum(worker.nodes for worker in workers)
    if before > 0:
        rows.append(("before", f"{before:,}", "", "", "", ""))
    if not any(worker.host for worker in workers):
        return table(rows, right=frozenset(range(6)))
    places = ["machine", *(worker.host or "this one" for worker in workers), ""]
    return table(
        [(*row, place) for row, place in zip(rows, places, strict=False)],
        right=frozenset(range(6)),
    )


def _shares(worker: WorkerStatistics) -> tuple[str, str, str, str, str]:
    times = (worker.busy, worker.waiting, worker.idle)
    whole = sum(times) or 1.0
    busy, waiting, idle = (f"{time / whole:.0%}" for time in times)
    return f"{worker.nodes:,}", busy, waiting, idle, str(worker.tasks)


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
    report: str | None = None
    """Where a page of it is written."""
    watch: int | None = None
    """The port on which that page is served meanwhile."""


@dataclass(frozen=True)
class SearchEnding:
    """What remains to be done after a search."""

    code: Exit
    best: object = None
    """The solution to show; None where there is none, or nobody wants it."""


class SearchCommand:
    """Runs one search on the running loop; made and used once."""

    def __init__(self, request: Request, manner: Manner) -> None:
        self._request = request
        self._manner = manner
        self._screen: Screen = NoScreen()
        self._lines: JsonLines | None = None
        self._unread = False
        self._open = False

    async def run(self) -> SearchEnding:
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
            hooks.append(ProgressPrinter(self._screen, short(self._request.problem, 100)))
        if self._manner.json:
            self._lines = JsonLines(self._manner.stdout, self._nobody_reads)
            hooks.append(self._lines)
        if self._manner.report is not None or self._manner.watch is not None:
            hooks.append(self._reporting(stack))
        if self._manner.trace is not None:
            hooks.append(stack.enter_context(ChromeTrace(self._manner.trace)))
        return hooks

    def _reporting(self, stack: ExitStack) -> Hook:
        """Gathers a page, which is written at the end or served meanwhile."""
        report = SearchReport(self._manner.report, bound=_root_bound(self._request.problem))
        if self._manner.watch is not None:
            live = LivePage(self._manner.watch, lambda: report.page(REFRESH_SECONDS))
            stack.enter_context(live)
            tell(f"watch it at {live.address}")
        return report

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

    def _end(self) -> SearchEnding:
        if self._unread:
            return self._end_unread()
        if not self._open:
            tell("interrupted before the search began")
            return SearchEnding(Exit.INTERRUPTED)
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
        return SearchEnding(code, None if unwanted else result.best)

    def _end_unread(self) -> SearchEnding:
        error = self._lines.error if self._lines is not None else None
        if error is None or isinstance(error, BrokenPipeError):
            return SearchEnding(Exit.FINE)
        complain(f"cannot write to stdout: {error.strerror}")
        return SearchEnding(Exit.FAILED)

    def _complain(self, error: Exception) -> None:
        complain(str(error))
        notes = getattr(error, "__notes__", [])
        if self._manner.verbose:
            tell("\n".join(notes).rstrip())
        elif notes:
            tell("(-v shows the worker's traceback)")

    def _tell_how_to_go_on(self, result: AnyResult) -> None:
        if self._request.journal is None or result.status is SearchStatus.COMPLETE:
            return
        how, limits = "to go on", dict[str, str]()
        if result.status is SearchStatus.FAILED:
            how = "to try again from there"
        elif result.status is SearchStatus.LIMIT:
            limits = higher(self._request.options["limits"], result.statistics)
            how += ", with a higher limit" if limits else ""
        tell(f"{how}: {resume_command(self._request.argv, limits)}")


def _exit_code(result: AnyResult, interrupts: int) -> Exit:
    if result.status is SearchStatus.FAILED:
        return Exit.FAILED
    if interrupts > 1 or (interrupts and result.status is SearchStatus.CANCELLED):
        return Exit.INTERRUPTED
    return Exit.FINE


pass


def run(arguments: SearchArguments) -> int:
    """Searches, and gives the exit code."""
    if arguments.show_settings:
        give(show_settings(chosen_settings(arguments)))
        return Exit.FINE
    if arguments.record_tree:
        from .record_tree import run as record_tree  # for recordings alone

        return record_tree(arguments.record_tree, arguments)
    require_place(arguments.report)
    with reserved_stdout() as stdout, logs_to_stderr(arguments.verbose):
        request = make_request(arguments)
        if request.options["listener"] is not None and not arguments.quiet:
            _warn(request)
        # The log of a search that others join is read beside theirs, perhaps days later
        shared = request.options["listener"] is not None and not sys.stderr.isatty()
        with dated_messages() if shared else nullcontext():
            ending = _search(request, _manner(arguments, stdout))
    if ending.best is not None:
        give(repr(ending.best))
    return ending.code


def _warn(request: Request) -> None:
    """Says at once where machines would come in vain."""
    if reason := unshared(request.problem):
        tell(f"warning: machines that join will do nothing: {reason}")


def _manner(arguments: SearchArguments, stdout: int) -> Manner:
    trace = Path(arguments.trace) if arguments.trace else None
    return Manner(
        stdout, arguments.json, arguments.quiet, arguments.verbose, trace, arguments.report,
        arguments.watch,
    )  # fmt: skip


def _root_bound(problem: AnyProblem) -> float | None:
    """What no cost is below, by the problem's own bound; `None` where it has none."""
    bound = getattr(problem, "bound", None)
    if bound is None:
        return None
    try:
        return float(bound(problem.root()))
    except Exception:  # the search itself says what is wrong with it
        return None


def _search(request: Request, manner: Manner) -> SearchEnding:
    try:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            return runner.run(SearchCommand(request, manner).run())
    except KeyboardInterrupt:
        tell("interrupted")
        if request.journal is not None:
            tell(f"to go on: {resume_command(request.argv)}")
        return SearchEnding(Exit.INTERRUPTED)


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Gives uvloop's loop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
