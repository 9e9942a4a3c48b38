"""Times whole calls and graphs on a GPU, in a process that no profiler was loaded into.

CUPTI, once it has counted kernels, makes each later launch of its process slower: a call that
takes 130 microseconds took 400 (H100, jax 0.11.2). So calls are timed here and kernels in `Meter`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

CALLS = 60


class Caller:
    """Prepares functions, each as `jax.jit` calls it and as one graph of many turns."""

    def __init__(self, dry: bool) -> None:
        import jax

        self._dry = dry
        self._inputs: list[Any] = []
        self._ready: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]] = {}
        self.about = {"device": jax.devices()[0].device_kind}

    def case(self, program: bytes) -> None:
        """Draws the inputs that all functions of a row are called on."""
        import jax
        import jax.numpy as jnp
        from lib.optimizer.agreement import Judge

        from aiosearch.measure.worker.executables import timing_loop
        from aiosearch.optimizer.array_types import array_types
        from aiosearch.tensor.files import from_json

        subject = from_json(program)
        types = array_types(subject)
        arrays = Judge.drawn(subject, {}, 0)
        first = [
            jnp.asarray(array, array_type.dtype)
            for array, array_type in zip(arrays, types, strict=True)
        ]
        self._ready = {}
        self._inputs = list(first)
        for _ in range(timing_loop(types).copies - 1):
            self._inputs += [array + 0 for array in first]
        jax.block_until_ready(self._inputs)

    def prepare(self, name: str, source: str, function: str, types: Any) -> float:
        """Compiles a function and its loop; seconds."""
        import jax
        from meter import text

        from aiosearch.measure.worker.executables import compiled, defined, timing_loop

        began = time.monotonic()
        described = text(source, function, types)
        loop = timing_loop(described.inputs)
        call = jax.jit(defined(described))
        jax.block_until_ready(call(*self._inputs[: len(types)]))
        looped = compiled(described, loop)
        jax.block_until_ready(looped(*self._inputs))
        self._ready[name] = call, looped, loop
        return round(time.monotonic() - began, 2)

    def times(self, name: str) -> dict[str, float]:
        """Microseconds of a call that is waited for, of one in a row, and of a graph's turn."""
        import jax

        call, looped, loop = self._ready[name]
        per_call = len(self._inputs) // loop.copies
        sets = [self._inputs[at * per_call : (at + 1) * per_call] for at in range(loop.copies)]
        count = 2 if self._dry else CALLS
        for at in range(count):
            jax.block_until_ready(call(*sets[at % loop.copies]))
        waited = [
            _seconds(lambda at=at: jax.block_until_ready(call(*sets[at % loop.copies])))
            for at in range(count)
        ]
        row = _seconds(
            lambda: jax.block_until_ready([call(*sets[at % loop.copies]) for at in range(count)])
        )
        graphs = [_seconds(lambda: jax.block_until_ready(looped(*self._inputs))) for _ in range(7)]
        return {
            "call_us": round(statistics.median(waited) * 1e6, 2),
            "in_a_row_us": round(row / count * 1e6, 2),
            "graph_us": round(statistics.median(graphs) / loop.turns * 1e6, 2),
            "turns": loop.turns,
            "copies": loop.copies,
        }


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
