"""`aiosearch cache`: the verdicts of z3 that are kept on disk."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ...checks import CacheStatistics, cache_stats, clear_cache, default_cache_path
from ...display.tables import table
from ..inputs.flags import add_json, age, count
from ..inputs.settings import settle
from ..output.streams import Exit, UsageError, give, give_json
from ..output.units import clock, of, size
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
    """Counts the verdicts or removes them, and gives the exit code."""
    path = cache_path(arguments.cache)
    if path is None:
        raise UsageError("the settings turn the cache off; name its file with --cache PATH")
    if arguments.action == "clear":
        _clear(path, arguments)
    else:
        _show(cache_stats(path), arguments.json)
    return Exit.FINE


def cache_path(path: str | None = None) -> Path | None:
    """Gives the file that the settings, or `given`, name; None where they turn the cache off."""
    chosen = settle({} if path is None else {"cache": path})["cache"].value
    return default_cache_path() if chosen == "default" else chosen


def _clear(path: Path, arguments: CacheArguments) -> None:
    if arguments.older_than is not None and arguments.keep is not None:
        raise UsageError("say --older-than AGE or --keep N, and not both")
    before = None if arguments.older_than is None else time.time() - arguments.older_than
    removed = clear_cache(path, before=before, keep=arguments.keep)
    if arguments.json:
        give_json({"path": str(path), "removed": removed})
    else:
        give(f"removed {of(removed, 'verdict')} from {path}")


def _show(stats: CacheStatistics, json: bool) -> None:
    if json:
        give_json(stats)
        return
    rows = [
        ("file", stats.path),
        ("size", size(stats.size)),
        ("verdicts", f"{stats.entries:,} of at most {stats.limit:,}"),
        ("proved", f"{stats.proved:,}"),
        ("refuted", f"{stats.refuted:,}"),
        ("unknown", f"{stats.unknown:,}"),
    ]
    if stats.oldest is not None:
        rows.append(("oldest", clock(stats.oldest)))
    if stats.damaged:
        rows.append(("damaged", f"{stats.damaged:,}; `aiosearch cache clear` removes all"))
    give(table(rows))
