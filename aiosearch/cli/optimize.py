"""`aiosearch optimize`: a faster function that computes the same, from the command line."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec

from ..capture.running import precision
from ..optimizer.plot import plot
from ..optimizer.reach import reached
from ..optimizer.report import Found, Report, Whole
from .best import best
from .callables import Target, target
from .exits import Exit
from .figures import duration
from .logs import logs_told
from .output import give, give_json, reserved_stdout, tell
from .results import facts
from .search import fastest_loop
from .tuning import Tuning
from .usage import UsageError


def run(arguments: argparse.Namespace) -> int:
    """Optimizes a function, tells the best few, and gives the exit code."""
    # The process that times on a GPU needs the memory that jax would take for this one.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    arguments.file = Path(arguments.file).expanduser() if arguments.file else None
    for path in (arguments.emit, arguments.plot):
        _require_folder(path)
    with reserved_stdout(), logs_told(False):
        report = _optimized(target(arguments), arguments)
    if report is None:
        tell("interrupted; answers that were found are kept")
        return Exit.INTERRUPTED
    if not report.found:
        reasons = "; ".join(report.left_alone) or "it computes nothing"
        raise UsageError(f"nothing in {arguments.function} can be searched: {reasons}")
    _write(arguments.emit, lambda: "\n\n".join(one.answer.text() for one in report.found))
    _write(arguments.plot, lambda: plot(report))
    if arguments.json:
        give_json(_facts(arguments, report))
    else:
        give(_told(report))
    return Exit.FINE


def _optimized(wanted: Target, arguments: argparse.Namespace) -> Report | None:
    with precision(wanted.types), asyncio.Runner(loop_factory=fastest_loop()) as runner:
        try:
            return runner.run(Tuning(wanted, arguments).run())
        except KeyboardInterrupt:
            return None


def _told(report: Report) -> str:
    parts = [best(one) for one in report.found]
    parts += [str(report.whole)] if report.whole else []
    parts += [f"left alone: {why}" for why in report.left_alone]
    if all(reached(one.answer) is None for one in report.found):
        parts.append("the device's ceilings are not measured: aiosearch doctor --measure")
    return "\n\n".join([*parts, f"in {duration(report.seconds)}"])


def _facts(arguments: argparse.Namespace, report: Report) -> dict[str, Any]:
    return {
        "target": arguments.function,
        "faster": report.faster,
        "seconds": report.seconds,
        "programs": [_program(one) for one in report.found],
        "whole": _whole(report.whole),
        "left_alone": report.left_alone,
    }


def _whole(whole: Whole | str) -> dict[str, Any] | str | None:
    if isinstance(whole, Whole):
        return {**facts(whole.answer), "remembered": whole.remembered}
    return whole or None


def _program(found: Found) -> dict[str, Any]:
    return {
        **facts(found.answer),
        "remembered": found.remembered,
        "in_doubt": found.in_doubt,
        "ceiling": reached(found.answer),
        "tried": msgspec.to_builtins(found.tried),
    }


def _require_folder(path: str | None) -> None:
    """What has nowhere to be written is said before anything is searched."""
    if path is not None and not Path(path).expanduser().absolute().parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {Path(path).parent}")


def _write(path: str | None, made: Any) -> None:
    if path is None:
        return
    try:
        Path(path).expanduser().write_text(made(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    tell(f"wrote {path}")
