"""Mirage's search as it first was, on this engine: z3 is asked of every prefix of a block."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

from lib.figures import figure, versions

from aiosearch import Result, Search, SearchStatus
from aiosearch.lab.mirage.tasks import TASKS
from aiosearch.lab.trial import Family
from aiosearch.superoptimizer.progress import cpu_seconds
from aiosearch.workloads import Blocks, Kernels

MIRAGE: Mapping[str, str] = MappingProxyType(
    {
        "rms-norm": "116 CPU s, 153,471 states, 7,357 questions",
        "gated-mlp": "144 CPU s, 160,028 states, 11,668 questions",
        "lora": "not ended at 143 CPU s, 10,229 questions",
        "gqa": "not ended at 263 CPU s, 19,193 questions",
    }
)
"""Its C++ of November 2024 on one thread, with blocks of nine operators, loads among them."""
OPERATORS = 9
"""Of such a block at most, loads among them."""
KERNELS, ATTENTION_KERNELS = 5, 7
"""Kernels at most, one of them a block; the inputs count."""
LOOK_SECONDS = 0.1


def ask_z3(shortest: int, seconds: float) -> None:
    """Searches for each task, by one worker, and gives up after so many CPU seconds.

    First a block alone: with so many operators beside the loads, then with one more as long as that
    ends, up to as many as Mirage's blocks have. Then kernels, within Mirage's limits.
    """
    for name, task in TASKS.items():
        for length in range(shortest, max(shortest, OPERATORS - len(task.inputs)) + 1):
            if not _asked(name, f"{length} operators", Blocks(name, length), seconds):
                break
        kernels = Kernels(name, ATTENTION_KERNELS if name == "gqa" else KERNELS, OPERATORS)
        _asked(name, "kernels", kernels, seconds)


def _asked(name: str, what: str, problem: Blocks | Kernels, seconds: float) -> bool:
    """Tells of one search; says whether it ended."""
    before = cpu_seconds()
    result = asyncio.run(_searched(problem, seconds))
    _tell(f"{name}, {what}", MIRAGE[name], result, cpu_seconds() - before)
    return result.status is SearchStatus.COMPLETE


async def _searched(problem: Blocks | Kernels, seconds: float) -> Result:
    """Searches until the worker and z3 have spent so many CPU seconds."""
    family = Family()
    async with Search(problem, workers=1, on_unknown="drop", cache=None) as search:
        result = asyncio.create_task(search.wait())
        while not result.done() and family.cpu < seconds:
            await asyncio.wait((result,), timeout=LOOK_SECONDS)
        search.stop("it takes too long")
        return await result


def _tell(what: str, mirage: str, result: Result, seconds: float) -> None:
    statistics, checks = result.statistics, result.statistics.checks
    assert checks is not None
    figure(
        f"asking z3 of every prefix: {what}",
        seconds,
        "CPU s",
        status="complete" if result.status is SearchStatus.COMPLETE else "not ended",
        states=statistics.nodes,
        pruned=statistics.unknown,
        questions=checks.checks,
        parts=checks.proved,
        unknown=checks.unknown,
        z3_seconds=round(checks.cpu_seconds, 2),
        programs=statistics.solutions,
        mirage=mirage,
        compared=versions("z3-solver"),
    )
