"""Fills in, when the site is built, what the code itself says: help texts, settings, the schema.

A line `::: said CALL` in a page is replaced by what the function of that name gives here.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import griffe
import msgspec
from aiosearch.cli.inputs.settings import SETTINGS
from aiosearch.cli.output.streams import Exit
from aiosearch.cli.parser import help_of
from aiosearch.events import AnyEvent
from mkdocs.structure.files import File

import _kernels
import _measured
import _tensor
from _tensor import table

ROOT = Path(__file__).parents[1]
SAID = re.compile(r"^::: said (\w+)(?: (.*))?$", re.MULTILINE)
SCHEMA = "reference/events.schema.json"


CHECKOUT = re.compile(
    r"\[(`[^`]+`|[^\]`]+)\]\((?:\.\./)+(?:aiosearch|plugins|tests|benchmarks)/[^)]*\)"
)
"""A link to a file of the checkout, which the site does not have."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fills in what the code says, and shows files of the checkout by their names alone."""
    filled = SAID.sub(lambda said: SAYERS[said[1]](*(said[2] or "").split()), markdown)
    return CHECKOUT.sub(r"\1", filled)


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
    return "```text\n" + help_of(*command).rstrip() + "\n```"


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
        Exit.FINE: "the search is complete, or ended by a limit, whether there are solutions or"
        " not; `verify` accepted every program; `optimize` is done, whether or not something was"
        " faster",
        Exit.FAILED: "the search failed, or an essential check of `aiosearch doctor` did; `verify`"
        " refuted some program, or could not judge it; the referee of `optimize --search-only`"
        " denied something",
        Exit.USAGE: "wrong usage, or a file that cannot be read; nothing was searched",
        Exit.INTERRUPTED: "Ctrl-C or SIGTERM ended it; what was found has been written",
    }
    return table(("code", "meaning"), [(f"`{code.value}`", meanings[code]) for code in Exit])


@cache
def sources() -> Any:
    """Gives the package as griffe reads it."""
    return griffe.load("aiosearch", search_paths=[str(ROOT)])


def fields(path: str) -> str:
    """Lists the fields of a class with their types and docstrings, or what is said below."""
    found: Any = sources()[path.removeprefix("aiosearch.")]
    owner = path.rpartition(".")[2]
    rows = []
    for name, field in found.attributes.items():
        if name.startswith("_") or f"{owner}.{name}" in LEFT_OUT:
            continue
        text = " ".join(field.docstring.value.split()) if field.docstring else ""
        kind = "" if field.annotation is None else f"`{field.annotation}`"
        rows.append((f"`{name}`", kind, text or MEANINGS.get(f"{owner}.{name}", "")))
    return table(("field", "type", "meaning"), rows)


def events() -> str:
    """Lists every event with its fields."""
    parts = []
    for event in AnyEvent.__args__:
        listed = fields(f"aiosearch.events.{event.__name__}")
        listed = "\n".join(line for line in listed.splitlines() if "`seconds`" not in line)
        about = (event.__doc__ or "").strip() or MEANINGS.get(event.__name__, "")
        parts.append(f"### {event.__name__}\n\n{about}\n\n{listed}")
    return "\n\n".join(parts)


LEFT_OUT = {"Record.weight"}
MEANINGS = {
    "SearchStarted": "Comes first.",
    "SearchStarted.problem": "the name of the problem's class",
    "SearchStarted.order": "the name of the order's class",
    "SearchStarted.strategy": "its name",
    "SearchStarted.workers": "worker processes; 0 for the host's own",
    "SearchStarted.seed": "what the strategy was given",
    "WorkerJoined": "A worker takes part.",
    "WorkerJoined.worker": "its number, from 0",
    "WorkerJoined.pid": "its process; 0 for the host's own",
    "WorkerLost.worker": "its number; where it died, a new worker joins there, here or elsewhere",
    "WorkerLost.reason": "the signal or exit status",
    "TaskAssigned": "A worker is handed work.",
    "TaskAssigned.worker": "its number",
    "TaskAssigned.subtrees": "how many",
    "WorkReported.worker": "its number",
    "WorkReported.nodes": "explored since its last report",
    "WorkReported.busy": "seconds of exploring since then",
    "WorkReported.waiting": "seconds with nothing to do but wait for verdicts",
    "WorkReported.given": "subtrees that it gave away",
    "Improved.number": "from 1, and on from where a resumed search was",
    "Improved.solution": "the solution itself",
    "Improved.cost": "its cost; none where the problem has no costs",
    "Improved.worker": "who found it, by number",
    "Checked.process": "which z3 process, from 0",
    "Checked.status": "`proved`, `refuted` or `unknown`",
    "Progress.nodes": "explored, those before a resume included",
    "Progress.nodes_per_second": "over the last seconds",
    "Progress.open": "subtrees known and not yet explored",
    "Progress.solutions": "distinct ones found",
    "Progress.best_cost": "the least cost found",
    "Progress.cache_hits": "z3 questions answered without z3, by the whole pool",
    "Progress.checks": "questions that z3 answered, of the whole pool",
    "Progress.checks_in_flight": "questions that z3 has now",
    "Warned": "Something is not as it should be, and the search goes on.",
    "Warned.message": "a sentence",
    "SearchFinished": "Comes last.",
    "SearchFinished.status": "`complete`, `limit`, `cancelled` or `failed`",
    "SearchFinished.reason": "the same in words",
    "SearchFinished.nodes": "explored in all",
    "SearchFinished.solutions": "distinct ones found",
    "SearchFinished.best": "the best solution, if there is one",
    "SearchFinished.best_cost": "its cost",
    "Header.aiosearch": "the version that wrote the journal",
    "Header.order": "the name of the order's class",
    "Header.strategy": "its name",
    "Header.seed": "what the strategy was given",
    "Header.node_type": "the annotation of `root`",
    "Header.format": "of the journal: 1",
    "Record.opened": "bundles that are open from now on",
    "Open.id": "a number that no other bundle of the search has",
    "Open.rank": "lower goes first",
    "Open.size": "how many subtrees",
    "Open.blob": "the nodes as msgpack; empty stands for the root",
    "Open.depth": "the depth of the shallowest",
    "Open.weight": "the share of the tree in it, as far as one can tell",
    "Statistics.nodes": "nodes explored: expanded, and asked for their solutions",
    "Statistics.leaves": "of these, the ones without children",
    "Statistics.depth": "the deepest node explored; the root has depth 0",
    "Statistics.pruned": "subtrees left out because their bound was not below the best cost",
    "Statistics.duplicates": "nodes left out because an equal key was explored",
    "Statistics.reopened": "nodes explored again: their key was reached with a better bound",
    "Statistics.unclaimed": "nodes explored without a claim: the table of keys was full",
    "Statistics.proved": "nodes whose obligation was proved",
    "Statistics.refuted": "nodes dropped because theirs was refuted; not among `nodes`",
    "Statistics.unknown": "nodes whose verdict was unknown",
    "Statistics.skipped": 'subtrees given up under `on_error="skip"`',
    "Statistics.published": "subtrees that workers gave away when asked",
    "Statistics.solutions": "distinct solutions; under a pruning order, the improving ones",
    "Statistics.hook_errors": "calls of a hook that raised",
    "Statistics.worker_deaths": "worker processes that died during this run",
    "Statistics.workers": "one for each number",
    "Statistics.nodes_per_second": "over the whole search",
    "WorkerStatistics.nodes": "nodes that it explored in this run",
    "WorkerStatistics.reports": "reports that it gave",
    "Plan.workers": "how many there are",
    "Plan.seed": "for a strategy that draws",
    "Task.id": "its number in commands",
    "Opened.tasks": "free from now on",
    "Idle.worker": "its number, from 0",
    "Reported.worker": "its number",
    "Lost.worker": "its number",
    "Assign.worker": "its number",
    "Assign.tasks": "their numbers",
    "Ask.worker": "its number",
    "StrategyInfo.name": "of its entry point",
    "StrategyInfo.summary": "the first line of its docstring",
    "StrategyInfo.error": "why it cannot be used; empty where it can",
    "Verdict.status": "the answer",
    "VerifierStatistics.memory_hits": "answered from memory",
    "VerifierStatistics.disk_hits": "answered from the file",
    "VerifierStatistics.proved": "checks by their answer",
    "VerifierStatistics.refuted": "checks by their answer",
    "VerifierStatistics.in_flight": "questions that z3 has now",
    "VerifierStatistics.queued": "questions that wait for a z3 process",
    "CheckRecord.end": "when it answered",
    "CheckRecord.status": "what it answered",
    "CacheStatistics.path": "the file",
    "CacheStatistics.proved": "verdicts",
    "CacheStatistics.refuted": "verdicts",
    "CacheStatistics.unknown": "verdicts",
    "CacheStatistics.entries": "all of them",
    "Verdict.fields": "layer a",
    "Verdict.proof": "layer b",
    "Verdict.floats": "layer c, where it was asked",
    "Verdict.counterexample": "where the programs differ, if such a place is known",
    "FieldEvidence.seed": "of the draws",
    "FieldEvidence.draws": "how many were made",
    "FieldEvidence.redrawn": "how many of them again, because a divisor was zero",
    "FieldEvidence.reason": "why the outcome is `unknown`",
    "Proof.proved": "whether one was found",
    "Proof.rules": "the axioms that it uses",
    "Proof.obstacle": "what stood in the way, if none was found",
    "FloatEvidence.seed": "of the inputs",
    "FloatEvidence.strict": "whether NaN and infinity had to agree",
    "FloatEvidence.trials": "one for each distribution",
    "Trial.distribution": "its name",
    "Trial.status": "`passed`, `failed` or `skipped`",
    "Trial.reason": "why, where it did not pass",
    "Trial.original_error": "the original's own, in units in the last place",
    "Trial.candidate_error": "the candidate's",
    "Trial.output": "the output on which the candidate is worst",
    "Trial.expected": "what should be there",
    "Trial.found": "what the candidate has there",
    "Counterexample.kind": "how they differ",
    "Counterexample.seed": "of the inputs",
    "Counterexample.distribution": "that the inputs are drawn from",
    "Counterexample.output": "its number",
    "Counterexample.index": "the element",
    "Counterexample.expected": "its value in the original",
    "Counterexample.found": "its value in the candidate",
}
"""What fields mean whose names say it to a reader of the code."""


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
    ("a worker's slice, in nanoseconds", "engine.worker.worker_main.SLICE_NS"),
    ("a slice of `workers=0`, in nanoseconds", "engine.worker.slots.LOCAL_SLICE_NS"),
    ("largest frame between processes, in bytes", "processes.frames.MAX_FRAME"),
    ("first interval between a worker's reports, in seconds", "engine.run.run.REPORT_SECONDS"),
    ("later, as a share of the time that has passed", "engine.run.ticker.REPORT_SHARE"),
    ("time for last reports when a search ends early, in seconds", "engine.run.run.GRACE_SECONDS"),
    (
        "how long a journal's record waits for company, in seconds",
        "engine.journal.journal.BATCH_SECONDS",
    ),
    (
        "how often a journal is forced to the disk, in seconds",
        "engine.journal.journal.SYNC_SECONDS",
    ),
    (
        "a smaller journal is never replaced by a snapshot, in bytes",
        "engine.journal.journal.COMPACT_BYTES",
    ),
    ("keys that a table has room for", "engine.explore.claims.CAPACITY"),
    ("nodes of a worker that may wait for verdicts", "engine.explore.heap_explorer.MOST_PARKED"),
    ("asynchronous expansions of a worker under way", "problem.LANES"),
    (
        "one node in this many is expanded twice, to check `expand`",
        "engine.explore.explorer.CHECK_EVERY",
    ),
    ("workers that may die of a lone subtree", "engine.books.ledger.MOST_DEATHS"),
    ("verdicts that a cache file keeps", "checks.store.ROWS"),
    ("verdicts in memory", "checks.cache.REMEMBERED"),
)
SAYERS: dict[str, Callable[..., str]] = {
    "accumulators": _tensor.accumulators,
    "asked": _measured.asked,
    "bars": _measured.bars,
    "builtins": _tensor.builtins,
    "constants": constants,
    "distributions": _tensor.distributions,
    "dtypes": _tensor.dtypes,
    "events": events,
    "exits": exits,
    "fields": fields,
    "help": help_text,
    "kernel": _kernels.kernel,
    "operators": _tensor.operators,
    "rules": _tensor.rules,
    "scalar_errors": _kernels.scalar_errors,
    "glance": _measured.glance,
    "machine": _measured.machine,
    "searches": _measured.searches,
    "seed": _measured.seed,
    "settings": settings,
    "sightings": _measured.sightings,
    "space": _measured.space,
}
