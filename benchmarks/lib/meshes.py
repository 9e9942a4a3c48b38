"""Plans for several devices, on eight CPU devices: training, pipelines, budgets, enumeration.

    python -m lib.meshes [--quick]

in the folder of the benchmarks, as the number of CPU devices is set before jax starts. A plan is
right where it gives what the function gives; bytes of collectives and of memory are those of the
compiled program.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lib.transformer import Array, arguments, moved, transformer


def loss(layers: Array, table: Array, tokens: Array) -> Array:
    """The mean loss of predicting each token of the next place."""
    logits = transformer(tokens[:, :-1], table, layers)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1)
    return -chosen.mean()


def small(depth: int) -> tuple[Array, ...]:
    key = jax.random.PRNGKey(0)
    tokens = jax.random.randint(key, (8, 33), 0, 128)
    return arguments(
        depth, 64, 256, 128, tokens, lambda shape: jax.random.normal(key, shape) * 0.05
    )


def equal(actual: Any, expected: Any) -> bool:
    leaves = map(jax.tree_util.tree_leaves, (actual, expected))
    return all(np.allclose(a, b, rtol=2e-3, atol=2e-5) for a, b in zip(*leaves, strict=True))


def held(run: Any, *args: Any) -> int:
    """Bytes of arguments, results and all else on a device, as XLA plans them."""
    memory = run.lower(*args).compile().memory_analysis()
    return int(
        memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    )


def training(quick: bool) -> None:
    """The gradient of a transformer's loss over one and two axes of a mesh."""
    from aiosearch.mapper import MeshCosts, shard
    from lib.figures import figure

    slow = MeshCosts(operations=1e9, memory=1e10, links=1e9, latency=1e-5)
    tokens, table, layers = small(2 if quick else 4)
    args = (layers, table, tokens)
    step = jax.value_and_grad(loss, argnums=(0, 1))
    expected = jax.jit(step)(*args)
    for mesh in ((8,), (2, 4), (4, 2)):
        begun = time.perf_counter()
        plan = shard(step, *args, mesh=mesh, costs=slow)
        planned = time.perf_counter() - begun
        compiled = plan.run(jax.devices()).lower(*args).compile()
        name = " x ".join(map(str, mesh))
        figure(
            f"training {len(layers[0])} layers on {name} devices, planning", planned, "s",
            target=10.0, gap=round(plan.gap, 4), equal=equal(compiled(*args), expected),
            collectives=len(plan.collectives), predicted=sum(u.bytes for u in plan.collectives),
            moved=moved(compiled.as_text()),
        )  # fmt: skip


def pipelines(quick: bool) -> None:
    """Loops over layers where links are slow: forward, from the end, and with what they stack."""
    from aiosearch.mapper import MeshCosts, shard
    from lib.figures import figure

    slow = MeshCosts(operations=1e9, memory=1e10, links=2e7, latency=1e-5)
    tokens, table, layers = small(8)
    key = jax.random.PRNGKey(1)
    x, w = jax.random.normal(key, (64, 64)), jax.random.normal(key, (16, 64, 64)) / 8

    def stacking(x: Array, w: Array) -> Any:
        return lax.scan(lambda x, w: (jnp.tanh(x @ w), x.sum(-1)), x, w)

    def backwards(x: Array, w: Array) -> Any:
        return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w, reverse=True)[0]

    cases: tuple[tuple[str, Any, tuple[Any, ...], int], ...] = (
        ("transformer", transformer, (tokens[:, :-1], table, layers), 800_000),
        ("loop that stacks", stacking, (x, w), 90_000),
        ("loop from the end", backwards, (x, w), 90_000),
    )
    for name, function, args, memory in cases[: 2 if quick else 3]:
        plan = shard(function, *args, mesh=(4,), costs=slow, memory=memory)
        evidence = plan.evidence(jax.devices()[:4], *args)
        compiled = plan.run(jax.devices()[:4]).lower(*args).compile()
        pipeline = plan.pipeline
        figure(
            f"pipeline of a {name}, stages", len(pipeline.order) if pipeline else 0, "stages",
            target=4, parts=pipeline.parts if pipeline else 0, right=evidence.holds,
            predicted=sum(use.bytes for use in plan.collectives), moved=moved(compiled.as_text()),
            held=compiled.memory_analysis().argument_size_in_bytes, memory=memory,
        )  # fmt: skip


def unlike(quick: bool) -> None:
    """Two devices, described as 1 to 3 fast, that share rows which nothing divides."""
    from aiosearch.mapper.device_steps import DeviceSteps, jax_devices, pipelined, shared_out
    from aiosearch.mapper.jaxpr_patterns import patterns_of
    from aiosearch.mapper.rows.equations import trace
    from lib.figures import figure

    rows = 2_003 if quick else 50_021  # primes
    x = jax.random.normal(jax.random.PRNGKey(0), (rows, 64))
    w = jnp.full((64, 64), 0.02)

    def network(x: Array, w: Array) -> Array:
        for _ in range(8):
            x = jnp.tanh(x @ w)
        return x

    patterns = patterns_of(trace(network, (x, w))[0], "network", recurrences=False)
    names = ["cpu:0", "cpu:1"]
    speeds: dict[str, float] = {"cpu:0": 1.0, "cpu:1": 3.0}
    for name, steps in (
        ("shares 1 to 3", shared_out(patterns, speeds)),
        ("a pipeline of 8 parts", pipelined(patterns, names, 8)),
    ):
        across = DeviceSteps(patterns, steps, jax_devices(names))
        right = equal(across([x, w])[0], network(x, w))
        planned = sorted(map(repr, across.transfers)) == sorted(map(repr, across.moved))
        figure(
            f"unlike devices by steps, {name}: results equal", float(right), "of 1", target=1,
            steps=len(steps), rows=rows, moves=len(across.moved), moves_as_planned=planned,
        )  # fmt: skip
    # The description says 1 to 3, the devices are alike: what is measured corrects it.
    ratios, shares = [], []
    for _ in range(6):
        across = DeviceSteps(patterns, shared_out(patterns, speeds), jax_devices(names))
        across([x, w])
        laps = [across.laps([x, w]) for _ in range(3)]
        lap = min(laps, key=lambda each: max(each.values()))
        rows_of = {part.device: part.rows for part in across.steps[0]}
        speeds = {device: rows_of[device] / lap[0, device] for device in names}
        ratios.append(max(lap.values()) * sum(speeds.values()) / rows)
        shares.append(rows_of["cpu:1"])
    figure(
        "unlike devices by steps, wrongly described, against the ideal",
        statistics.median(ratios[2:]), "times the ideal time", target=1.1, rows=rows,
        shares_of_the_second=shares,
    )  # fmt: skip


class Budgets:
    """Counts plans that keep to a budget by `memory_analysis`, and refusals."""

    def __init__(self) -> None:
        self.met = self.planned = self.refused = 0
        self.kinds: dict[str, str] = {}

    def count(self, kind: str, plan: Callable[[], int], limit: int) -> None:
        """`plan` gives the bytes that the compiled plan takes."""
        from aiosearch.mapper import PlanError

        met, planned, refused = map(int, self.kinds.get(kind, "0/0/0").split("/"))
        try:
            taken = plan()
        except PlanError as error:
            sentence = str(error)
            assert len(sentence.splitlines()) == 1, sentence
            self.refused += 1
            refused += 1
        else:
            self.planned += 1
            planned += 1
            self.met += taken <= limit
            met += taken <= limit
        self.kinds[kind] = f"{met}/{planned}/{refused}"


def budgets(quick: bool) -> None:
    """Programs by rows, gradients, shardings and sharded gradients within many budgets."""
    from aiosearch.mapper import fit_gradient, place, shard, shard_gradient
    from lib.figures import figure

    counts = Budgets()
    key = jax.random.PRNGKey(0)
    shares = (2, 16) if quick else (1, 2, 4, 16, 64, 10**6)

    def network(x: Array, w: Array) -> Array:
        for _ in range(4):
            x = jnp.tanh(x @ w)
        return x

    def widening(x: Array, w: Array) -> Array:
        return jnp.tanh(jnp.tanh(jnp.tanh(x @ w) @ w.T) @ w) @ w.T

    x = jax.random.normal(key, (4096, 64))
    square, wide = jnp.eye(64) * 0.5, jax.random.normal(key, (64, 256)) / 16
    by_rows: list[tuple[Any, tuple[Any, ...]]] = [
        (network, (x, square)),
        (widening, (x, wide)),
        (lambda x: jax.nn.softmax(jnp.sin(x) * 3) @ x.T[:, :8], (x[:64],)),
        (lambda x: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1), (x,)),
    ]
    for function, args in by_rows[: 1 if quick else 4]:
        usual = jax.jit(function).lower(*args).compile().memory_analysis().temp_size_in_bytes
        for share in shares:
            limit = max(1, usual // share)
            counts.count(
                "by rows",
                lambda f=function, args=args, limit=limit: asyncio.run(  # type: ignore[misc]  # defaults bind the loop's values
                    place(f, *args, memory=limit, seconds=0.5)
                ).temporary_bytes(*args),
                limit,
            )

    def deep(weights: Array, x: Array) -> Array:
        x, _ = lax.scan(lambda x, w: (jnp.tanh(jnp.sin(x @ w)), None), x, weights)
        return (x**2).mean()

    def residual(weights: Array, x: Array) -> Array:
        step = lambda x, w: (x + jax.nn.silu(jnp.tanh(x @ w)) @ w.T, None)  # noqa: E731 - a body
        return lax.scan(step, x, weights)[0].mean()

    weights = jax.random.normal(key, (16, 64, 64)) / 8
    for function in (deep, residual)[: 1 if quick else 2]:
        usual = held(jax.jit(jax.value_and_grad(function)), weights, x)
        for share in shares:
            limit = usual // share

            def gradient(f: Any = function, limit: int = limit) -> int:
                plan = fit_gradient(f, weights, x, memory=max(1, limit))
                memory = jax.jit(plan).lower(weights, x).compile().memory_analysis()
                return int(memory.temp_size_in_bytes)

            counts.count("gradients", gradient, limit)

    tokens, table, layers = small(4)
    args = (tokens[:, :-1], table, layers)
    whole = sum(leaf.nbytes for leaf in jax.tree_util.tree_leaves(args))
    for mesh, share in itertools.product(((8,), (2, 4)), (1, 2, 4, 6, 7, 9)[:: 3 if quick else 1]):

        def sharding(mesh: tuple[int, ...] = mesh, limit: int = whole // share) -> int:
            plan = shard(transformer, *args, mesh=mesh, memory=limit, seconds=1.0)
            compiled: Any = plan.run(jax.devices()).lower(*args).compile()
            return int(compiled.memory_analysis().argument_size_in_bytes)

        counts.count("shardings", sharding, whole // share)

    usual = held(jax.jit(jax.value_and_grad(loss, argnums=(0, 1))), layers, table, tokens)
    for mesh, share in itertools.product(((8,), (2, 4)), (2, 4, 6, 100)[:: 2 if quick else 1]):

        def sharded(mesh: tuple[int, ...] = mesh, limit: int = usual // share) -> int:
            plan = shard_gradient(
                loss, layers, table, tokens, argnums=(0, 1), mesh=mesh, memory=limit,
                devices=jax.devices(), seconds=0.5,
            )  # fmt: skip
            return held(plan.run(jax.devices()), layers, table, tokens)

        counts.count("sharded gradients", sharded, usual // share)
    figure(
        "memory budgets met, by memory_analysis", counts.met, "plans", target=counts.planned,
        line=f"met {counts.met} of {counts.planned}", refused=counts.refused,
        met_planned_refused=counts.kinds,
    )  # fmt: skip


def every_sharding(args: tuple[Any, ...], mesh: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Every way to divide the arguments over the mesh, as layouts."""
    from aiosearch.mapper.layouts import MeshCosts, MeshShape

    shape = MeshShape(mesh, MeshCosts())
    return itertools.product(*(shape.layouts(leaf.shape) for leaf in args))


def enumerated(quick: bool) -> None:
    """The chosen sharding against every way to divide the arguments, run by a plain `jax.jit`."""
    from aiosearch.mapper import measure_mesh, shard
    from aiosearch.mapper.sharding import partition
    from lib.figures import figure

    costs = measure_mesh(jax.devices())
    figure(
        "eight CPU devices, links", costs.links / 1e9, "GB/s", latency_us=costs.latency * 1e6,
        operations=costs.operations, memory=costs.memory,
    )  # fmt: skip

    def layers(x: Array, w: Array, v: Array) -> Array:
        return jax.nn.relu(x @ w) @ v

    cases = (
        ("few rows", (8,), (8, 1024, 2048)),
        ("many rows", (8,), (16_384, 128, 256)),
        ("as many rows as columns", (2, 4), (512, 512, 512)),
    )
    key = jax.random.PRNGKey(0)
    for name, shape, (rows, width, hidden) in cases[: 1 if quick else 3]:
        sizes = ((rows, width), (width, hidden), (hidden, width))
        args = tuple(jax.random.normal(key, size) / 32 for size in sizes)
        names = tuple(f"m{n}" for n in range(len(shape)))
        mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(shape), names)

        def at(layout: Any, rank: int, mesh: Any = mesh, names: Any = names) -> Any:
            return jax.sharding.NamedSharding(mesh, partition(layout, rank, names))

        plan = shard(layers, *args, mesh=shape, costs=costs)
        run: Any = plan.run(jax.devices())
        shardings = [at(layout, 2) for layout in plan.arguments]
        chosen = run.lower(*args).compile(), tuple(map(jax.device_put, args, shardings))
        timed: list[tuple[float, tuple[Any, ...], Any, Any]] = []
        ways = list(every_sharding(args, shape))
        for way in ways[:4096]:
            shardings = [at(layout, 2) for layout in way]
            compiled = jax.jit(layers, in_shardings=shardings).lower(*args).compile()
            ready = tuple(map(jax.device_put, args, shardings))
            timed.append((min(_lap(compiled, ready) for _ in range(3)), way, compiled, ready))
        timed.sort(key=lambda each: each[0])
        same = next(n for n, (_, way, *_) in enumerate(timed) if way == tuple(plan.arguments))
        rivals = [timed[number] for number in dict.fromkeys((0, 1, 2, same))]
        # In turns, so that what else runs hits all alike; of each round how they compare.
        programs = [chosen, *((compiled, ready) for _, _, compiled, ready in rivals)]
        rounds = [[_lap(*program) for program in programs] for _ in range(15 if quick else 41)]
        ratios = [
            statistics.median(laps[0] / laps[number] for laps in rounds)
            for number in range(1, len(programs))
        ]
        behind = max(range(len(rivals)), key=ratios.__getitem__)
        figure(
            f"chosen sharding against the best of all, {name}", ratios[behind],
            "times its time", target=1.05, enumerated=len(timed),
            worst_over_best=round(timed[-1][0] / timed[0][0], 2),
            least=round(
                min(laps[0] for laps in rounds) / min(min(laps[1:]) for laps in rounds), 3
            ),
            chosen=[str(spec) for spec in plan.specs(names)], chosen_is_number=same + 1,
            best=[str(partition(layout, 2, names)) for layout in rivals[behind][1]],
            over_jit_with_the_same_layouts=round(ratios[min(same, 3)], 3),
            us=round(statistics.median(laps[0] for laps in rounds) * 1e6),
        )  # fmt: skip


def _lap(compiled: Any, args: Any) -> float:
    begun = time.perf_counter()
    compiled(*args).block_until_ready()
    return time.perf_counter() - begun


def exhaustively(quick: bool) -> None:
    """Of functions with at most 4,096 plans: whether the chosen one is the least by the model."""
    from aiosearch.mapper import MeshCosts, shard
    from lib.figures import figure

    slow = MeshCosts(operations=1e9, memory=1e10, links=1e9, latency=1e-5)
    make = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)  # noqa: E731 - an argument
    functions: list[tuple[Any, tuple[Any, ...]]] = [
        (lambda x, w, v: jax.nn.relu(x @ w) @ v, (make(rows, 512), make(512, 2048), make(2048, 64)))
        for rows in (8, 512, 65_536)
    ]
    functions += [
        (lambda x, w: jnp.tanh(x @ w).sum(0), (make(256, 512), make(512, 256))),
        (lambda q, k: jax.nn.softmax(q @ k.T), (make(512, 64), make(512, 64))),
        (lambda x: x / jnp.linalg.norm(x), (make(4096, 512),)),
    ]
    least, tried = 0, 0
    for (function, args), costs in itertools.product(functions, (MeshCosts(), slow)):
        plan = shard(function, *args, mesh=(8,), costs=costs)
        graph = plan._graph
        domains = [range(len(variable.costs)) for variable in graph.variables]
        count = math.prod(map(len, domains))
        if count > 4096:
            continue
        unary = [variable.costs for variable in graph.variables]
        best = min(
            sum(costs[at] for costs, at in zip(unary, choice, strict=True))
            + sum(table[choice[a], choice[b]] for (a, b), table in graph.edges.items())
            for choice in itertools.product(*domains)
        )
        tried += 1
        least += plan.seconds <= best * (1 + 1e-9)
        if quick:
            break
    figure(
        "plans that are the least of up to 4,096 by the model", int(least), "plans", target=tried
    )


def main() -> None:
    jax.config.update("jax_num_cpu_devices", 8)
    quick = "--quick" in sys.argv
    chosen = [name for name in PARTS if name in sys.argv] or list(PARTS)
    for name in chosen:
        PARTS[name](quick)


PARTS = {
    "training": training,
    "pipelines": pipelines,
    "devices": unlike,
    "budgets": budgets,
    "exhaustively": exhaustively,
    "enumerated": enumerated,
}

if __name__ == "__main__":
    main()
