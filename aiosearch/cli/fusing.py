"""`aiosearch optimize --search-only`: every equal program of fused kernels, the best told."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from ..superoptimizer.clock import cpu_seconds
from ..superoptimizer.devices import Device, DeviceError, device, this_machine
from ..superoptimizer.findings import Findings
from ..superoptimizer.formal import read
from ..superoptimizer.space import Space
from ..tensor import Program
from . import fused, targets
from .drawings import draw_all, require_folder
from .exits import Exit
from .following import Following, Wanted
from .logs import logs_told
from .output import give, give_json, reserved_stdout, tell
from .search import fastest_loop
from .usage import UsageError

UNMEASURED = "A100"
"""Predicted for where this machine was not measured."""


def run(arguments: argparse.Namespace) -> int:
    """Searches, tells the best, and gives the exit code."""
    wanted = _wanted(arguments)
    if arguments.space:
        _show_space(wanted, arguments.json)
        return Exit.FINE
    require_folder(arguments.svg)
    start_up = cpu_seconds()
    with reserved_stdout(), logs_told(False):
        following = Following(wanted)
        findings = _searched(following)
    if findings is None:
        tell("interrupted")
        return Exit.INTERRUPTED
    _give(findings, start_up, arguments)
    return Exit.INTERRUPTED if following.interrupted else Exit.FINE


def _wanted(arguments: argparse.Namespace) -> Wanted:
    options: dict[str, Any] = {
        name: getattr(arguments, name) for name in ("workers", "strategy", "journal", "resume")
    }
    return Wanted(
        _program(arguments),
        _device(arguments.device),
        _space(arguments),
        arguments.top,
        options,
        arguments.quiet,
    )


def _program(arguments: argparse.Namespace) -> Program:
    name, types = arguments.function, targets.types(arguments.arg)
    if targets.is_function(name):
        return targets.read_function(name, types)
    if types:
        raise UsageError(f"--arg is for functions; {name} is a program, whose sizes --shape sets")
    return targets.typed_program(name, targets.sizes(arguments.shape), arguments.dtype)


def _device(name: str | None) -> Device:
    if name not in (None, "this"):
        return device(name)
    try:
        return this_machine()
    except DeviceError as error:
        if name is not None:
            raise
        tell(f"{error}; predicted for {UNMEASURED}")
        return device(UNMEASURED)


def _space(arguments: argparse.Namespace) -> Space:
    limits = {
        name: getattr(arguments, name)
        for name in ("block_operators", "kernels", "custom_kernels")
        if getattr(arguments, name) is not None
    }
    return Space(**limits)


def _show_space(wanted: Wanted, json: bool) -> None:
    reference = read(wanted.program)
    if json:
        give_json(fused.space_facts(reference, wanted))
    else:
        give(fused.space_text(reference, wanted))


def _searched(following: Following) -> Findings | None:
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        try:
            return runner.run(following.run())
        except KeyboardInterrupt:
            return None


def _give(findings: Findings, start_up: float, arguments: argparse.Namespace) -> None:
    drawn = draw_all(arguments.svg, [one.program for one in findings.answers])
    seconds = {"start-up": start_up, **findings.seconds}
    if arguments.json:
        give_json(fused.facts(findings, seconds, drawn))
    else:
        give(fused.text(findings, seconds))
    if drawn:
        tell(f"wrote {drawn[0]}" + (f" to {drawn[-1]}" if len(drawn) > 1 else ""))
