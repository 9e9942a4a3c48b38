"""`aiosearch worker`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_patience, add_token
from ..parser import Parser

DESCRIPTION = """\
Lends this machine's processors to a search that listens elsewhere, until it is over. Only problems
that are installed here are run. Ctrl-C or SIGTERM gives back what it has, and ends; a second one
ends at once. Where the connection is lost it tries again."""
EPILOG = """\
examples:
  aiosearch search aiosearch.workloads.queens:Queens --listen 192.0.2.1:7000 --token-file token
  aiosearch worker --connect 192.0.2.1:7000 --token-file token

exit codes: 0 the search is over, 1 it does not want this machine or this machine cannot serve it, 2
wrong usage, 130 interrupted"""


class WorkerArguments(argparse.Namespace):
    """What `aiosearch worker` was given."""

    connect: str
    token_file: str | None
    workers: int | None
    checkers: int | None
    patience: float
    name: str
    stay: bool
    transport: str


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument(
        "--connect", required=True, metavar="HOST:PORT", help="where the search listens"
    )
    add_token(parser)
    parser.add_argument(
        "--workers", type=int, metavar="N", help="worker processes; by default one per core"
    )
    parser.add_argument(
        "--checkers", type=int, metavar="N", help="z3 processes; by default as many as workers"
    )
    add_patience(parser)
    parser.add_argument("--name", default="", help="what it is called; by default as the machine")
    parser.add_argument(
        "--stay", action="store_true", help="wait for the next search when one is over"
    )
    parser.add_argument("--transport", default="sockets", metavar="NAME", help="by which plugin")


def run(arguments: WorkerArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.worker import run as serve

    return serve(arguments)
