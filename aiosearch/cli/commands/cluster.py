"""`aiosearch cluster`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json
from ..parser import Parser

DESCRIPTION = """\
Describes this machine as a cluster: its cores by the caches that they share, its memory and GPUs.
`detect` reads what the system says and assumes speeds; `measure` measures those of the processor,
in some seconds, and keeps them for `aiosearch place`. Measure on an idle machine."""
EPILOG = """\
examples:
  aiosearch cluster detect
  aiosearch cluster measure --file here.json

exit codes: 0 done, 2 wrong usage or a file that cannot be written"""


class ClusterArguments(argparse.Namespace):
    """What `aiosearch cluster` was given."""

    action: str
    file: str | None
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    add_action = parser.add_actions(required=True)
    for name, help in (
        ("detect", "describe it by what the system says"),
        ("measure", "measure its processor too, and keep that"),
    ):
        action = add_action(name, help=help)
        action.add_argument("--file", metavar="PATH", help="write the description as JSON")
        add_json(action)


def run(arguments: ClusterArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.cluster import run as describe

    return describe(arguments)
