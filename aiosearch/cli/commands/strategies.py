"""`aiosearch strategies`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json
from ..parser import Parser

DESCRIPTION = ""
EPILOG = ""


class StrategiesArguments(argparse.Namespace):
    """What `aiosearch strategies` was given."""

    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    add_json(parser)


def run(arguments: StrategiesArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.strategies import run as list_strategies

    return list_strategies(arguments)
