"""`aiosearch status`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json, add_token
from ..parser import Parser

DESCRIPTION = """\
Asks a search that listens how far it is, and which machines serve it or have gone."""
EPILOG = """\
examples:
  aiosearch status 192.0.2.1:7000 --token-file token
  aiosearch status 192.0.2.1:7000 --token-file token --watch 5

exit codes: 0 it answered, 2 nobody answers, 130 interrupted"""


def watch_seconds(text: str) -> float:
    """The seconds between two questions; raises `ValueError`-like usage errors of argparse."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 86400")
    return seconds


class StatusArguments(argparse.Namespace):
    """What `aiosearch status` was given."""

    address: str
    token_file: str | None
    transport: str
    watch: float | None
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument("address", metavar="HOST:PORT", help="where the search listens")
    add_token(parser)
    parser.add_argument("--transport", default="sockets", metavar="NAME", help="by which plugin")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=watch_seconds,
        const=2.0,
        metavar="SECONDS",
        help="ask again, every 2 seconds or as many as are named, until the search is over",
    )
    add_json(parser)


def run(arguments: StatusArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.status import run as query

    return query(arguments)
