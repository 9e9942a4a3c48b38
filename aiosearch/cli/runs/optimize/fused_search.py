"""`aiosearch optimize --search-only`: every equal program of fused kernels, the best printed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ....devices import Device, DeviceError, device, this_machine
from ....documents import Document
from ....superoptimizer import NormalFormProgram, Space, UnsearchableError, read, uncast
from ....tensor import Program
from ...inputs import programs
from ...inputs.functions import bound
from ...output.files import draw_all, require_folder
from ...output.streams import (
    Exit,
    UsageError,
    complain,
    give,
    give_json,
    logs_to_stderr,
    reserved_stdout,
    tell,
)
from ..search import fastest_loop, resume_command
from . import fused_run
from .fused_run import FusedOutcome, FusedRequest, FusedRun

if TYPE_CHECKING:
    from ...commands.optimize import OptimizeArguments


PASSED_ON = ("workers", "strategy", "journal", "resume", "floats", "bound")
UNMEASURED = "A100"
"""Predicted for where this machine was not measured."""


def run(arguments: OptimizeArguments) -> int:
    """Searches, tells the best, and gives the exit code."""
    if arguments.prune == "z3":
        if arguments.space:
            raise UsageError("--space is not for --prune z3, which has one space for each program")
        from .z3_pruned import run as run_pruned

        return run_pruned(arguments)
    program = _program(arguments)
    reference = _read(program)
    request = _request(program, arguments)
    if arguments.space:
        _show_space(reference, request, arguments.json)
        return Exit.FINE
    require_folder(arguments.svg)
    with reserved_stdout(), logs_to_stderr(False):
        following = FusedRun(request)
        outcome = _searched(following)
    if outcome is None:
        tell(f"interrupted, with nothing to tell yet, while {following.at}")
        return Exit.INTERRUPTED
    _give(outcome, arguments)
    if outcome.refereed is not None and outcome.refereed.denied:
        complain("z3 denies what the search takes to be a part of the program")
        return Exit.FAILED
    if not following.interrupted:
        return Exit.FINE
    if arguments.journal is not None:
        tell(f"to go on: {resume_command(arguments.argv)}")
    return Exit.INTERRUPTED


def _read(program: Program) -> NormalFormProgram:
    try:
        return read(uncast(program))
    except UnsearchableError as error:
        raise UsageError(f"{program.name} cannot be searched: {error}") from None


def _request(program: Program, arguments: OptimizeArguments) -> FusedRequest:
    options: Document = {name: getattr(arguments, name) for name in PASSED_ON}
    return FusedRequest(
        program,
        _device(arguments.device),
        _space(arguments),
        arguments.top,
        options,
        arguments.referee,
        arguments.quiet,
    )


def _program(arguments: OptimizeArguments) -> Program:
    name, (texts, statics) = arguments.function, programs.static_values(arguments.arg)
    positional, named = programs.named_types(texts)
    if programs.is_function(name):
        programs.require_no_dtype(name, arguments.dtype)
        types, named = bound(name, programs.function(name, statics), positional, named)
        if named:
            raise UsageError(
                f"--search-only gives arguments by place, and {name} takes {', '.join(named)} by"
                " name alone"
            )
        return programs.read_function(name, types, statics)
    program = programs.typed_program(name, programs.sizes(arguments.shape), arguments.dtype)
    if arguments.arg:
        raise UsageError(f"--arg is for functions; {name} is a program, whose sizes --shape sets")
    return program


def _device(name: str | None) -> Device:
    if name is not None and name.casefold() != "this":
        return device(name)
    try:
        return this_machine()
    except DeviceError as error:
        if name is not None:
            raise
        tell(f"{error}; predicted for {UNMEASURED}")
        return device(UNMEASURED)


def _space(arguments: OptimizeArguments) -> Space:
    limits = {
        name: getattr(arguments, name)
        for name in ("block_operators", "kernels", "custom_kernels")
        if getattr(arguments, name) is not None
    }
    return Space(**limits)


def _show_space(reference: NormalFormProgram, request: FusedRequest, json: bool) -> None:
    if json:
        give_json(fused_run.space_facts(reference, request))
    else:
        give(fused_run.space_text(reference, request))


def _searched(following: FusedRun) -> FusedOutcome | None:
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        try:
            return runner.run(following.run())
        except KeyboardInterrupt:
            return None


def _give(outcome: FusedOutcome, arguments: OptimizeArguments) -> None:
    drawn = draw_all(arguments.svg, [answer.program for answer in outcome.findings.answers])
    if arguments.json:
        give_json(fused_run.facts(outcome, drawn))
    else:
        give(fused_run.text(outcome))
    if drawn:
        tell(f"wrote {drawn[0]}" + (f" to {drawn[-1]}" if len(drawn) > 1 else ""))
