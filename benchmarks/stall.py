"""How long `optimize` holds up the host's event loop: while it traces, and all the while after.

A probe sleeps a millisecond at a time and notes how late it wakes: first beside two processes that
only compute (what a busy machine does to a loop anyway), then beside one `optimize` on the CPU,
whose first word is told when the function is traced. `callback` is the longest time that the loop's
thread computed without a break, which does not depend on what else the machine does.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from figures import figure

from aiosearch.optimizer.optimizing import optimize
from aiosearch.optimizer.results import Results

TARGET_MS = 5.0
REMEMBERED_MS = 50.0
BUSY = "while True: sum(range(1000))"


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.exp(q @ k.T / jnp.sqrt(q.shape[-1]))
    return (scores / scores.sum(-1, keepdims=True)) @ v


class Probe:
    """Notes by how many milliseconds a sleeping task oversleeps, and the longest callback."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.callback = 0.0

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

    def tell(self, text: str) -> None:
        self.now = self.after


@contextmanager
def timed(phases: Phases) -> Iterator[None]:
    """Notes how long each callback of the loop computes."""
    handle: Any = asyncio.Handle
    run = handle._run

    def noted(self: Any) -> None:
        start = time.thread_time()
        before = phases.now
        run(self)
        before.callback = max(before.callback, (time.thread_time() - start) * 1000)

    handle._run = noted
    try:
        yield
    finally:
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


async def again(path: Path, *args: jax.Array) -> float:
    """Milliseconds until an answer is there that was found before."""
    started = time.perf_counter()
    with Results.open(path) as store:
        await optimize(attention, *args, effort="quick", target="cpu", results=store)
    return (time.perf_counter() - started) * 1000


async def main() -> None:
    baseline = await machine_alone()
    baseline.tell("beside 2 unrelated busy processes (baseline)")
    q, k, v = (jnp.ones((128, 64)) * scale for scale in (0.1, 0.2, 0.3))
    jax.block_until_ready((q, k, v))
    phases = Phases()
    with tempfile.TemporaryDirectory() as folder, timed(phases):
        store = Results.open(Path(folder) / "results.sqlite")
        task = asyncio.create_task(probing(phases))
        await optimize(
            attention, q, k, v, effort="quick", target="cpu", results=store, tell=phases.tell
        )
        task.cancel()
        store.close()
        remembered = await again(Path(folder) / "results.sqlite", q, k, v)
    figure("an answer that was found before", remembered, "ms", target=REMEMBERED_MS)
    phases.tracing.tell("while it traces (documented)")
    phases.after.tell("rewriting, compiling, racing, checking", baseline)


if __name__ == "__main__":
    asyncio.run(main())
