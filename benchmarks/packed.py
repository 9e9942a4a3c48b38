"""Weights that stay the same: what `optimize` gains by preparing them once.

`uv run --group bench python benchmarks/packed.py [--effort quick] [--size 2048] [NAME ...]`

Each function is optimized from nothing, with its weights as constant arguments. What comes back is
timed in turns with the function under `jax.jit`: with the weights as arguments, and closed over,
where XLA may prepare them itself.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from lib.figures import figure
from lib.optimizer.agreement import alike, leaves
from lib.optimizer.paired_timing import Call, compared

from aiosearch.measure import JaxExecutor
from aiosearch.optimizer.effort import Effort
from aiosearch.optimizer.optimization import optimize
from aiosearch.optimizer.outcomes.report import Found
from aiosearch.optimizer.outcomes.results import Results

RANK = 16


@dataclass(frozen=True)
class Case:
    """A function of inputs, which come first, and of weights."""

    name: str
    function: Callable[..., Any]
    inputs: Sequence[Any]
    weights: Sequence[Any]

    @property
    def constant(self) -> tuple[int, ...]:
        return tuple(range(len(self.inputs), len(self.inputs) + len(self.weights)))

    def closed(self) -> Callable[..., Any]:
        return lambda *inputs: self.function(*inputs, *self.weights)


def linear(x: Any, w: Any) -> Any:
    return x @ w.T


def lora(x: Any, w: Any, a: Any, b: Any) -> Any:
    return x @ w + (x @ a) @ b


def projections(x: Any, q: Any, k: Any, v: Any) -> Any:
    return x @ q, x @ k, x @ v


def normed(x: Any, gain: Any, w: Any) -> Any:
    return (x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * gain) @ w


def cases(size: int) -> Iterator[Case]:
    normal = np.random.default_rng(0).standard_normal

    def drawn(*shape: int, dtype: str = "float32") -> Any:
        return jnp.asarray(normal(shape) / math.sqrt(shape[0]), dtype)

    for dtype in ("float32", "bfloat16"):
        w = drawn(size, size, dtype=dtype)
        for rows in (1, 8):
            name = f"linear_{dtype}_{rows}"
            yield Case(name, linear, [drawn(rows, size, dtype=dtype)], [w])
    x, w = drawn(8, size), drawn(size, size)
    yield Case("lora", lora, [x], [w, drawn(size, RANK), drawn(RANK, size)])
    yield Case("projections", projections, [x], [w, w + 1, w - 1])
    yield Case("normed", normed, [x], [1 + drawn(size), w])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--effort", default="quick", choices=[one.value for one in Effort])
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each comparison")
    parser.add_argument("--size", type=int, default=2048, metavar="N")
    arguments = parser.parse_args()
    asyncio.run(compare(arguments))


async def compare(arguments: argparse.Namespace) -> None:
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        store = Results.open(Path(folder) / "results.sqlite")
        async with JaxExecutor(arguments.target) as executor:
            for case in cases(arguments.size):
                if not arguments.names or case.name in arguments.names:
                    wrong += not await one(case, arguments, store, executor)
        store.close()
    figure("packed: wrong", wrong, "functions", target=0)


async def one(
    case: Case, arguments: argparse.Namespace, store: Results, executor: JaxExecutor
) -> bool:
    values = [*case.inputs, *case.weights]
    made = await optimize(
        case.function,
        *values,
        constant_argnums=case.constant,
        effort=arguments.effort,
        target=arguments.target,
        results=store,
        executor=executor,
    )
    naive, closed = jax.jit(case.function), jax.jit(case.closed())
    fast = made if made.spliced.replacements else naive
    right = alike(leaves(naive(*values)), leaves(fast(*values)))
    ours = ready(fast, values)
    assert made.report is not None
    (found,) = made.report.found
    for name, base in (
        ("weights as arguments", ready(naive, values)),
        ("weights closed over", ready(closed, case.inputs)),
    ):
        times = compared(base, ours, arguments.seconds)
        figure(
            f"packed: {case.name}, over {name}",
            times.ratio.median,
            "times as fast as jax.jit",
            **times.facts(),
            claimed=round(found.answer.speedup, 2),
            how=_how(found),
            packed_bytes=found.answer.evidence.packed_bytes or 0,
            right=right,
            size=arguments.size,
            jax=jax.__version__,
        )
    return right


def ready(function: Callable[..., Any], values: Sequence[Any]) -> Call:
    return lambda: jax.block_until_ready(function(*values))  # type: ignore[no-untyped-call]


def _how(found: Found) -> str:
    """In which way the winner is written."""
    timed = [one for one in found.tried if one.speedup is not None and not one.note]
    best = max(timed, key=lambda one: one.speedup or 0.0)
    return best.how if found.answer.faster else "as it is"


if __name__ == "__main__":
    main()
