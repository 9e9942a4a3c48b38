"""`aiosearch cache`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json, age, count
from ..parser import Parser

DESCRIPTION = ""
EPILOG = ""


class CacheArguments(argparse.Namespace):
    """What `aiosearch cache` was given."""

    action: str
    cache: str | None
    older_than: float | None
    keep: int | None
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    add_action = parser.add_actions(required=True)
    for name, help in (("stats", "count the verdicts"), ("clear", "remove them")):
        action = add_action(name, help=help)
        action.add_argument("--cache", metavar="PATH", help="the file; by default the setting's")
        add_json(action)
        if name == "clear":
            action.add_argument(
                "--older-than",
                type=age,
                metavar="AGE",
                help="remove what was written so long ago: 30d, 12h",
            )
            action.add_argument(
                "--keep", type=count, metavar="N", help="remove all but so many of the newest"
            )


def run(arguments: CacheArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.cache import run as maintain

    return maintain(arguments)
