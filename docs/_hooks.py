"""Fills in, when the site is built, what the code itself says: help texts, settings, the schema.

A line `::: said CALL` in a page is replaced by what the function of that name gives here.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import griffe
import msgspec
from aiosearch.cli.exits import Exit
from aiosearch.cli.parser import make_parser
from aiosearch.cli.settings import SETTINGS
from aiosearch.events import AnyEvent
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
SAID = re.compile(r"^::: said (\w+)(?: (.*))?$", re.MULTILINE)
SCHEMA = "reference/events.schema.json"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return SAID.sub(lambda said: SAYERS[said[1]](*(said[2] or "").split()), markdown)


def on_files(files: Any, config: Any) -> Any:
    files.append(File.generated(config, SCHEMA, content=schema()))
    return files


def schema() -> str:
    """Gives the JSON Schema of one line of `aiosearch search --json`."""
    text = msgspec.json.schema(AnyEvent)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **text}, indent=2)


def help_text(*command: str) -> str:
    """Gives what `aiosearch COMMAND --help` writes, at a fixed width."""
    os.environ["COLUMNS"] = "88"
    parser: Any = make_parser()
    for name in command:
        choices: dict[str, Any] = next(
            action.choices
            for action in parser._actions
            if isinstance(action.choices, dict) and name in action.choices
        )
        parser = choices[name]
    return "```text\n" + parser.format_help().rstrip() + "\n```"


def settings() -> str:
    rows = [
        (
            f"`{setting.name}`",
            setting.help.replace("|", "\\|"),
            f"`{setting.flag} {setting.metavar}`",
            f"`{setting.variable}`",
            "" if setting.default is None else f"`{setting.default}`",
        )
        for setting in SETTINGS
    ]
    return table(("setting", "what it does", "flag", "variable", "default"), rows)


def exits() -> str:
    meanings = {
        Exit.FINE: "complete, or ended by a limit; whether there are solutions or not",
        Exit.FAILED: "the search failed, or an essential check of `aiosearch doctor` did",
        Exit.USAGE: "wrong usage; nothing was searched",
        Exit.INTERRUPTED: "Ctrl-C or SIGTERM ended it; what was found has been written",
    }
    return table(("code", "meaning"), [(f"`{code.value}`", meanings[code]) for code in Exit])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fields(path: str) -> str:
    """Lists the fields of a class with their types and docstrings."""
    found: Any = griffe.load(path, search_paths=[str(ROOT)])
    rows = []
    for name, field in found.attributes.items():
        if name.startswith("_"):
            continue
        text = " ".join(field.docstring.value.split()) if field.docstring else ""
        kind = "" if field.annotation is None else f"`{field.annotation}`".replace("|", "\\|")
        rows.append((f"`{name}`", kind, text))
    return table(("field", "type", "meaning"), rows)


def events() -> str:
    """Lists every event with its fields."""
    parts = []
    for event in AnyEvent.__args__:
        about = (event.__doc__ or "").strip()
        parts.append(
            f"### {event.__name__}\n\n{about}\n\n{fields(f'aiosearch.events.{event.__name__}')}"
        )
    return "\n\n".join(parts)


def constants() -> str:
    rows = []
    for what, where in NUMBERS:
        module, _, name = where.rpartition(".")
        value = getattr(importlib.import_module(f"aiosearch.{module}"), name)
        rows.append(
            (what, f"`{value:,}`" if isinstance(value, int) else f"`{value}`", f"`{where}`")
        )
    return table(("what", "value", "where"), rows)


NUMBERS = (
    ("a worker's slice, in nanoseconds", "engine.worker.SLICE_NS"),
    ("a slice of `workers=0`, in nanoseconds", "engine.slots.LOCAL_SLICE_NS"),
    ("largest frame between processes, in bytes", "engine.channel.MAX_FRAME"),
    ("first interval between a worker's reports, in seconds", "engine.run.REPORT_SECONDS"),
    ("later, as a share of the time that has passed", "engine.run.REPORT_SHARE"),
    ("time for last reports when a search ends early, in seconds", "engine.run.GRACE_SECONDS"),
    ("how long a journal's record waits for company, in seconds", "engine.batches.BATCH_SECONDS"),
    ("how often a journal is forced to the disk, in seconds", "engine.journal.SYNC_SECONDS"),
    ("a smaller journal is never replaced by a snapshot, in bytes", "engine.journal.COMPACT_BYTES"),
    ("keys that a table has room for", "engine.claims.CAPACITY"),
    ("nodes of a worker that may wait for verdicts", "engine.general.MOST_PARKED"),
    ("asynchronous expansions of a worker under way", "engine.general.LANES"),
    ("one node in this many is expanded twice, to check `expand`", "engine.explorer.CHECK_EVERY"),
    ("workers that may die of a lone subtree", "engine.ledger.MOST_DEATHS"),
    ("verdicts that a cache file keeps", "checks.store.ROWS"),
    ("verdicts in memory", "checks.cache.REMEMBERED"),
)
SAYERS = {
    "constants": constants,
    "events": events,
    "exits": exits,
    "fields": fields,
    "help": help_text,
    "settings": settings,
}
