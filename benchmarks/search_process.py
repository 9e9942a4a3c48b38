"""One search of fused programs in a process of its own, told as JSON.

    python benchmarks/search_process.py '{"name": "gqa", "space": {"block_operators": 9}}'

What it takes is counted from when all is imported, before anything of the program is computed.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from collections import Counter

from lib.superoptimizer.expected_programs import WANTED, Programs, Sighting, sighted
from msgspec import Struct, field, json

from aiosearch.devices import device
from aiosearch.superoptimizer.progress import cpu_seconds
from aiosearch.superoptimizer.space import Space
from aiosearch.superoptimizer.superoptimization import Findings, superoptimize
from aiosearch.tensor.programs import builtin
from aiosearch.tensor.text import write

DEVICE = "A100"


class Task(Struct, frozen=True):
    """What to search."""

    name: str
    space: Space = field(default_factory=Space)
    workers: int = 0
    wanted: str = ""
    """The key of what has to be among the programs."""


class Outcome(Struct, frozen=True):
    """What came of it."""

    start_up: float
    """CPU seconds of imports."""
    seconds: dict[str, float]
    """Of everything else, by what was done."""
    mebibytes: float
    """At most, of the process in which the search was begun."""
    status: str
    graphs: int
    programs: int
    sizes: dict[str, int]
    asked: int
    """Forms of which it was asked whether they are parts."""
    pruned: dict[str, int]
    answers: tuple[str, ...]
    evidence: dict[str, int]
    doubts: int
    """How many of the answers floats speak against."""
    refused: tuple[str, ...]
    wanted: tuple[Sighting, ...]

    @property
    def cpu(self) -> float:
        return sum(self.seconds.values())


def searched(task: Task) -> Outcome:
    """Searches in a fresh process."""
    command = [sys.executable, __file__, json.encode(task).decode()]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.decode(done.stdout, type=Outcome)


def outcome(task: Task) -> Outcome:
    """Searches in this process, which has done nothing else before."""
    start_up = cpu_seconds()
    program, where = builtin(task.name), device(DEVICE)
    findings = asyncio.run(superoptimize(program, where, space=task.space, workers=task.workers))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Outcome(
        start_up,
        findings.seconds,
        memory / 1024,
        findings.status,
        findings.graphs,
        findings.programs,
        findings.sizes,
        len(findings.problem.tables.parts.known),
        dict(findings.pruned),
        tuple(write(answer.program) for answer in findings.answers),
        Counter(str(answer.verdict.status) for answer in findings.answers),
        sum(bool(answer.doubt) for answer in findings.answers),
        findings.refused,
        _sightings(findings, task.wanted),
    )


def _sightings(findings: Findings, key: str) -> tuple[Sighting, ...]:
    programs = Programs(findings.problem)
    wanted = WANTED.get(key, {}).items()
    return tuple(sighted(programs, what, those, findings.device) for what, those in wanted)


if __name__ == "__main__":
    sys.stdout.buffer.write(json.encode(outcome(json.decode(sys.argv[1], type=Task))) + b"\n")
