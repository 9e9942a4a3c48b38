"""Calls as programs make them: what a call of the drop-in costs, and what it gains in each way.

`uv run --group bench python benchmarks/calls.py [--seconds 3] [NAME ...]`

First the microseconds that a call of `Optimized` takes more than one of `jax.jit` on a function of
4x4 arrays, whose work is nothing: where nothing is replaced, in a plain function and in one that
was compiled already; and where its region is replaced by itself. CPU time of the calling thread, in
rounds in which each is timed once, in an order that is drawn; the figure is the median difference.
Target where nothing is replaced: 0.3.

Then, for each NAME of `corpus.py`, which is optimized with little effort, a line for each way of
calling: how many times as fast as `jax.jit` the drop-in is when it is measured once more, beside
the speed-up that was claimed. Ways are: waited for, several calls in flight, a chain of calls,
behind other work of XLA, beside a busy core. Where nothing is taken, it says why.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from corpus import CORPUS
from lib.figures import figure

from aiosearch.measure.ratios import interval
from aiosearch.optimizer.handback.optimized import Optimized
from aiosearch.optimizer.optimization import optimize_sync
from aiosearch.optimizer.outcomes.results import Results
from aiosearch.optimizer.race.as_called import AsCalledRace
from aiosearch.optimizer.trace import Spliced, cut

CALLS = 200
"""Calls of a sample."""
TARGET = 0.3


def layer(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="functions of corpus.py")
    parser.add_argument("--seconds", type=float, default=3.0, help="for the rounds of each table")
    options = parser.parse_args()
    if unknown := set(options.names) - set(CORPUS):
        parser.error(f"no function {', '.join(sorted(unknown))} in corpus.py")
    costs(options.seconds)
    for name in options.names:
        ways(name, options.seconds)


def costs(seconds: float) -> None:
    """What a call costs more than one of the jitted function."""
    args = jnp.ones((4, 4)), jnp.ones((4, 4))
    compiled, parts = jax.jit(layer), cut(layer, *args)
    replaced: Any = {region.subject: region.original for region in parts.regions}
    calls: dict[str, Callable[..., Any]] = {
        "jit": compiled,
        "nothing replaced": Optimized(Spliced(parts)),
        "nothing replaced in what was compiled": Optimized(Spliced(cut(compiled, *args))),
        "replaced": Optimized(Spliced(parts, replaced)),
    }
    microseconds = rounds(calls, args, seconds)
    base = microseconds.pop("jit")
    for name, samples in microseconds.items():
        differences = sorted(a - b for a, b in zip(samples, base, strict=True))
        out, _ = interval(len(differences))
        figure(
            f"cost of a call beside jax.jit: {name}",
            statistics.median(differences),
            "us",
            low=round(differences[out], 3),
            high=round(differences[-1 - out], 3),
            jit_us=round(statistics.median(base), 3),
            rounds=len(differences),
            target=None if name == "replaced" else TARGET,
        )


def ways(name: str, seconds: float) -> None:
    """What a function gains in each way of calling it, by a race after the one that decided."""
    case = CORPUS[name]
    args = case.values()
    with tempfile.TemporaryDirectory() as folder, Results.open(Path(folder) / "store") as store:
        started = time.monotonic()
        fast = optimize_sync(case.function, *args, effort="quick", results=store, progress=False)
        took = time.monotonic() - started
    report = fast.report
    assert report is not None
    facts = {"claimed": report.speedup, "search_seconds": round(took, 1)}
    if not report.faster:
        figure(f"gain in no way of calling: {name}", 1.0, "times", why=str(report), **facts)
        return
    leaves = jax.tree.leaves(args)
    race = AsCalledRace(case.function, args, {}, leaves).race(fast, seconds).race
    for way in race.ways:
        ratio, tail = race.speedup(1, way=way), race.tail(1, way)
        assert ratio is not None
        figure(
            f"gain {way.told}: {name}",
            ratio.median,
            "times",
            low=round(ratio.low, 3),
            high=round(ratio.high, 3),
            noise=round(race.noise(way=way) or 0.0, 3),
            slowest_tenth=None if tail is None else round(tail.median, 3),
            rounds=race.rounds,
            **facts,
        )


def rounds(
    calls: dict[str, Callable[..., Any]], args: tuple[Any, ...], seconds: float
) -> dict[str, list[float]]:
    """Microseconds of a call in each round, by CPU time, so that neighbours hardly matter."""
    order, rng = list(calls), random.Random(0)
    samples: dict[str, list[float]] = {name: [] for name in order}
    for name in order:
        calls[name](*args)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        rng.shuffle(order)
        for name in order:
            samples[name].append(sample(calls[name], args))
    return samples


def sample(call: Callable[..., Any], args: tuple[Any, ...]) -> float:
    call(*args)  # what ran before has left its traces in the caches
    started = time.thread_time_ns()
    for _ in range(CALLS):
        call(*args)
    return (time.thread_time_ns() - started) / CALLS / 1e3


if __name__ == "__main__":
    main()
