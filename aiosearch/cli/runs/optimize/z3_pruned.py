"""`aiosearch optimize --search-only --prune z3`: as the first version of Mirage did it.

One level of that search, the thread block: every prefix of a program is put to z3 as it is written,
and what z3 does not prove to be a part of the reference is dropped.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import anyio

from ....display.tables import table
from ....documents import Document
from ....lab.mirage.blocks import LONGEST, BlockProgram, Blocks
from ....lab.mirage.tasks import TASKS
from ....result import Result
from ....search import Search
from ....superoptimizer import cpu_seconds
from ...output.screen import LiveScreen, NoScreen, PlainScreen, ProgressPrinter, Screen
from ...output.streams import (
    Exit,
    UsageError,
    give,
    give_json,
    logs_to_stderr,
    reserved_stdout,
    tell,
)
from ...output.units import of
from ...signals import Interrupts
from ..search import fastest_loop
from .fused_run import seconds_text

if TYPE_CHECKING:
    from ...commands.optimize import OptimizeArguments


LENGTH = 4
"""Operators beside the inputs, where nothing is said; each one more takes many times as long."""
INTERRUPTED = "interrupted"
_OTHER_WAY = (
    "svg",
    "kernels",
    "custom_kernels",
    "device",
    "floats",
    "bound",
    "referee",
    "shape",
    "arg",
    "dtype",
)


def run(arguments: OptimizeArguments) -> int:
    """Searches, tells the counts, and gives the exit code."""
    problem = _problem(arguments)
    start_up = cpu_seconds()
    with reserved_stdout(), logs_to_stderr(False):
        result = _searched(_Z3PrunedRun(problem, arguments))
    if result is None:
        tell("interrupted")
        return Exit.INTERRUPTED
    seconds = {"start-up": start_up, "search": cpu_seconds() - start_up}
    if arguments.json:
        give_json(_facts(problem, result, seconds))
    else:
        give(_text(problem, result, seconds))
    return Exit.INTERRUPTED if result.reason == INTERRUPTED else Exit.FINE


def _problem(arguments: OptimizeArguments) -> Blocks:
    name = arguments.function.replace("_", "-")
    if name not in TASKS:
        tasks = ", ".join(task.replace("-", "_") for task in TASKS)
        raise UsageError(f"--prune z3 knows {tasks}, each at one shape, not {arguments.function}")
    for option in _OTHER_WAY:
        if getattr(arguments, option):
            raise UsageError(f"--{option.replace('_', '-')} is not for --prune z3")
    inputs = len(TASKS[name].inputs)
    operators = arguments.block_operators or inputs + LENGTH
    if not inputs < operators <= inputs + LONGEST:
        limits = f"{inputs + 1} to {inputs + LONGEST}"
        raise UsageError(f"--block-operators is {limits} here, {inputs} of them the inputs")
    return Blocks(name, operators - inputs)


class _Z3PrunedRun:
    """One search on the running loop; made and used once."""

    def __init__(self, problem: Blocks, arguments: OptimizeArguments) -> None:
        self._quiet = arguments.quiet
        self._screen = self._opened()
        self._search: Search[Any, BlockProgram] = Search(
            problem,
            workers=arguments.workers,
            strategy=arguments.strategy,
            order="depth-first",
            on=ProgressPrinter(self._screen, f"{problem.task}, {of(problem.length, 'operator')}"),
            on_unknown="drop",
            cache=None,
            journal=arguments.journal,
            resume=arguments.resume,
        )

    async def run(self) -> Result[BlockProgram]:
        """Gives what was found; a second signal ends it at once."""
        try:
            with anyio.CancelScope() as scope, Interrupts(self._stop, scope.cancel):
                async with self._search:
                    await self._search.wait()
        finally:
            self._screen.close()
        return self._search.result

    def _opened(self) -> Screen:
        if self._quiet:
            return NoScreen()
        return LiveScreen() if sys.stderr.isatty() else PlainScreen(self._stop)

    def _stop(self) -> None:
        self._search.stop(INTERRUPTED)


def _searched(run: _Z3PrunedRun) -> Result[BlockProgram] | None:
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        try:
            return runner.run(run.run())
        except KeyboardInterrupt:
            return None


def _text(problem: Blocks, result: Result[BlockProgram], seconds: dict[str, float]) -> str:
    facts = _facts(problem, result, seconds)
    rows = [
        ("search", f"{facts['status']}, {of(facts['operators'], 'operator')} beside the inputs"),
        ("found", f"{of(facts['solutions'], 'program')}, each tiling and order its own"),
        ("states", f"{facts['states']:,}"),
        ("queries", f"{facts['queries']:,}, one for each term as it is written"),
        ("", f"{facts['proved']:,} proved, {facts['unknown']:,} unknown and so pruned"),
    ]
    parts = [f"{problem.task}, pruned by z3", table(rows)]
    if result.best is not None:
        parts.append(f"the first: {result.best.text}")
    elif facts["status"] == "complete":
        longer = len(TASKS[problem.task].inputs) + problem.length + 1
        parts.append(f"nothing has so few operators: raise --block-operators to {longer} or more")
    return "\n\n".join([*parts, seconds_text(seconds)])


def _facts(problem: Blocks, result: Result[BlockProgram], seconds: dict[str, float]) -> Document:
    figures = result.statistics
    checks = figures.checks
    assert checks is not None
    return {
        "task": problem.task,
        "operators": problem.length,
        "status": str(result.status),
        "solutions": figures.solutions,
        "states": figures.nodes,
        "queries": checks.checks,
        "proved": checks.proved,
        "unknown": checks.unknown,
        "z3_seconds": checks.cpu_seconds,
        "programs": list(result.solutions),
        "cpu_seconds": {**seconds, "all": sum(seconds.values())},
    }
