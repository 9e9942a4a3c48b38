"""`aiosearch status`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json, add_token
from ..parser import Parser

DESCRIPTION = ""
EPILOG = ""


class StatusArguments(argparse.Namespace):
    """What `aiosearch status` was given."""

    address: str
    token_file: str | None
    transport: str
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument("address", metavar="HOST:PORT", help="where the search listens")
    add_token(parser)
    parser.add_argument("--transport", default="sockets", metavar="NAME", help="by which plugin")
    add_json(parser)


def run(arguments: StatusArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.status import run as query

    return query(arguments)
