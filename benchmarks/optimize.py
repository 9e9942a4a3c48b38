"""Forty functions as people write them: how much faster does `optimize` make them, if at all?

`uv run --group bench python benchmarks/optimize.py [--effort quick] [NAME ...]`

Each is optimized from nothing, with a store of its own. Then the function under `jax.jit` and what
came back are timed here, in turns, and their results compared.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from corpus import CORPUS, Case
from figures import figure

from aiosearch.measure import JaxExecutor
from aiosearch.optimizer.effort import Effort
from aiosearch.optimizer.optimizing import optimize
from aiosearch.optimizer.results import Results

ROUNDS = 31
SAMPLE_SECONDS = 0.004
"""Short calls are repeated until a sample takes so long."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--effort", default="quick", choices=[one.value for one in Effort])
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    cases = [CORPUS[name] for name in arguments.names] or list(CORPUS.values())
    asyncio.run(compare(cases, Effort(arguments.effort), arguments.target))


async def compare(cases: Sequence[Case], effort: Effort, target: str) -> None:
    ratios: dict[str, float] = {}
    noises: list[float] = []
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        store = Results.open(Path(folder) / "results.sqlite")
        async with JaxExecutor(target) as executor:
            for case in cases:
                ratio, noise, right = await one(case, effort, target, store, executor)
                ratios[case.name] = ratio
                noises.append(noise)
                wrong += not right
        store.close()
    slower = [name for name, ratio in ratios.items() if ratio < 1 - 2 * max(noises)]
    geomean = math.exp(statistics.fmean(map(math.log, ratios.values())))
    figure("optimize: geomean over jax.jit", geomean, "times", target=1.5, of=len(ratios))
    faster = sum(ratio > 1.3 for ratio in ratios.values())
    figure("optimize: over 1.3 times as fast", faster, "functions", target=14)
    figure("optimize: slower than the original", len(slower), "functions", target=0, names=slower)
    figure("optimize: wrong", wrong, "functions", target=0)
    figure("optimize: noise, median", statistics.median(noises), "of a ratio", most=max(noises))


async def one(
    case: Case, effort: Effort, target: str, store: Results, executor: JaxExecutor
) -> tuple[float, float, bool]:
    values = case.values(0)
    started = time.perf_counter()
    found = await optimize(
        case.function, *values, effort=effort, target=target, results=store, executor=executor
    )
    seconds = time.perf_counter() - started
    naive = jax.jit(case.function)
    right = alike(naive(*values), found(*values))
    fast = found if found.spliced.replacements else naive
    ratio, noise = timed(naive, fast, values)
    figure(
        f"optimize: {case.name}",
        ratio,
        "times as fast as jax.jit",
        family=case.family,
        noise=round(noise, 3),
        right=right,
        seconds=round(seconds, 1),
        jax=jax.__version__,
        claimed=[round(one.answer.speedup, 2) for one in found.report.found],
    )
    return ratio, noise, right


def alike(ours: Any, theirs: Any) -> bool:
    """Whether two results are the same but for rounding, each tensor on its own scale."""
    pairs = zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    return all(
        near(np.asarray(a, np.float64), np.asarray(b, np.float64), a.dtype) for a, b in pairs
    )


def near(a: Any, b: Any, dtype: Any) -> bool:
    room = 64 * float(jax.numpy.finfo(dtype).eps) if dtype.kind in "fV" else 0.0
    size = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
    return bool(np.allclose(a, b, rtol=room, atol=room * size, equal_nan=True))


def timed(
    naive: Callable[..., Any], fast: Callable[..., Any], values: Sequence[Any]
) -> tuple[float, float]:
    """The median paired ratio, and how far the naive one seems to be from itself."""
    repeats = max(1, int(SAMPLE_SECONDS / max(sample(naive, values, 1), 1e-7)))
    rounds = [
        (
            sample(naive, values, repeats),
            sample(fast, values, repeats),
            sample(naive, values, repeats),
        )
        for _ in range(ROUNDS)
    ]
    ratio = statistics.median(math.sqrt(a * c) / b for a, b, c in rounds)
    noise = abs(statistics.median(a / c for a, _, c in rounds) - 1)
    return ratio, noise


def sample(function: Callable[..., Any], values: Sequence[Any], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        jax.block_until_ready(function(*values))
    return (time.perf_counter() - started) / repeats


if __name__ == "__main__":
    main()
