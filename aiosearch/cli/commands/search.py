"""`aiosearch search`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_patience, add_token, add_watch
from ..inputs.settings import SETTINGS
from ..parser import Parser

_EXPLORING = ("strategy", "order", "workers", "seed", "on-unknown", "on-error", "cache")


DESCRIPTION = """\
Searches a problem: a class with root(), expand(node) and solutions(node), whose fields --set sets;
an instance of one; or a function that gives one. The best solution goes to stdout, how it is going
to stderr. Ctrl-C ends the search with what it has; pressed twice, at once."""
EPILOG = """\
examples:
  aiosearch search aiosearch.workloads.queens:Queens --set n=10
  aiosearch search path/to/mine.py:Problem --seconds 60 --journal run.journal
  aiosearch search --journal run.journal --resume

Settings may also stand in [tool.aiosearch] of the nearest pyproject.toml, or in variables such as
AIOSEARCH_WORKERS; a flag comes first, then a variable, then the file.

exit codes: 0 complete or a limit reached, 1 the search failed, 2 wrong usage, 130 interrupted"""


class SearchArguments(argparse.Namespace):
    """What `aiosearch search` was given."""

    problem: str | None
    set: list[str]
    strategy_set: list[str]
    listen: str | None
    token_file: str | None
    patience: float
    journal: str | None
    resume: bool
    report: str | None
    watch: int | None
    trace: str | None
    record_tree: str | None
    json: bool
    quiet: bool
    verbose: bool
    show_settings: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument(
        "problem",
        nargs="?",
        metavar="module:Problem",
        help="or path/to/file.py:Problem; with --resume, by default that of the journal",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a field of the problem; may be repeated",
    )
    _add_settings(parser)
    _add_hosts(parser)
    keeping = parser.add_argument_group("keeping")
    keeping.add_argument("--journal", metavar="FILE", help="write a journal, to be resumed from")
    keeping.add_argument("--resume", action="store_true", help="go on where the journal stops")
    keeping.add_argument(
        "--report", metavar="FILE.html", help="write how it went as a page for a browser"
    )
    add_watch(keeping)
    keeping.add_argument("--trace", metavar="FILE", help="write a Chrome trace, for Perfetto")
    keeping.add_argument(
        "--record-tree",
        metavar="FILE",
        help="instead of a result write the tree and its times, as one worker walks it depth-first,"
        " for `aiosearch simulate`",
    )
    _add_showing(parser)


def run(arguments: SearchArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.search import run as search

    return search(arguments)


def _add_settings(parser: Parser) -> None:
    exploring = parser.add_argument_group("exploring")
    limits = parser.add_argument_group("limits, of which the first one reached ends the search")
    for setting in SETTINGS:
        group = exploring if setting.name in _EXPLORING else limits
        group.add_argument(
            setting.flag, dest=setting.name, metavar=setting.metavar, help=setting.help
        )
    exploring.add_argument(
        "--no-cache", dest="cache", action="store_const", const="off", help="same as --cache off"
    )
    exploring.add_argument(
        "--strategy-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an option of the strategy; may be repeated",
    )


def _add_hosts(parser: Parser) -> None:
    hosts = parser.add_argument_group("other machines")
    hosts.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="let `aiosearch worker --connect HOST:PORT` join, at any time; --workers 0 leaves"
        " the work to those alone",
    )
    add_token(hosts)
    add_patience(hosts)


def _add_showing(parser: Parser) -> None:
    showing = parser.add_argument_group("showing")
    showing.add_argument("--json", action="store_true", help="write each event as a line of JSON")
    showing.add_argument("--quiet", "-q", action="store_true", help="show the result only")
    showing.add_argument(
        "--verbose", "-v", action="store_true", help="show tracebacks of the problem's errors"
    )
    showing.add_argument(
        "--show-settings", action="store_true", help="list the settings and their origins, and end"
    )
