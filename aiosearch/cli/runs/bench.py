"""`aiosearch bench strategies`: its arms, and what each way of distributing a search is worth."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from ...display.tables import table
from ...engine.run.run import OnUnknown
from ...lab.arms import Arm, cross
from ...lab.ladder import RUNGS
from ...lab.rows import ArmRow, Interval, facts, rows, to_csv
from ...lab.speedup_chart import plot
from ...lab.trial import ArmContest, TrialOutcome
from ...orders import ORDERS, find_order
from ...pool import MOST_WORKERS, usable_cores
from ...remote.links import find_transport, has_transport
from ...strategies import find_strategy, list_strategies
from ..inputs.fields import split
from ..inputs.objects import UserProblem
from ..inputs.problems import build, unshared
from ..inputs.switches import switches_of
from ..output.files import require_drawing, require_place, write
from ..output.screen import LiveScreen, NoScreen, PlainScreen, Screen
from ..output.streams import Exit, UsageError, complain, give, give_json, reserved_stdout, tell
from ..output.units import count, duration, short, size
from ..signals import Interrupts
from .search import fastest_loop

if TYPE_CHECKING:
    from ..commands.bench import BenchArguments


def workload(arguments: BenchArguments) -> UserProblem:
    """The problem: one of the ladder by its name, or any other as for `aiosearch search`."""
    return build(arguments.workload, split(arguments.set, "--set"), None)


def on_unknown_of(arguments: BenchArguments) -> OnUnknown:
    """What becomes of a node whose verdict is unknown: as asked, or as the rung says."""
    rung = RUNGS.get(arguments.workload)
    return arguments.on_unknown or (rung.on_unknown if rung else "defer")


def arms_of(arguments: BenchArguments, problem: UserProblem) -> list[Arm]:
    """Every combination of what was asked for."""
    switches = switches_of(arguments)
    return cross(
        _strategies(arguments.strategy, problem),
        _orders(arguments.order, problem),
        _workers(arguments.workers),
        switches.verdicts,
        switches.solver,
        switches.split,
    )


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _strategies(text: str, problem: UserProblem) -> list[str]:
    if text != "all":
        names = _listed(text)
        for name in names:
            find_strategy(name)
            if reason := _unfit(name, problem):
                raise UsageError(f"--strategy {name}: {reason}")
        return names
    names = []
    for info in list_strategies():
        if reason := info.error or _unfit(info.name, problem) or _elsewhere(info.name):
            tell(f"left out: {info.name}: {reason}")
        else:
            names.append(info.name)
    return names


def _unfit(strategy: str, problem: UserProblem) -> str:
    return unshared(problem) if has_transport(strategy) else ""


def _elsewhere(strategy: str) -> str:
    """Why a strategy runs only where it is asked for by name."""
    if has_transport(strategy) and find_transport(strategy).listener(None, None).covers_here:
        return "it brings machines of its own; name it, with --workers as many as those have"
    return ""


def _orders(text: str | None, problem: UserProblem) -> list[str]:
    if text is None:
        kind = type(find_order(None, problem))
        return [next(name for name, order in ORDERS.items() if order is kind)]
    names = _listed(text)
    for name in names:
        find_order(name, problem)
    return names


def _workers(text: str | None) -> list[int]:
    if text is None:
        return [2**power for power in range(usable_cores().bit_length())]
    try:
        numbers = [int(part) for part in _listed(text)]
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number <= MOST_WORKERS for number in numbers):
        raise UsageError(
            f"--workers takes numbers from 1 to {MOST_WORKERS}, as 1,2,4, not {text!r}"
        )
    return numbers


def run(arguments: BenchArguments) -> int:
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
    arm_rows = rows(problem, arms, contest.outcomes, contest.failures)
    _give(arm_rows, arguments, problem)
    if interrupted:
        tell("interrupted; these are the runs that were whole")
        return Exit.INTERRUPTED
    wrong = [row for row in arm_rows if row.wrong]
    for row in wrong:
        complain(f"{row.arm}: {row.trouble}")
    return Exit.FAILED if wrong else Exit.FINE


async def _compared(
    problem: UserProblem, arms: list[Arm], arguments: BenchArguments
) -> tuple[ArmContest, bool]:
    """Runs everything; says too whether it was interrupted."""
    screen = _screen(arguments.quiet)
    contest = ArmContest(
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


def _status(contest: ArmContest, arm: Arm) -> str:
    done, all = contest.progress
    parts = [f"{done} of {all} runs"]
    if contest.remaining is not None:
        parts.append(f"{duration(contest.remaining)} to go")
    return "  ".join([*parts, f"now {arm}"])


def _ended(outcome: TrialOutcome) -> str:
    much = duration(outcome.seconds) if outcome.complete else "stopped at the limit"
    return f"round {outcome.round + 1}  {much:>8}  {outcome.arm}"


def _give(arm_rows: list[ArmRow], arguments: BenchArguments, problem: UserProblem) -> None:
    title = f"{short(problem, 70)}, {arguments.repeat} rounds"
    write(arguments.csv, lambda: to_csv(arm_rows))
    write(arguments.plot, lambda: plot(arm_rows, title))
    if arguments.json:
        give_json(
            {
                "workload": repr(problem),
                "rounds": arguments.repeat,
                "arms": [facts(row) for row in arm_rows],
            }
        )
        return
    give(_table(arm_rows))
    if arguments.repeat == 1 and not arguments.quiet:
        tell("one round has no interval; --repeat 5 would give one")
    if arguments.repeat == 2 and not arguments.quiet:
        tell("two rounds give a wide interval; --repeat 5 would give a narrow one")


HEAD = (
    "way", "time", "speed-up", "nodes", "solutions", "efficiency", "balance", "idle",
    "contention", "z3", "redundant", "steals", "messages", "bytes", "memory",
)  # fmt: skip


def _table(arm_rows: list[ArmRow]) -> str:
    lines = [HEAD, *(_line(row) for row in arm_rows)]
    return table(lines, right=frozenset(range(1, len(HEAD))))


def _line(row: ArmRow) -> tuple[str, ...]:
    if row.seconds is None:
        return (str(row.arm), row.trouble, *[""] * (len(HEAD) - 2))
    return (
        str(row.arm),
        _with_ends(row.seconds, "{:.3g}", "s"),
        "" if row.speedup is None else _with_ends(row.speedup, "{:.2f}"),
        _or_nothing(row.nodes, "{:,}".format),
        _or_nothing(row.solutions, "{:,}".format),
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


def _or_nothing(value: float | None, text_of: Callable[[float], str]) -> str:
    return "" if value is None else text_of(value)


def _with_ends(interval: Interval, form: str, unit: str = "") -> str:
    text = form.format(interval.mean) + unit
    if interval.low is None or interval.high is None:
        return text
    return f"{text} ({form.format(interval.low)} to {form.format(interval.high)})"
