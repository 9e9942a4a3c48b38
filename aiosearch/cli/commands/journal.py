"""`aiosearch journal show`: what a journal holds, without the code that wrote it."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import msgspec

from ...display.tables import table
from ...documents import Document
from ...engine.journal.records import JournalState
from ...engine.journal.replay import replay
from ..inputs.flags import add_json
from ..output.streams import Exit, UsageError, give, give_json
from ..output.units import clock, duration, of, percent, short, size
from ..parser import Parser

DESCRIPTION = ""
EPILOG = ""


class JournalArguments(argparse.Namespace):
    """What `aiosearch journal` was given."""

    action: str
    file: str
    solutions: int
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    add_action = parser.add_actions(required=True)
    show = add_action("show", help="say what a journal holds; nothing is searched or imported")
    show.add_argument("file", metavar="FILE")
    show.add_argument(
        "--solutions", type=int, default=3, metavar="N", help="show the last N; 3 by default"
    )
    add_json(show)


WIDTH = 100
"""A solution is shown on one line of so many columns."""


def run(arguments: JournalArguments) -> int:
    """Reads the journal, tells what it holds, and gives the exit code."""
    if arguments.solutions < 0:
        raise UsageError(f"--solutions must be 0 or more, not {arguments.solutions}")
    path = Path(arguments.file)
    state, whole = asyncio.run(replay(path))
    facts = journal_facts(path, state, whole)
    solutions = [_decoded(solution) for solution in _last(state.solutions, arguments.solutions)]
    if arguments.json:
        give_json({**facts, "last_solutions": solutions})
    else:
        give(table(_rows(facts)))
        for number, solution in enumerate(solutions, len(state.solutions) - len(solutions) + 1):
            give(f"#{number:<5} {short(solution, WIDTH)}")
    return Exit.FINE


def journal_facts(path: Path, state: JournalState, whole: int) -> Document:
    """What a journal says; `whole` is the length of its records that are whole."""
    header, status = state.header, path.stat()
    left = sum(bundle.weight for bundle in state.open.values())
    return {
        "problem": header.problem,
        "parameters": header.parameters_text,
        "aiosearch": header.aiosearch,
        "order": header.order,
        "strategy": header.strategy,
        "seed": header.seed,
        "complete": not state.open,
        "seconds": round(state.seconds, 3),
        "nodes": state.counts.get("nodes", 0),
        "counts": dict(state.counts),
        "open": sum(bundle.size for bundle in state.open.values()),
        "explored": min(max(1.0 - left, 0.0), 1.0),
        "solutions": len(state.solutions),
        "bytes": status.st_size,
        "torn_bytes": status.st_size - whole,
        "written": clock(status.st_mtime),
    }


def _rows(facts: Document) -> list[tuple[str, str]]:
    stands = "complete" if facts["complete"] else f"{percent(facts['explored'])} explored"
    rows = [
        ("problem", f"{facts['problem']}  {facts['parameters'][:WIDTH]}"),
        ("search", f"{facts['order']}, strategy {facts['strategy']}, seed {facts['seed']}"),
        ("status", f"{stands}, {of(facts['open'], 'subtree')} open"),
        ("nodes", f"{facts['nodes']:,} in {duration(facts['seconds'])}"),
        ("solutions", f"{facts['solutions']:,}"),
        ("file", f"{size(facts['bytes'])}, last written {facts['written']}"),
        ("from", f"aiosearch {facts['aiosearch']}"),
    ]
    if facts["torn_bytes"]:
        rows.append(("torn", f"{size(facts['torn_bytes'])} at the end, which a resume cuts off"))
    return rows


def _last(solutions: list[bytes], count: int) -> list[bytes]:
    return solutions[len(solutions) - min(count, len(solutions)) :]


def _decoded(solution: bytes) -> object:
    """A solution as plain values: its class may not be installed here."""
    value: object = msgspec.msgpack.decode(solution)
    return value
