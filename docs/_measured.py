"""What benchmarks printed of searches, as the page of figures has it, and the space by default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from aiosearch.superoptimizer import Space

from _tensor import table

FIGURES = Path(__file__).with_name("figures.md")
SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SEARCH, ASKED = "every fused program: ", "asking z3 of every prefix: "


class Figure(NamedTuple):
    """A row of that page."""

    name: str
    value: str
    target: str
    beside: dict[str, str]


def space() -> str:
    """Lists what there is in the space by default."""
    return table(("what", "by default"), Space().lines())


def searches() -> str:
    """Lists the searches, beside Mirage's."""
    columns = {
        "Mirage, asking z3": "mirage_asking_z3",
        "Mirage, asking egg": "mirage_asking_egg",
        "kernel graphs": "kernel_graphs",
        "programs": "programs",
        "of the best": "best_verified",
    }
    return _listed("program", "here", SEARCH, columns)


def asked() -> str:
    """Lists the searches of one block that ask z3."""
    columns = {
        "ended": "status",
        "prefixes explored": "states",
        "pruned": "pruned",
        "questions": "questions",
        "answered *is a part*": "parts",
        "*unknown*": "unknown",
        "Mirage, whole": "mirage",
    }
    return _listed("what", "here", ASKED, columns)


def sightings() -> str:
    """Lists what was looked for among all programs."""
    rows = [
        (one.name, one.beside["found"], one.value.removesuffix(" programs"), one.beside["evidence"])
        for one in _figures("search")
        if "evidence" in one.beside
    ]
    return table(("program", "found", "how many are such", "one of them"), rows)


HERE, BEYOND = ("2", "4"), ("8", "32", "128")
"""Of how many workers the tables show what was run, and what was simulated."""
MEASURES: Mapping[str, Mapping[str, str]] = {
    "speed-up": {"measured": "by the clock", "busiest": "by the busiest", "cpu": "CPU"},
    "balance": {"measured": "mean", "least_over_most": "least"},
    "contention": {"measured": "measured"},
    "questions": {"measured": "measured"},
}


def seed(measure: str) -> str:
    """Lists what one measure of the seed's experiment came to, beside the seed's own."""
    shown = MEASURES[measure]
    heads = [f"{head}, {' and '.join(HERE)}" for head in shown.values()]
    rows = []
    for one in _figures("seed"):
        prefix, _, way = one.name.partition(": ")[0].partition(" of ")
        if prefix == measure:
            here = (_some(one.beside.get(key, ""), HERE) for key in shown)
            beyond = _some(one.beside.get("simulated", ""), BEYOND)
            theirs = one.beside.get("seed", "")
            rows.append((*way.split(", "), *here, beyond, theirs))
    last = f"simulated, {', '.join(BEYOND)}"
    return table(("shared out by", "verdicts", *heads, last, "Mirage, by workers"), rows)


def _some(listed: str, workers: Sequence[str]) -> str:
    """Of figures by workers, those of some."""
    found = dict(each.split(" ") for each in listed.split(", ") if each)
    return " · ".join(found.get(each, "-") for each in workers) if found else "not run"


def _listed(first: str, second: str, prefix: str, columns: Mapping[str, str]) -> str:
    rows = [
        (one.name.removeprefix(prefix), one.value, *map(one.beside.__getitem__, columns.values()))
        for one in _figures("search")
        if one.name.startswith(prefix)
    ]
    return table((first, second, *columns), rows)


def _figures(name: str) -> Iterator[Figure]:
    sections = dict(SECTION.findall(FIGURES.read_text(encoding="utf-8")))
    for line in sections.get(name, "").splitlines():
        if line.startswith("| ") and not line.startswith(("| figure ", "| --- ")):
            name, value, target, beside, _ = line.strip("| ").split(" | ")
            yield Figure(name, value, target, _pairs(beside))


def _pairs(beside: str) -> dict[str, str]:
    parts = (part.partition(" ") for part in beside.split("; "))
    return {name: value for name, _, value in parts}
