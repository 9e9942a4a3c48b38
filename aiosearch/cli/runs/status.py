"""`aiosearch status`: who serves a search that listens, and how far it is."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...documents import Document
from ...errors import AiosearchError
from ...plain import plain
from ...remote.status_query import query_status
from ...remote.transports import find_transport
from ..output.streams import CLEAR, Exit, give, tell
from ..output.table import table
from ..output.units import clock, count, duration, percent

if TYPE_CHECKING:
    from ..commands.status import StatusArguments


_SEARCH: tuple[str, ...] = (
    "search",
    "strategy",
    "time",
    "nodes",
    "per second",
    "explored",
    "to go",
    "open",
    "solutions",
    "best",
    "busy",
)
_MACHINE: tuple[str, ...] = ("machine", "workers", "z3 processes", "python", "aiosearch", "z3", "")


def run(arguments: StatusArguments) -> int:
    """Asks, tells, and gives the exit code."""
    token = Path(arguments.token_file).expanduser() if arguments.token_file else None
    if arguments.watch is None:
        _show(arguments, asyncio.run(_state(arguments, token)))
        return Exit.FINE
    try:
        return asyncio.run(_watch(arguments, token, arguments.watch))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


async def _state(arguments: StatusArguments, token: Path | None) -> Document:
    transport = find_transport(arguments.transport)
    state: Document = json.loads(await query_status(transport, arguments.address, token))
    return state


async def _watch(arguments: StatusArguments, token: Path | None, seconds: float) -> Exit:
    """Asks until nobody answers any more; that nobody does at first is an error."""
    state = await _state(arguments, token)
    while True:
        if not arguments.json:
            give(f"{CLEAR if sys.stdout.isatty() else ''}{clock()}")
        _show(arguments, state)
        await asyncio.sleep(seconds)
        try:
            state = await _state(arguments, token)
        except AiosearchError as error:
            tell(f"{clock()}  the search is over, or cannot be reached: {error}")
            return Exit.FINE


def _show(arguments: StatusArguments, state: Document) -> None:
    give(json.dumps(state) if arguments.json else _status_text(state))


def _status_text(state: Document) -> str:
    searches = [_SEARCH, *map(_search, state["searches"])]
    machines = [_MACHINE, *map(_machine, state["machines"])]
    departed = [
        plain(f"{gone['name']} has gone {duration(gone['seconds_ago'])} ago: {gone['reason']}")
        for gone in state.get("departed", ())  # searches of earlier releases do not say it
    ]
    refused = [
        plain(f"{machine} cannot serve: {reason}") for machine, reason in state["refused"].items()
    ]
    parts = [
        table(searches, right=frozenset(range(2, 11))) if searches[1:] else "no search runs",
        table(machines, right=frozenset({1, 2})) if machines[1:] else "no other machine serves",
        *(["\n".join(departed)] if departed else []),
        *(["\n".join(refused)] if refused else []),
    ]
    return "\n\n".join(parts)


def _search(search: Document) -> tuple[str, ...]:
    best = "" if search["best_cost"] is None else f"{search['best_cost']:g}"
    rate, explored, remaining = map(search.get, ("nodes_per_second", "explored", "remaining"))
    return (
        search["problem"],
        search["strategy"],
        duration(search["seconds"]),
        f"{search['nodes']:,}",
        "" if rate is None else count(rate),
        "" if explored is None else percent(explored),
        "" if remaining is None else duration(remaining),
        f"{search['open']:,}",
        f"{search['solutions']:,}",
        best,
        f"{search['busy']} of {search['seats']}",
    )


def _machine(machine: Document) -> tuple[str, ...]:
    versions = machine["versions"]
    return (
        machine["name"],
        f"{machine['busy']} of {machine['workers']} work",
        str(machine["checkers"]),
        versions.get("python", ""),
        versions.get("aiosearch", ""),
        versions.get("z3-solver", ""),
        "leaving" if machine["leaving"] else "",
    )
