"""Mirage's search as it first was, on this engine: z3 is asked of every prefix of a block."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

from figures import figure, versions

from aiosearch import Result, Search
from aiosearch.superoptimizer.clock import cpu_seconds
from aiosearch.workloads import Blocks
from aiosearch.workloads.tiles import TASKS

MIRAGE: Mapping[str, str] = MappingProxyType(
    {
        "rms-norm": "116 CPU s, 153,471 states, 7,357 questions",
        "gated-mlp": "144 CPU s, 160,028 states, 11,668 questions",
        "lora": "not ended at 143 CPU s, 10,229 questions",
        "gqa": "not ended at 263 CPU s, 19,193 questions",
    }
)
"""Its C++ of November 2024 on one thread, with blocks of nine operators, loads among them."""


def ask_z3(length: int) -> None:
    """Searches a block of so many operators for each task, by one worker."""
    for task in TASKS:
        before = cpu_seconds()
        result = asyncio.run(_searched(Blocks(task, length)))
        _tell(task, length, result, cpu_seconds() - before)


async def _searched(problem: Blocks) -> Result:
    async with Search(problem, workers=1, on_unknown="drop", cache=None) as search:
        return await search.wait()


def _tell(task: str, length: int, result: Result, seconds: float) -> None:
    statistics, checks = result.statistics, result.statistics.checks
    assert checks is not None
    figure(
        f"asking z3 of every prefix: {task}, {length} operators",
        seconds,
        "CPU s",
        status=str(result.status),
        states=statistics.nodes,
        pruned=statistics.unknown,
        questions=checks.checks,
        parts=checks.proved,
        unknown=checks.unknown,
        z3_seconds=round(checks.cpu_seconds, 2),
        programs=statistics.solutions,
        mirage=MIRAGE.get(task),
        compared=versions("z3-solver"),
    )
