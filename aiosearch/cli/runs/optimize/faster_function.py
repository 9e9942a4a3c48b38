"""`aiosearch optimize` for a function: what is searched, timed, printed and written."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ....capture.jax_function import precision
from ....capture.names import shown
from ....display.tables import shows_colour
from ....documents import Document
from ....optimizer import (
    Found,
    Report,
    WholeFunctionResult,
    plot,
    report_page,
    roofline_fraction,
)
from ...inputs.functions import FunctionTarget, source_files, target
from ...output.files import require_other, require_place, write
from ...output.streams import (
    Exit,
    UsageError,
    give,
    give_json,
    logs_to_stderr,
    reserved_stdout,
    tell,
)
from ...output.units import duration
from ..results import facts, require_store
from ..search import fastest_loop
from .progress import Made, OptimizeCommand

_WIDTH, _MOST_COLUMNS = 80, 120
"""Columns of a table where nothing says how many there are, and at most: wider ones are hard to
read."""

if TYPE_CHECKING:
    from ...commands.optimize import OptimizeArguments


def run(arguments: OptimizeArguments) -> int:
    """Optimizes a function, tells the best few, and gives the exit code."""
    # The process that times on a GPU needs the memory that jax would take for this one.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if arguments.plot is not None and Path(arguments.plot).suffix != ".svg":
        raise UsageError(f"--plot {arguments.plot}: it is drawn as SVG; write a name with .svg")
    for path in (arguments.emit, arguments.plot, arguments.report):
        require_place(path)
    require_store(arguments.file)
    with reserved_stdout(), logs_to_stderr(False):
        function = target(arguments)
        _require_free(arguments, function)
        tuning = OptimizeCommand(function, arguments)
        optimized = _optimized(function, tuning)
    if optimized is None or (tuning.interrupted and _has_nothing_yet(optimized)):
        tell(interrupted(tuning.kept))
        return Exit.INTERRUPTED
    report = optimized.report
    assert report is not None
    if not report.found and not report.unfinished:
        reasons = "; ".join(report.left_alone) or "it computes nothing"
        raise UsageError(f"nothing in {arguments.function} can be searched: {reasons}")
    _emit(arguments.emit, optimized)
    _write(arguments.plot, lambda: plot(report))
    _write(arguments.report, lambda: report_page(report))
    if arguments.json:
        give_json(_facts(arguments, report))
    else:
        give(_report_text(report))
    return Exit.FINE


def _require_free(arguments: OptimizeArguments, function: FunctionTarget) -> None:
    """What is read is not written over."""
    uses = dict.fromkeys(source_files(function), f"the source of {function.name}")
    uses |= {arguments.file: "the file of answers"} if arguments.file else {}
    for flag in ("emit", "plot", "report"):
        require_other(f"--{flag}", getattr(arguments, flag), uses)


def interrupted(names: Sequence[str]) -> str:
    """What holds where a signal ended it before anything faster was verified."""
    known = f"; what was found for {', '.join(names)} is kept" if names else ""
    return f"interrupted before anything faster was verified{known}; the same command goes on"


def _optimized(function: FunctionTarget, tuning: OptimizeCommand) -> Made | None:
    with precision(function.all_types), asyncio.Runner(loop_factory=fastest_loop()) as runner:
        try:
            return runner.run(tuning.run())
        except KeyboardInterrupt:
            return None


def _has_nothing_yet(optimized: Made) -> bool:
    """Whether it was stopped before anything faster was verified."""
    report = optimized.report
    return report is not None and report.unfinished and not report.faster


def _report_text(report: Report) -> str:
    columns = shutil.get_terminal_size((_WIDTH, 0)).columns if sys.stdout.isatty() else _WIDTH
    table = report.table(min(columns, _MOST_COLUMNS), shows_colour(sys.stdout))
    return table if report.unfinished else f"{table}\n\nin {duration(report.seconds)}"


def _facts(arguments: OptimizeArguments, report: Report) -> Document:
    return {
        "target": arguments.function,
        "faster": report.faster,
        "speedup": report.speedup,
        "seconds": report.seconds,
        "unfinished": report.unfinished,
        "programs": [_program(outcome, report.used(outcome)) for outcome in report.found],
        "whole": _whole(report.whole),
        "left_alone": report.left_alone,
    }


def _whole(whole: WholeFunctionResult | str) -> Document | str | None:
    if isinstance(whole, WholeFunctionResult):
        doubts = {"remembered": whole.remembered, "in_doubt": whole.in_doubt}
        return {**facts(whole.answer), **doubts}
    return whole or None


def _program(outcome: Found, used: bool) -> Document:
    answer_facts = facts(outcome.answer)
    answer_facts["evidence"].pop("tried", None)  # it is said below
    return {
        **answer_facts,
        "used": used,
        "remembered": outcome.remembered,
        "in_doubt": outcome.in_doubt,
        "ceiling": roofline_fraction(outcome.answer),
        "tried": msgspec.to_builtins(outcome.tried),
    }


def _emit(path: str | None, optimized: Made) -> None:
    """Writes the code, and says where it is not the function itself."""
    if path is not None and not optimized.source():
        tell(f"nothing faster was found to write to {path}")
        return
    _write(path, optimized.source)
    if path is not None and optimized.lacks:
        name = shown(optimized.original)
        tell(f"{path} has the parts that are replaced, and not {name} itself: {optimized.lacks}")


def _write(path: str | None, text: Callable[[], str]) -> None:
    write(path, text)
    if path is not None:
        tell(f"wrote {path}")
