"""`aiosearch strategies`: who is installed to explore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...strategies.registry import list_strategies
from ..output.streams import Exit, give, give_json
from ..output.table import table

if TYPE_CHECKING:
    from ..commands.strategies import StrategiesArguments


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
