"""`aiosearch bench strategies`: what each way of distributing a search is worth."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from typing import Any

import anyio

from ..comparing.arms import Arm
from ..comparing.contest import Contest
from ..comparing.drawing import plot
from ..comparing.intervals import Interval
from ..comparing.rows import Row, rows
from ..comparing.trial import Outcome
from ..comparing.writing import facts, to_csv
from .armlists import arms_of, on_unknown_of, workload
from .exits import Exit
from .figures import count, duration, short, size
from .interrupts import Interrupts
from .outfiles import require_drawing, require_place, write
from .output import complain, give, give_json, reserved_stdout, tell
from .screen import LiveScreen, NoScreen, PlainScreen, Screen
from .search import fastest_loop
from .tables import table
from .usage import UsageError


def run(arguments: argparse.Namespace) -> int:
    """Compares, tells a table, and gives the exit code."""
    require_place(arguments.csv)
    require_drawing(arguments.plot)
    if arguments.repeat < 1:
        raise UsageError(f"--repeat must be 1 or more, not {arguments.repeat}")
    if arguments.seconds is not None and not arguments.seconds > 0:
        raise UsageError(f"--seconds must be above 0, not {arguments.seconds:g}")
    problem = workload(arguments)
    arms = arms_of(arguments, problem)
    with reserved_stdout(), asyncio.Runner(loop_factory=fastest_loop()) as runner:
        contest, interrupted = runner.run(_compared(problem, arms, arguments))
    found = rows(problem, arms, contest.outcomes, contest.failures)
    _give(found, arguments, problem)
    if interrupted:
        tell("interrupted; these are the runs that were whole")
        return Exit.INTERRUPTED
    wrong = [row for row in found if row.wrong]
    for row in wrong:
        complain(f"{row.arm}: {row.trouble}")
    return Exit.FAILED if wrong else Exit.FINE


async def _compared(
    problem: Any, arms: list[Arm], arguments: argparse.Namespace
) -> tuple[Contest, bool]:
    """Runs everything; says too whether it was interrupted."""
    screen = _screen(arguments.quiet)
    contest = Contest(
        problem,
        arms,
        arguments.repeat,
        arguments.seconds,
        arguments.seed,
        lambda arm: screen.status(_status(contest, arm)),
        lambda outcome: screen.line(_ended(outcome)),
        on_unknown_of(arguments),
    )
    try:
        with anyio.CancelScope() as scope, Interrupts(scope.cancel, scope.cancel):
            await contest.run()
    finally:
        screen.close()
    return contest, scope.cancelled_caught


def _screen(quiet: bool) -> Screen:
    if quiet:
        return NoScreen()
    return LiveScreen() if sys.stderr.isatty() else PlainScreen(lambda: None)


def _status(contest: Contest, arm: Arm) -> str:
    done, all = contest.progress
    parts = [f"{done} of {all} runs"]
    if contest.remaining is not None:
        parts.append(f"{duration(contest.remaining)} to go")
    return "  ".join([*parts, f"now {arm}"])


def _ended(outcome: Outcome) -> str:
    much = duration(outcome.seconds) if outcome.complete else "stopped at the limit"
    return f"round {outcome.round + 1}  {much:>8}  {outcome.arm}"


def _give(found: list[Row], arguments: argparse.Namespace, problem: Any) -> None:
    title = f"{short(problem, 70)}, {arguments.repeat} rounds"
    write(arguments.csv, lambda: to_csv(found))
    write(arguments.plot, lambda: plot(found, title))
    if arguments.json:
        give_json(
            {
                "workload": repr(problem),
                "rounds": arguments.repeat,
                "arms": [facts(row) for row in found],
            }
        )
        return
    give(_table(found))
    if arguments.repeat == 1 and not arguments.quiet:
        tell("one round has no interval; --repeat 5 would give one")


HEAD = (
    "way", "time", "speed-up", "efficiency", "balance", "idle", "contention", "z3",
    "redundant", "steals", "messages", "bytes", "memory",
)  # fmt: skip


def _table(found: list[Row]) -> str:
    lines = [HEAD, *(_line(row) for row in found)]
    return table(lines, right=frozenset(range(1, len(HEAD))))


def _line(row: Row) -> tuple[str, ...]:
    if row.seconds is None:
        return (str(row.arm), row.trouble, *[""] * (len(HEAD) - 2))
    return (
        str(row.arm),
        _with_ends(row.seconds, "{:.3g}", "s"),
        "" if row.speedup is None else _with_ends(row.speedup, "{:.2f}"),
        _or_nothing(row.efficiency, "{:.3f}".format),
        _or_nothing(row.balance, "{:.3f}".format),
        _or_nothing(row.idle_share, "{:.1%}".format),
        _or_nothing(row.contention, "{:.1%}".format),
        _or_nothing(row.checks, count),
        _or_nothing(row.redundant, "{:.0f}".format),
        _or_nothing(row.steals, count),
        _or_nothing(row.messages, count),
        _or_nothing(row.bytes, size),
        _or_nothing(row.memory, size),
    )


def _or_nothing(value: float | None, told: Callable[[float], str]) -> str:
    return "" if value is None else told(value)


def _with_ends(found: Interval, form: str, unit: str = "") -> str:
    told = form.format(found.mean) + unit
    if found.low is None or found.high is None:
        return told
    return f"{told} ({form.format(found.low)} to {form.format(found.high)})"
