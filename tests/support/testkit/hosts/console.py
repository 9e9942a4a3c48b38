"""What the tests of the console script get from their fixtures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Outcome:
    """What a command gave and told."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Cli: TypeAlias = Callable[..., Outcome]
"""Runs a command in this process."""
Start: TypeAlias = Callable[..., "subprocess.Popen[str]"]
"""Starts a command as the leader of a process group of its own."""
Puzzle: TypeAlias = Callable[[str], str]
"""Names a problem of puzzles.py by its file."""
