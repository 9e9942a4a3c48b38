"""`aiosearch doctor`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json
from ..parser import Parser

DESCRIPTION = ""
EPILOG = ""


class DoctorArguments(argparse.Namespace):
    """What `aiosearch doctor` was given."""

    measure: bool
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument(
        "--measure",
        action="store_true",
        help="first measure the most that its devices can do, and keep the figures",
    )
    add_json(parser)


def run(arguments: DoctorArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.doctor.findings import run as examine

    return examine(arguments)
