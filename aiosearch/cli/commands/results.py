"""`aiosearch results`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json, age, count
from ..parser import Parser

DESCRIPTION = ""
EPILOG = ""


class ResultsArguments(argparse.Namespace):
    """What `aiosearch results` was given."""

    action: str
    answer: str
    answers: list[str]
    folder: str
    all: bool
    older_than: float | None
    keep: int | None
    file: str | None
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    add_action = parser.add_actions(required=True)
    listed = add_action("list", help="list the answers, the newest first")
    show = add_action("show", help="write an answer as a module that stands alone")
    show.add_argument("answer", metavar="ANSWER", help="its id, the start of it, or its name")
    export = add_action("export", help="write answers as modules into a folder")
    export.add_argument("folder", metavar="FOLDER")
    export.add_argument("answers", nargs="*", metavar="ANSWER", help="by default all")
    forget = add_action("forget", help="remove answers")
    forget.add_argument("answers", nargs="*", metavar="ANSWER")
    forget.add_argument(
        "--all", action="store_true", help="remove all of them, and work that is not finished"
    )
    forget.add_argument(
        "--older-than",
        type=age,
        metavar="AGE",
        help="remove those that were found so long ago: 30d, 12h",
    )
    forget.add_argument(
        "--keep", type=count, metavar="N", help="remove all but so many of the newest"
    )
    for action in (listed, show, export, forget):
        action.add_argument("--file", metavar="PATH", help="the file; by default the user's")
        add_json(action)


def run(arguments: ResultsArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.results import run as maintain

    return maintain(arguments)
