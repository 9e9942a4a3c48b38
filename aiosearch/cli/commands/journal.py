"""`aiosearch journal`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json
from ..parser import Parser

DESCRIPTION = ""
EPILOG = ""


class JournalArguments(argparse.Namespace):
    """What `aiosearch journal` was given."""

    action: str
    file: str
    solutions: int
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    add_action = parser.add_actions(required=True)
    show = add_action("show", help="say what a journal holds; nothing is searched or imported")
    show.add_argument("file", metavar="FILE")
    show.add_argument(
        "--solutions", type=int, default=3, metavar="N", help="show the last N; 3 by default"
    )
    add_json(show)


def run(arguments: JournalArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.journal import run as show

    return show(arguments)
