"""`aiosearch search`: one search, from the command line to the exit code."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path

from ..inputs.problems import unshared
from ..inputs.request import Request, chosen_settings, make_request
from ..inputs.settings import show_settings
from ..output.logs import logs_to_stderr
from ..output.streams import Exit, give, reserved_stdout, tell
from ..runs.resume_hint import resume_command
from ..runs.search import Manner, SearchCommand, SearchEnding


def run(arguments: argparse.Namespace) -> int:
    """Searches, and gives the exit code."""
    if arguments.show_settings:
        give(show_settings(chosen_settings(arguments)))
        return Exit.FINE
    if arguments.record_tree:
        from ..runs.record_tree import run as record_tree  # for recordings alone

        return record_tree(arguments)
    with reserved_stdout() as stdout, logs_to_stderr(arguments.verbose):
        request = make_request(arguments)
        if request.options["listener"] is not None and not arguments.quiet:
            _warn(request)
        ending = _search(request, _manner(arguments, stdout))
    if ending.best is not None:
        give(repr(ending.best))
    return ending.code


def _warn(request: Request) -> None:
    """Says at once where machines would come in vain."""
    if reason := unshared(request.problem):
        tell(f"warning: machines that join will do nothing: {reason}")


def _manner(arguments: argparse.Namespace, stdout: int) -> Manner:
    trace = Path(arguments.trace) if arguments.trace else None
    return Manner(stdout, arguments.json, arguments.quiet, arguments.verbose, trace)


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
