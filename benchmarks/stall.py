"""How long `optimize` holds up the host's event loop: while it traces, and all the while after.

A probe sleeps a millisecond at a time and notes how late it wakes: first beside two processes that
only compute (what a busy machine does to a loop anyway), then beside one `optimize` on the CPU of a
small function, and of four layers of a transformer. The value is the longest time that the loop's
thread computed without a break, which does not depend on what else the machine does. A collection
of all of Python's garbage, which may come at any time and takes longer the more a process holds, is
told apart.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from lib.figures import figure

from aiosearch.optimizer.optimization import optimize
from aiosearch.optimizer.outcomes.results import Results

TARGET_MS = 5.0
REMEMBERED_MS = 50.0
BUSY = "while True: sum(range(1000))"


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.exp(q @ k.T / jnp.sqrt(q.shape[-1]))
    return (scores / scores.sum(-1, keepdims=True)) @ v


def layer(x: jax.Array, weights: Sequence[jax.Array]) -> jax.Array:
    q, k, v, o, up, down = weights
    h = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    scores = jax.nn.softmax((h @ q) @ (h @ k).T / jnp.sqrt(x.shape[-1]))
    x = x + scores @ (h @ v) @ o
    return x + jax.nn.gelu(x @ up) @ down


def layers(x: jax.Array, weights: Sequence[Sequence[jax.Array]]) -> jax.Array:
    for each in weights:
        x = layer(x, each)
    return x


def drawn(*shapes: tuple[int, int]) -> list[jax.Array]:
    keys = jax.random.split(jax.random.key(0), len(shapes))
    return [
        jax.random.normal(key, shape) / jnp.sqrt(shape[0])
        for key, shape in zip(keys, shapes, strict=True)
    ]


def four_layers() -> tuple[jax.Array, list[list[jax.Array]]]:
    width, wide = 512, 2048
    shapes = [(width, width)] * 4 + [(width, wide), (wide, width)]
    return drawn((512, width))[0], [drawn(*shapes) for _ in range(4)]


class Probe:
    """Notes by how many milliseconds a sleeping task oversleeps, and the longest callback."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.callback = 0.0
        self.collecting = 0.0

    def tell(self, phase: str, baseline: Probe | None = None) -> None:
        worst, share = max(self.late, default=0.0), self.percentile(0.99)
        added = None if baseline is None else round(share - baseline.percentile(0.99), 3)
        figure(
            f"stall of the event loop: {phase}",
            self.callback,
            "ms",
            target=None if baseline is None else TARGET_MS,
            late_99th=round(share, 3),
            late_worst=round(worst, 2),
            late_99th_added=added,
            full_collection=round(self.collecting, 2),
            samples=len(self.late),
        )

    def percentile(self, share: float) -> float:
        late = sorted(self.late) or [0.0]
        return late[min(int(len(late) * share), len(late) - 1)]


class Phases:
    """The probe of the phase that it is."""

    def __init__(self) -> None:
        self.tracing, self.after = Probe(), Probe()
        self.now = self.tracing

    def until_traced(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function; who has called it has begun to trace, and ends in this callback."""

        @functools.wraps(function)
        def noted(*args: Any) -> Any:
            self.now = self.after
            return function(*args)

        return noted


@contextmanager
def timed(phases: Phases) -> Iterator[None]:
    """Notes how long each callback of the loop computes."""
    handle: Any = asyncio.Handle
    run = handle._run

    spent = began = 0.0

    def noted(self: Any) -> None:
        nonlocal spent
        spent, start, before = 0.0, time.thread_time(), phases.now
        run(self)
        before.callback = max(before.callback, (time.thread_time() - start - spent) * 1000)

    def collected(phase: str, info: dict[str, int]) -> None:
        nonlocal began, spent
        if info["generation"] < 2:
            return
        if phase == "start":
            began = time.thread_time()
            return
        took = time.thread_time() - began
        phases.now.collecting = max(phases.now.collecting, took * 1000)
        spent += took if threading.current_thread() is threading.main_thread() else 0.0

    handle._run = noted
    gc.callbacks.append(collected)
    try:
        yield
    finally:
        gc.callbacks.remove(collected)
        handle._run = run


async def probing(phases: Phases) -> None:
    while True:
        probe = phases.now
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        probe.late.append((time.perf_counter() - before - 0.001) * 1000)


async def machine_alone() -> Probe:
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    phases = Phases()
    task = asyncio.create_task(probing(phases))
    try:
        with timed(phases):
            await asyncio.sleep(5)
    finally:
        task.cancel()
        for process in busy:
            process.kill()
            process.wait()
    return phases.tracing


async def again(path: Path, function: Callable[..., Any], *args: Any) -> float:
    """Milliseconds until an answer is there that was found before."""
    started = time.perf_counter()
    with Results.open(path) as store:
        await optimize(function, *args, effort="quick", target="cpu", results=store)
    return (time.perf_counter() - started) * 1000


async def stalls(function: Callable[..., Any], *args: Any) -> tuple[Phases, float]:
    """What is noted while a function is optimized, and how long it takes a second time."""
    for array in jax.tree.leaves(args):
        array.block_until_ready()
    phases = Phases()
    with tempfile.TemporaryDirectory() as folder, timed(phases):
        path = Path(folder) / "results.sqlite"
        task = asyncio.create_task(probing(phases))
        await asyncio.sleep(0)  # what had begun before is not timed
        with Results.open(path) as store:
            noted = phases.until_traced(function)
            await optimize(noted, *args, effort="quick", target="cpu", results=store)
            phases.now = Probe()
            await asyncio.sleep(0)  # to close the files is another callback, and our own
        task.cancel()
        return phases, await again(path, function, *args)


async def main() -> None:
    baseline = await machine_alone()
    baseline.tell("beside 2 unrelated busy processes (baseline)")
    q, k, v = (jnp.ones((128, 64)) * scale for scale in (0.1, 0.2, 0.3))
    phases, remembered = await stalls(attention, q, k, v)
    figure("an answer that was found before", remembered, "ms", target=REMEMBERED_MS)
    phases.tracing.tell("while it traces (documented)")
    phases.after.tell("cutting, rewriting, compiling, racing, checking", baseline)
    phases, _ = await stalls(layers, *four_layers())
    phases.tracing.tell("while it traces four layers (documented)")
    phases.after.tell("all the rest of optimizing four layers", baseline)


if __name__ == "__main__":
    asyncio.run(main())
