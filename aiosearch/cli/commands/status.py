"""`aiosearch status`: who serves a search that listens, and how far it is."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from ...display.tables import table
from ...documents import Document
from ...errors import AiosearchError
from ...plain import plain
from ...remote.links import find_transport
from ...remote.status_query import query_status
from ..inputs.flags import add_json, add_token
from ..output.streams import CLEAR, Exit, give, tell
from ..output.units import clock, count, duration, percent
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
