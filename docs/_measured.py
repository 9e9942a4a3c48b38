"""What `benchmarks/search.py` printed, as the page of figures has it, and the space by default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from aiosearch.superoptimizer import Space

from _tensor import table

FIGURES = Path(__file__).with_name("figures.md")
SECTION = re.compile(r"^## search\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
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
        "prefixes explored": "states",
        "pruned": "pruned",
        "questions": "questions",
        "answered *is a part*": "parts",
        "*unknown*": "unknown",
        "Mirage, whole": "mirage",
    }
    return _listed("a block of", "here", ASKED, columns)


def sightings() -> str:
    """Lists what was looked for among all programs."""
    rows = [
        (one.name, one.beside["found"], one.value.removesuffix(" programs"), one.beside["evidence"])
        for one in _figures()
        if "evidence" in one.beside
    ]
    return table(("program", "found", "how many are such", "one of them"), rows)


def _listed(first: str, second: str, prefix: str, columns: Mapping[str, str]) -> str:
    rows = [
        (one.name.removeprefix(prefix), one.value, *map(one.beside.__getitem__, columns.values()))
        for one in _figures()
        if one.name.startswith(prefix)
    ]
    return table((first, second, *columns), rows)


def _figures() -> Iterator[Figure]:
    section = SECTION.search(FIGURES.read_text(encoding="utf-8"))
    for line in section[1].splitlines() if section else ():
        if line.startswith("| ") and not line.startswith(("| figure ", "| --- ")):
            name, value, target, beside, _ = line.strip("| ").split(" | ")
            yield Figure(name, value, target, _pairs(beside))


def _pairs(beside: str) -> dict[str, str]:
    parts = (part.partition(" ") for part in beside.split("; "))
    return {name: value for name, _, value in parts}
