"""A tree that counts how often it is really expanded, also in a process that is killed."""

from __future__ import annotations

import mmap
import os
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aiosearch.workloads.uts import UTS, Node


@dataclass(frozen=True)
class Tallied(UTS):
    """UTS with a count in a file for each process, mapped: no kill takes it back."""

    folder: str = "."

    def expand(self, node: Node) -> list[Node] | tuple[()]:
        """Counts, then gives the children."""
        self._count[0] += 1
        return super().expand(node)

    @cached_property
    def _count(self) -> memoryview:
        path = Path(self.folder) / f"{os.getpid()}-{time.monotonic_ns()}.count"
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            return memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")


def expanded(folder: Path) -> int:
    """How many nodes all processes together have expanded."""
    return sum(int.from_bytes(path.read_bytes(), "little") for path in folder.glob("*.count"))
