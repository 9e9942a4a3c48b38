"""`aiosearch programs`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json, add_shape
from ..parser import Parser

DESCRIPTION = ""
EPILOG = ""


class ProgramsArguments(argparse.Namespace):
    """What `aiosearch programs` was given."""

    action: str | None
    program: str
    shape: list[str]
    svg: bool
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    add_json(parser)
    add_action = parser.add_actions(required=False)
    show = add_action("show", help="write a program as text, JSON or a drawing")
    show.add_argument("program", metavar="PROGRAM", help="a built-in name, or a file")
    add_shape(show)
    form = show.add_mutually_exclusive_group()
    form.add_argument("--svg", action="store_true", help="draw it")
    form.add_argument("--json", action="store_true", help="write JSON")


def run(arguments: ProgramsArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.programs import run as show

    return show(arguments)
