"""A transformer with layers in a loop, and what its shardings move on eight CPU devices.

    python -m lib.transformer [--quick]

in the folder of the benchmarks, as the number of CPU devices is set before jax starts. Plans for
several meshes, costs and limits are run: results, bytes of collectives in the compiled program
against those that were predicted, and bytes of arguments against the limit.
"""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Array: TypeAlias = Any
COLLECTIVE = r"= (.*?) (all-reduce|all-gather|all-to-all|collective-permute)(-start)?\("
ITEM = {"bf16": 2, "f32": 4, "s32": 4, "pred": 1}


def normed(x: Array, gain: Array) -> Array:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain


def block(x: Array, weights: tuple[Array, ...]) -> Array:
    gain, query, key, value, out, other, gate, up, down = weights
    batch, length, width = x.shape
    heads = 8 if width < 1024 else 32
    h = normed(x, gain)
    q, k, v = ((h @ w).reshape(batch, length, heads, -1) for w in (query, key, value))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // heads) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    x = x + mixed.reshape(batch, length, width) @ out
    h = normed(x, other)
    return x + (jax.nn.silu(h @ gate) * (h @ up)) @ down


def transformer(tokens: Array, table: Array, layers: tuple[Array, ...]) -> Array:
    x, _ = lax.scan(lambda x, weights: (block(x, weights), None), table[tokens], layers)
    return x @ table.T


def arguments(
    layers: int, width: int, hidden: int, words: int, tokens: Array, make: Callable[..., Array]
) -> tuple[Array, ...]:
    square, wide = (width, width), (width, hidden)
    shapes: list[tuple[int, ...]] = [
        (width,), square, square, square, square, (width,), wide, wide, (hidden, width),
    ]  # fmt: skip
    return tokens, make((words, width)), tuple(make((layers, *shape)) for shape in shapes)


def moved(text: str) -> int:
    """Bytes of the collectives in the text of a compiled program, those of a loop once."""
    total = 0
    for line in text.splitlines():
        op = re.search(COLLECTIVE, line)
        for dtype, sizes in re.findall(r"(bf16|f32|s32|pred)\[([\d,]*)\]", op[1] if op else ""):
            total += ITEM[dtype] * int(np.prod([int(n) for n in sizes.split(",") if n] or [1]))
    return total


def plans(args: tuple[Array, ...]) -> Iterator[tuple[str, Any]]:
    """Plans for meshes of eight, fast and slow links, and limits of memory."""
    from aiosearch.mapper import MeshCosts, PlanError, shard

    slow = MeshCosts(operations=1e9, memory=1e10, links=1e9, latency=1e-5)
    whole = sum(leaf.nbytes for leaf in jax.tree_util.tree_leaves(args))
    for mesh, costs, part in itertools.product(
        ((8,), (4, 2), (2, 4)), (MeshCosts(), slow), (None, 2, 4, 6)
    ):
        memory = None if part is None else whole // part
        try:
            plan = shard(transformer, *args, mesh=mesh, costs=costs, memory=memory)
        except PlanError:
            continue
        yield f"{mesh}, {'slow' if costs is slow else 'fast'} links, 1/{part or 1}", (plan, memory)


def main() -> None:
    jax.config.update("jax_num_cpu_devices", 8)
    from lib.figures import figure

    key = jax.random.PRNGKey(0)
    tokens = jax.random.randint(key, (8, 32), 0, 128)
    layers = 2 if "--quick" in sys.argv else 4
    args = arguments(
        layers, 64, 256, 128, tokens, lambda shape: jax.random.normal(key, shape) * 0.05
    )
    equal = right = fitting = limits = count = 0
    seconds: dict[str, float] = {}
    for name, (plan, memory) in plans(args):
        count += 1
        compiled = plan.run(jax.devices()).lower(*args).compile()
        equal += moved(compiled.as_text()) == sum(use.bytes for use in plan.collectives)
        right += plan.evidence(jax.devices(), *args).holds
        if memory is not None:
            limits += 1
            fitting += compiled.memory_analysis().argument_size_in_bytes <= memory
        placed = [
            jax.device_put(leaf, sharding)
            for leaf, sharding in zip(
                jax.tree_util.tree_leaves(args),
                jax.tree_util.tree_leaves(compiled.input_shardings[0]),
                strict=True,
            )
        ]
        ready = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(args), placed)
        laps = []
        for _ in range(4):
            begun = time.perf_counter()
            compiled(*ready).block_until_ready()
            laps.append(time.perf_counter() - begun)
        seconds[name] = round(min(laps) * 1e3, 2)
    figure("shardings that give what the function gives", right, "plans", target=count)
    figure("shardings that move the bytes predicted", equal, "plans", target=count)
    figure("shardings within their memory", fitting, "plans", target=limits, milliseconds=seconds)


if __name__ == "__main__":
    main()
