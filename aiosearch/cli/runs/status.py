"""`aiosearch status`: who serves a search that listens, and how far it is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ...documents import Document
from ...plain import plain
from ...remote.status_query import query_status
from ...remote.transports import find_transport
from ..output.streams import Exit, give
from ..output.table import table
from ..output.units import duration

if TYPE_CHECKING:
    from ..commands.status import StatusArguments


_SEARCH: tuple[str, ...] = (
    "search",
    "strategy",
    "time",
    "nodes",
    "open",
    "solutions",
    "best",
    "busy",
)
_MACHINE: tuple[str, ...] = ("machine", "workers", "z3 processes", "python", "aiosearch", "z3", "")


def run(arguments: StatusArguments) -> int:
    """Asks, tells, and gives the exit code."""
    token = Path(arguments.token_file).expanduser() if arguments.token_file else None
    transport = find_transport(arguments.transport)
    document = asyncio.run(query_status(transport, arguments.address, token))
    state = json.loads(document)
    give(json.dumps(state) if arguments.json else _status_text(state))
    return Exit.FINE


def _status_text(state: Document) -> str:
    searches = [_SEARCH, *map(_search, state["searches"])]
    machines = [_MACHINE, *map(_machine, state["machines"])]
    refused = [
        plain(f"{machine} cannot serve: {reason}") for machine, reason in state["refused"].items()
    ]
    parts = [
        table(searches, right=frozenset({2, 3, 4, 5, 6, 7})) if searches[1:] else "no search runs",
        table(machines, right=frozenset({1, 2})) if machines[1:] else "no other machine serves",
        *(["\n".join(refused)] if refused else []),
    ]
    return "\n\n".join(parts)


def _search(search: Document) -> tuple[str, ...]:
    best = "" if search["best_cost"] is None else f"{search['best_cost']:g}"
    return (
        search["problem"],
        search["strategy"],
        duration(search["seconds"]),
        f"{search['nodes']:,}",
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
