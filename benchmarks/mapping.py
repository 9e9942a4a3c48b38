"""What mappings and plans reach: published scores, the search for them, and JAX programs by rows.

    python benchmarks/mapping.py [--published] [--quick]

With `--published` only scores, one line each with what was published. Otherwise also split sizes
that are found, and programs run by rows against one `jax.jit` in paired rounds on this machine:
the network of eight layers on 262,144 rows, and a hundred sines of five million numbers. Before,
bugs are seeded into programs that run by rows, and those that verification accepts are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from lib.figures import cpu_seconds, figure, machine
from lib.placement_bugs import count_accepted

from aiosearch import solve
from aiosearch.mapper import Cluster, FaithfulModel, SplitSizes, Team, flatten, map_program
from aiosearch.mapper.costs import score
from aiosearch.mapper.published import (
    KERNELS,
    batch_classification,
    claix,
    jacobi,
    monte_carlo,
    multi_filter,
)
from aiosearch.mapper.splits import PatternSplit
from aiosearch.mapper.stair_climb import Mapping

FIRST, SECOND = Team(0, 0, 0, 24), Team(0, 0, 1, 24)


def place_batch(split: PatternSplit) -> Team:
    upper = split.starts[0] < 4 * 65536
    if split.name in ("normalize", "extract"):
        return FIRST if upper == (split.name == "normalize") else SECOND
    return SECOND


def place_jacobi(split: PatternSplit) -> Team:
    away = split.name.startswith(("sweep2", "sweep3")) and split.starts[0] == 0
    return SECOND if away else FIRST


def place_filters(split: PatternSplit) -> Team:
    if split.name == "laplacian":
        return SECOND if split.starts[0] < 4097 else FIRST
    return FIRST if split.name == "sobel" else SECOND


MAPPINGS: dict[str, tuple[Any, SplitSizes, Callable[[PatternSplit], Team], float]] = {
    "base_batch": (
        batch_classification, SplitSizes(65536, 65536), place_batch, 0.6727511482839811,
    ),
    "jacobi": (jacobi, SplitSizes(4096, 4096), place_jacobi, 0.43456649516955903),
    "base_multifilter": (multi_filter, SplitSizes(4096, 128), place_filters, 0.01902707234136348),
}  # fmt: skip
"""Published mappings: the program, split sizes, who runs what, the score."""

OPTIMA = {
    "batch": (1, 0.40006307962033366),
    "jacobi": (1, 0.43456649516955903),
    "monte": (1, 6.94444824),
    "multifilter": (1, 0.015023565427608772),
    "nn": (0, 0.0090829614),
}
"""By kernel: the lookahead, and the best score that is known for it."""

SIZES = {
    "batch": (batch_classification, 65536),
    "monte": (monte_carlo, 24),
    "jacobi": (lambda: jacobi(5), 2048),
}
"""By kernel: the size of splits at which halving no longer pays."""


def published_scores() -> None:
    model = FaithfulModel(claix())
    for name, (program, sizes, place, published) in MAPPINGS.items():
        levels = [level for level in flatten(program(), sizes) if level.placed]
        steps = [tuple((split, place(split)) for split in level.placed) for level in levels]
        exact(f"posterior score of {name}", score(model, steps), published)


def exact(name: str, value: float, published: float, **details: Any) -> None:
    """A figure with all its digits, which `figure` rounds."""
    line = {"figure": name, "value": value, "unit": "s", "published": published, **details}
    sys.stdout.write(json.dumps({**line, "equal": value == published, "machine": machine()}) + "\n")
    sys.stdout.flush()


def searched_scores(cluster: Cluster) -> None:
    for name, (lookahead, published) in OPTIMA.items():
        program, sizes = KERNELS[name]
        problem = Mapping(program=program(), cluster=cluster, sizes=sizes, lookahead=lookahead)
        begun = time.perf_counter()
        best = solve(problem, workers=0).best_cost
        seconds = time.perf_counter() - begun
        assert best is not None
        exact(
            f"search of {name}", best, published, lookahead=lookahead,
            reached=best <= published * (1 + 1e-8), seconds=round(seconds, 3),
            **problem.statistics(),
        )  # fmt: skip


async def split_sizes(cluster: Cluster) -> None:
    for name, (program, published) in SIZES.items():
        begun = time.perf_counter()
        mapped = await map_program(program(), cluster, lookahead=0)
        figure(
            f"split size of {name}", mapped.sizes.pattern, "indices", published=published,
            tried={trial.sizes.pattern: trial.score for trial in mapped.trials},
            seconds=round(time.perf_counter() - begun, 2),
        )  # fmt: skip


async def programs_by_rows(quick: bool) -> None:
    import jax
    import jax.numpy as jnp

    key = jax.random.PRNGKey(0)
    scale = 16 if quick else 1
    rows = 262_144 // scale

    def layer(width: int) -> tuple[jax.Array, jax.Array]:
        return jax.random.normal(key, (64, width)) / 8, jnp.zeros(width)

    def network(x: jax.Array, layers: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
        for weight, bias in layers:
            x = jnp.tanh(x @ weight + bias)
        return x

    def taylor(x: jax.Array, layers: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
        for weight, bias in layers:
            y = x @ weight + bias
            x = y - y**3 / 3 + 2 * y**5 / 15 - 17 * y**7 / 315
        return x

    def sines(x: jax.Array) -> jax.Array:
        for _ in range(100):
            x = jnp.sin(x)
        return x

    layers = [*(layer(64) for _ in range(7)), layer(10)]
    x = jax.random.normal(key, (rows, 64))
    await by_rows("network, tanh", network, x, layers, target=5.0)
    await by_rows("network, Taylor series", taylor, x, layers, target=5.0)
    await by_rows(
        "a hundred sines", sines, jax.random.normal(key, (5_000_000 // scale,)), target=1.8
    )


def least_cpu(function: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Milliseconds of CPU that all threads of this process take: what others do is not in it."""

    def run() -> None:
        function(*args).block_until_ready()

    run()
    return round(1e3 * min(cpu_seconds(run) for _ in range(3)), 2)


async def by_rows(name: str, function: Callable[..., Any], *args: Any, target: float) -> None:
    import jax

    from aiosearch.mapper import place

    plan = await place(function, *args)
    description = plan.description
    compiled = jax.jit(function)
    cpu = {"jit_cpu_ms": least_cpu(compiled, args), "plan_cpu_ms": least_cpu(plan, args)}
    figure(
        f"{name} by rows", description.gain, "times jax.jit", target=target,
        jit_ms=round(description.original_seconds * 1e3, 2),
        plan_ms=round(description.seconds * 1e3, 2),
        schedule=str(description.schedule), evidence=description.evidence,
        reason=description.reason, **cpu,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--published", action="store_true", help="scores only")
    parser.add_argument("--quick", action="store_true", help="sanity sizes")
    parser.add_argument("--bugs", type=int, default=1000, help="placement bugs that are seeded")
    options = parser.parse_args()
    published_scores()
    searched_scores(claix())
    if not options.published:
        asyncio.run(split_sizes(claix()))
        counts = count_accepted(50 if options.quick else options.bugs)
        figure("placement bugs accepted", counts.pop("accepted"), "bugs", target=0, **counts)
        asyncio.run(programs_by_rows(options.quick))


if __name__ == "__main__":
    main()
