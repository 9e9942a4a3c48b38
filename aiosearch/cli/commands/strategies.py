"""`aiosearch strategies`: who is installed to explore."""

from __future__ import annotations

import argparse

from ...display.tables import table
from ...strategies.registry import list_strategies
from ..inputs.flags import add_json
from ..output.streams import Exit, give, give_json
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
    """Lists the strategies, and gives the exit code."""
    strategies = list_strategies()
    if arguments.json:
        give_json(strategies)
        return Exit.FINE
    rows = [("strategy", "from", "what it does")]
    rows += [
        (info.name, info.origin, f"cannot be used: {info.error}" if info.error else info.summary)
        for info in strategies
    ]
    give(table(rows))
    return Exit.FINE
