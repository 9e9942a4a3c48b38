"""What XLA's compiler lists of an executable for a GPU, in the files that it writes if asked to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_LAUNCH = re.compile(
    r"kCustomKernel .*?(\w+) grid: \[(\d+), (\d+), (\d+)\] threads: \[(\d+), \d+, \d+\]"
    r"\s+shared_memory: (\d+) bytes"
)
_STEP = re.compile(r"^\d+: (k\w+)", re.MULTILINE)


class Launch(NamedTuple):
    """Of a kernel."""

    name: str
    blocks: int
    threads: int
    shared_bytes: int


def launches(folder: Path) -> Iterator[Launch]:
    """In their order."""
    for path in folder.glob("*thunk_sequence.txt"):
        for name, x, y, z, threads, shared in _LAUNCH.findall(path.read_text()):
            yield Launch(name, int(x) * int(y) * int(z), int(threads), int(shared))


def is_graph(folder: Path) -> bool | None:
    """Whether all that runs is one graph, which the GPU replays without the host.

    Nothing where nothing is listed.
    """
    found = [path.read_text() for path in folder.glob("*thunk_sequence*.txt")]
    graphs = [_STEP.findall(text) == ["kCommandBuffer"] for text in found]
    return any(graphs) if graphs else None
