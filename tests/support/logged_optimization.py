"""An optimization on a virtual clock that writes down the work that it does, for tests that kill
it: `python logged_optimization.py STORE LOG`."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from aiosearch.measure import Act, Candidate, Compiled, Failure, MockExecutor, Race
from aiosearch.optimizer.effort import BUDGETS, Effort
from aiosearch.optimizer.optimization import optimize
from aiosearch.optimizer.outcomes.results import Results


def traced(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.trace(a @ b)


def trace(inputs: Any) -> tuple[Any, ...]:
    a, b = (np.asarray(array, np.float64) for array in inputs)
    return (np.float32(np.sum(a * b.T)),)


class FastUnlessWritten(dict[str, Act]):
    """Whatever is not the original is three to ten times as fast, and right; no two are equally
    fast, so that each run has the same winners."""

    def get(self, name: str, default: object = None) -> Act:
        share = zlib.crc32(name.encode()) % 64 / 64
        return Act(seconds=1e-3 if name == "as written" else 1e-4 * (1 + 2 * share), outputs=trace)


class LoggedExecutor(MockExecutor):
    """Writes a line for each compilation, race and run that has ended."""

    def __init__(self, path: Path) -> None:
        super().__init__(FastUnlessWritten())
        self._path = path

    def _log(self, *words: object) -> None:
        with self._path.open("a") as log:
            log.write(f"{' '.join(map(str, words))}\n")

    async def compile(self, candidate: Candidate) -> Compiled | Failure:
        compiled = await super().compile(candidate)
        self._log("compile", hash_of(candidate))
        return compiled

    async def race(self, contenders: Sequence[Compiled], **options: Any) -> Race:
        race = await super().race(contenders, **options)
        names = sorted(hash_of(compiled.candidate) for compiled in contenders)
        self._log("race", options, *names)
        return race

    async def run(self, compiled: Compiled, inputs: Any) -> Any:
        outputs = await super().run(compiled, inputs)
        which = inputs if isinstance(inputs, int) else round(float(np.sum(inputs[0])), 3)
        self._log("run", hash_of(compiled.candidate), which)
        return outputs


def hash_of(candidate: Candidate) -> str:
    import hashlib

    return hashlib.md5(f"{candidate.source}{candidate.function}".encode()).hexdigest()


TWO_PASSES = msgspec.structs.replace(BUDGETS[Effort.QUICK], search_seconds=1.5)
"""A brief look and then this: `quick` itself takes no look before it."""


async def main(store: str, log: str) -> None:
    a = jnp.linspace(-1.0, 2.0, 64).reshape(8, 8)

    def tell(text: str) -> None:
        if text.endswith("rewriting"):
            executor._log("rewriting")

    async with LoggedExecutor(Path(log)) as executor:
        with Results.open(store) as results:
            await optimize(
                traced, a, jnp.cos(a), effort=TWO_PASSES, target="cpu", kernels=False,
                results=results, executor=executor, tell=tell,
            )  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
