"""What benchmarks printed of searches, as the page of figures has it, and the space by default."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from aiosearch.display import charts
from aiosearch.superoptimizer import Space

from _tensor import table

FIGURES = Path(__file__).with_name("all-figures.md")
SECTION = re.compile(r"^## ([\w.-]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^`uv run --group [\w-]+ python (.*)`$", re.MULTILINE)
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


GLANCE = (
    (
        "forty JAX functions as people write them, over `jax.jit`",
        "optimize.zen5c",
        "optimize: geomean over jax.jit",
    ),
    ("of them wrong", "optimize.zen5c", "optimize: wrong"),
    (
        "an RMS norm and a linear layer in bf16, one row, over the best plain JAX",
        "kernels.zen5c",
        "kernels: rms_norm, bf16, 1 row",
    ),
    (
        "forward passes of twelve models, a transformer block to a GRU, over `jax.jit`",
        "models",
        "models: geomean over jax.jit",
    ),
    (
        "right tensor programs proved for all shapes, as a share",
        "verify",
        "verify: right programs proved",
    ),
    (
        "of 12,967 tensor programs with a mistake, accepted although wrong",
        "mutants",
        "mutants.accepted_wrong",
    ),
    (
        "every fused program of a gated MLP, where Mirage's search takes 144 s",
        "search",
        "every fused program: gated_mlp",
    ),
    (
        "nodes per CPU second of one worker, over plain recursion",
        "nodes",
        "nodes per CPU second, one worker, against plain recursion: UTS T1 (geometric, 4.1 million"
        " nodes)",
    ),
    (
        "efficiency of two workers on the lopsided tree, where a pool cut by hand has 0.51",
        "speedup",
        "efficiency of two workers: lopsided tree",
    ),
    (
        "faults survived without a difference in the answer",
        "chaos",
        "chaos: faults survived",
    ),
)
"""What the short page shows: in words, the section and the figure."""


def glance(count: str = "") -> str:
    """Lists the figures most asked for, the first `count` of them, each with its command."""
    rows = [
        (words, _value(section, name), f"`{_command(section)}`")
        for words, section, name in GLANCE[: int(count) if count else None]
    ]
    return table(("what", "how much", "printed by"), rows)


def _value(section: str, name: str) -> str:
    (value,) = (figure.value for figure in _figures(section) if figure.name == name)
    number, _, unit = value.partition(" ")
    # What a ratio is over, the words beside it say.
    short = "times" if unit.startswith("times") else unit.split(" / ")[0]
    return f"{number} {short}".removesuffix(" T1").removesuffix(" ratio").removesuffix(" share")


def _command(section: str) -> str:
    sections = dict(SECTION.findall(FIGURES.read_text(encoding="utf-8")))
    (command,) = _COMMAND.findall(sections[section])
    return str(command)


def machine(section: str) -> str:
    """The machine and the versions of a section."""
    sections = dict(SECTION.findall(FIGURES.read_text(encoding="utf-8")))
    return str(sections[section].strip().split("\n\n")[1])


BAR, LEFT, STEP = 420.0, 210.0, 18.0
"""Widths of the longest bar and of names, and the height of a row, in pixels."""


def bars(section: str, prefix: str, unit: str) -> str:
    """Draws the ratios of a section as bars from 1, on a logarithmic scale, the largest first."""
    drawn = [
        (figure.name.removeprefix(f"{prefix}: "), float(figure.value.split()[0]), figure.beside)
        for figure in _figures(section)
        if figure.name.startswith(f"{prefix}: ")
        and figure.value.split(" ", 1)[1].startswith(unit.replace("_", " "))
        and "low" in figure.beside
    ]
    drawn.sort(key=lambda row: -row[1])
    most = max(max(row[1], float(row[2]["high"])) for row in drawn)
    scale = BAR / math.log(most)

    def place(ratio: float) -> float:
        return LEFT + scale * math.log(max(ratio, 1.0))

    parts = []
    for mark in (1, 2, 5, 10, 20, 50, 100):
        if mark <= most:
            parts.append(charts.rule(place(mark), 18, place(mark), 24 + STEP * len(drawn)))
            parts.append(charts.text(place(mark), 12, f"{mark}x", charts.FAINT, "middle"))
    for at, (name, ratio, beside) in enumerate(drawn):
        y = 24 + STEP * at
        parts.append(charts.text(LEFT - 8, y + 11, name, anchor="end"))
        width = max(place(ratio) - LEFT, 1.0)
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="12" fill="#0284c7"/>')
        low, high = place(float(beside["low"])), place(float(beside["high"]))
        parts.append(charts.rule(low, y + 6, high, y + 6))
        parts.append(charts.text(max(place(ratio), high) + 6, y + 11, f"{ratio:.3g}", charts.FAINT))
    width, height = LEFT + BAR + 60, 30 + STEP * len(drawn)
    return charts.document(width, height, parts).replace("\n", "")


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
