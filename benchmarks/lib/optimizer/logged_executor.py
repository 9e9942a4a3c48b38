"""An optimization in a process of its own that writes down every piece of work that has ended, and
the five programs that are ended while they are optimized.

    python -m lib.optimizer.logged_executor PROGRAM STORE LOG EFFORT
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aiosearch.measure import Candidate, Compiled, Failure, JaxExecutor, Race
from aiosearch.optimizer import Results, optimize


def energies(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.diag(x @ w @ x.T)


def trace_of_product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.trace(a @ b)


def squares(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.sum((a @ b) ** 2)


def projected(x: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return (a @ b) @ x


def softmax_times(x: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, axis=-1) @ v


PROGRAMS: dict[str, tuple[Callable[..., jax.Array], tuple[tuple[int, ...], ...]]] = {
    "energies": (energies, ((512, 256), (256, 256))),
    "trace_of_product": (trace_of_product, ((256, 256), (256, 256))),
    "squares": (squares, ((512, 16), (16, 512))),
    "projected": (projected, ((256, 1), (256, 256), (256, 256))),
    "softmax_times": (softmax_times, ((128, 256), (256, 64))),
}


class LoggedExecutor(JaxExecutor):
    """Writes a line of JSON for each compilation, race and run that has ended."""

    def __init__(self, path: Path) -> None:
        super().__init__("cpu")
        self._path = path

    def log(self, kind: str, key: object, begun: float) -> None:
        name = hashlib.md5(repr(key).encode()).hexdigest()[:12]
        line = {"kind": kind, "key": name, "seconds": time.monotonic() - begun}
        with self._path.open("a") as log:
            log.write(json.dumps(line) + "\n")

    async def compile(self, candidate: Candidate) -> Compiled | Failure:
        begun = time.monotonic()
        compiled = await super().compile(candidate)
        self.log("compilation", _text(candidate), begun)
        return compiled

    async def race(self, contenders: Sequence[Compiled], **options: Any) -> Race:
        begun = time.monotonic()
        race = await super().race(contenders, **options)
        key = sorted(_text(compiled.candidate) for compiled in contenders)
        self.log("race", (key, sorted(options.items())), begun)
        return race

    async def run(self, compiled: Compiled, inputs: Any) -> Any:
        begun = time.monotonic()
        outputs = await super().run(compiled, inputs)
        arrays = () if isinstance(inputs, int) else inputs
        which = [hashlib.md5(np.asarray(array).tobytes()).hexdigest() for array in arrays]
        self.log("run", (_text(compiled.candidate), which), begun)
        return outputs


def _text(candidate: Candidate) -> str:
    return f"{candidate.function}\n{candidate.source}"


async def main(program: str, store: str, log: str, effort: str) -> None:
    """Optimizes one of `PROGRAMS`; says on stdout when something faster is verified."""
    function, shapes = PROGRAMS[program]
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    rewriting = 0.0

    def tell(text: str) -> None:
        nonlocal rewriting
        if text.endswith("rewriting"):
            rewriting = time.monotonic()
        if "to write it" in text and rewriting:
            executor.log("rewriting", text, rewriting)
            rewriting = 0.0
        if "so far" in text:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    async with LoggedExecutor(Path(log)) as executor:
        with Results.open(store) as results:
            await optimize(
                function, *arguments, effort=effort, results=results, executor=executor,
                tell=tell, progress=False,
            )  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
