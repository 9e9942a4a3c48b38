"""Writes docs/all-figures.md from what the benchmarks print: `python docs/_figures.py DIR/*.jsonl`.

Each file is named after its benchmark (`nodes.jsonl` is what `benchmarks/nodes.py` printed) and has
one JSON object a line. A second name says on what it ran, where that matters: `kernels.amx.jsonl`.
Sections of the page for which there is no file stay as they are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("all-figures.md")
COMMAND = "uv run --group bench python {folder}/{name}.py"
SOAK = ("chaos", "hostile", "outages")
"""Those of `tests/soak`; the others are of `benchmarks`."""
LIBRARIES = ("models", "selfjudged", "third_party")
"""Those that take functions from the libraries of the group `third-party`."""
DEVICE = ("table", "sweep", "predictor", "correctness")
"""Those of `benchmarks/device`, which need a GPU or what one measured."""
CHECKOUT = re.compile(r"/[^\s:]*/(?=(?:benchmarks|tests/soak)/)")
"""Where the benchmarks lay that say where a function is."""
KNOWN = ("figure", "value", "unit", "target", "load", "machine", "versions", "compared", "ways")
DETAILS = ("jax", "kernel", "out")
"""What is for those who read a line as JSON."""

HEAD = """\
# All figures

[Figures](figures.md) has pictures of the most asked for. This page is written by `docs/_figures.py`
from what the benchmarks print. Nothing on it is typed by hand. To measure on your machine:

```console
$ mkdir -p .benchmarks
$ uv run --group bench python benchmarks/nodes.py > .benchmarks/nodes.jsonl
$ uv run --group bench python benchmarks/roundtrip.py > .benchmarks/roundtrip.jsonl
$ uv run --group bench python benchmarks/lag.py > .benchmarks/lag.jsonl
$ uv run python docs/_figures.py .benchmarks/*.jsonl
```

`target` is what a figure is meant to reach; one without it is there for comparison. `load` is that
of the machine when it was measured: figures of a busy machine are worse than they need be. A
section whose name has a second part is the same benchmark on another machine; one that ends with
`busy` was measured beside other work on all cores, where most ratios are lost in the noise and most
gains are left in doubt: it tells what is right, what is refused and what CPU time an answer takes.
"""


def main(paths: Iterable[Path]) -> None:
    known = sections(PAGE.read_text(encoding="utf-8"))
    known |= {path.stem: section(path.stem, read(path)) for path in paths}
    PAGE.write_text("\n".join([HEAD, *(known[name] for name in sorted(known))]), encoding="utf-8")


def sections(page: str) -> dict[str, str]:
    """The parts of a page by their titles, each with an end of line behind its last row."""
    _, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    return {part.partition("\n")[0]: f"## {part.strip()}\n" for part in parts}


def read(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def section(name: str, figures: list[dict[str, Any]]) -> str:
    """Makes the part of one benchmark: its command, its machine, a table."""
    script = name.partition(".")[0]
    folder = "tests/soak" if script in SOAK else "benchmarks"
    folder += "/device" * (script in DEVICE)
    command = COMMAND.format(folder=folder, name=script)
    if script in LIBRARIES:
        command = command.replace("--group bench", "--group third-party")
    lines = [f"## {name}", "", f"`{command}`", ""]
    if figures:
        lines += [about(figures), ""]
    lines += [
        "| figure | value | target | beside it | load |",
        "| --- | ---: | ---: | --- | ---: |",
    ]
    lines += [row(figure) for figure in figures]
    return CHECKOUT.sub("", "\n".join(lines)) + "\n"


def about(figures: list[dict[str, Any]]) -> str:
    """The machine, and every version that a figure was measured with."""
    machine = figures[-1].get("machine", {})
    found: dict[str, dict[str, None]] = {}
    for one in figures:
        for name, number in (one.get("versions", {}) | versioned(one.get("compared"))).items():
            found.setdefault(name, {})[number] = None
    versions = ", ".join(f"{name} {' and '.join(numbers)}" for name, numbers in found.items())
    return (
        f"{machine.get('cpu')}, {machine.get('cores')} cores, {machine.get('system')}, "
        f"Python {machine.get('python')}; {versions}"
    )


def versioned(compared: Any) -> dict[str, str]:
    """What was compared with, where its versions are told."""
    return compared if isinstance(compared, dict) else {}


def row(figure: dict[str, Any]) -> str:
    more = [
        f"{name} {shown(value)}" for name, value in figure.items() if name not in (*KNOWN, *DETAILS)
    ]
    compared = figure.get("compared")
    more += [f"compared {shown(compared)}"] if compared and not versioned(compared) else []
    ways = figure.get("ways")
    more += [f"{way}: {ratios(one)}" for way, one in ways.items()] if isinstance(ways, dict) else []
    cells = (
        figure["figure"],
        f"{shown(figure['value'])} {figure['unit']}",
        shown(figure.get("target")),
        "; ".join(more),
        shown(figure.get("load")),
    )
    return f"| {' | '.join(map(plain, cells))} |"


def plain(cell: str) -> str:
    """Text of a cell in which neither a bar nor a bracket means anything to Markdown."""
    return re.sub(r"([\[\]])", r"\\\1", cell.replace("|", "/"))


def ratios(found: dict[str, Any]) -> str:
    """What was measured in one way of calling, by wall and by CPU time; times are in the JSON."""
    return ", ".join(f"{name} {shown(one)}" for name, one in found.items() if "over_" in name)


def shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict) and {"median", "least", "most"} <= value.keys():
        return f"{shown(value['median'])} ({shown(value['least'])} to {shown(value['most'])})"
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(map(Path, sys.argv[1:]))
