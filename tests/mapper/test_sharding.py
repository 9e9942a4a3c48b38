"""Shardings: exact by the model, right on eight devices, and moving what was predicted."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aiosearch.mapper import MeshCosts, PlanError, shard
from aiosearch.mapper.assignment.elimination import eliminate, undominated
from aiosearch.mapper.layouts import MeshShape, moves, pipelines, why_no_pipeline
from aiosearch.mapper.rows.equations import trace

SLOW_LINKS = MeshCosts(operations=1e9, memory=1e10, links=1e9, latency=1e-5)


def normed(x: Any, gain: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain


def block(x: Any, weights: Any) -> Any:
    gain, query, key, value, out, other, gate, up, down = weights
    batch, length, width = x.shape
    h = normed(x, gain)
    q, k, v = ((h @ w).reshape(batch, length, 8, width // 8) for w in (query, key, value))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // 8) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    x = x + mixed.reshape(batch, length, width) @ out
    h = normed(x, other)
    return x + (jax.nn.silu(h @ gate) * (h @ up)) @ down


def transformer(tokens: Any, table: Any, layers: Any) -> Any:
    x, _ = lax.scan(lambda x, weights: (block(x, weights), None), table[tokens], layers)
    return x @ table.T


def weights(layers: int, width: int, hidden: int, make: Any) -> tuple[Any, ...]:
    square, wide = (width, width), (width, hidden)
    shapes: list[tuple[int, ...]] = [
        (width,), square, square, square, square, (width,), wide, wide, (hidden, width),
    ]  # fmt: skip
    return tuple(make((layers, *shape)) for shape in shapes)


def small(depth: int = 3) -> tuple[Any, ...]:
    """Arguments of a transformer of so many layers."""
    key = jax.random.PRNGKey(0)
    tokens = jax.random.randint(key, (8, 32), 0, 128)
    make = lambda shape: jax.random.normal(key, shape) * 0.05  # noqa: E731 - an argument
    return tokens, jax.random.normal(key, (128, 64)), weights(depth, 64, 256, make)


SLOWER_LINKS = MeshCosts(operations=1e9, memory=1e10, links=2e7, latency=1e-5)


def loss(layers: Any, table: Any, tokens: Any) -> Any:
    """The mean loss of predicting each token of the next place."""
    logits = transformer(tokens[:, :-1], table, layers)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1)
    return -chosen.mean()


SIZES = ((8, 128), (128, 512), (512, 128))
SLOW_DEVICES = MeshCosts(operations=1e9, memory=1e9, links=1e10, latency=1e-6)


def layers(x: Any, w: Any, v: Any) -> Any:
    return jax.nn.relu(x @ w) @ v


def test_elimination_finds_the_least_sum() -> None:
    """As trying everything does, on random graphs."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        unary = [rng.random(rng.integers(1, 4)) for _ in range(6)]
        pairs = [pair for pair in itertools.combinations(range(6), 2) if rng.random() < 0.5]
        edges = {(a, b): rng.random((len(unary[a]), len(unary[b]))) for a, b in pairs}

        def cost(choice: Any, unary: Any = unary, edges: Any = edges) -> float:
            total = sum(costs[at] for costs, at in zip(unary, choice, strict=True))
            return float(total + sum(t[choice[a], choice[b]] for (a, b), t in edges.items()))

        chosen, least, bound = eliminate(unary, edges)
        every = [*itertools.product(*(range(len(costs)) for costs in unary))]
        assert cost(chosen) == pytest.approx(min(map(cost, every))) == pytest.approx(least)
        assert bound == least
        # Of tables of two variables at most: what is found costs what is said, and more than that
        # bound.
        rough, total, bound = eliminate(unary, edges, largest=9)
        assert cost(rough) == pytest.approx(total)
        assert bound <= least * (1 + 1e-12) <= total * (1 + 1e-9)


def test_values_that_another_beats_are_left_out() -> None:
    """Some best choices are among those that stay, also where pairs exclude each other."""
    rng = np.random.default_rng(1)
    removed = 0
    for _ in range(20):
        unary = [rng.random(3) for _ in range(5)]
        edges = {
            (a, b): np.where(rng.random((3, 3)) < 0.2, np.inf, rng.random((3, 3)) / 3)
            for a, b in itertools.combinations(range(5), 2)
        }

        def cost(choice: Any, unary: Any = unary, edges: Any = edges) -> float:
            total = sum(costs[at] for costs, at in zip(unary, choice, strict=True))
            return float(total + sum(t[choice[a], choice[b]] for (a, b), t in edges.items()))

        worth = undominated(unary, edges)
        removed += 15 - sum(map(len, worth))
        every = min(map(cost, itertools.product(range(3), repeat=5)))
        assert min(map(cost, itertools.product(*worth))) == pytest.approx(every)
    assert removed > 20


def test_layouts_are_reached_step_by_step() -> None:
    """Whatever the two layouts, the steps lead from one to the other, inner axes first."""
    mesh = MeshShape((2, 4), MeshCosts())
    for source, to in itertools.product(mesh.layouts((8, 8)), repeat=2):
        layout = list(source)
        for move in moves(source, to):
            assert layout[move.axis] == move.source
            layout[move.axis] = move.to
        assert tuple(layout) == to
    assert [m.axis for m in moves((0, 0), (None, 0))] == [1, 0, 1]


def test_few_rows_divide_the_weights_and_many_rows_the_batch() -> None:
    """Tensor parallelism for one token, data parallelism for many, neither of them named."""

    def plan(rows: int) -> Any:
        shapes = ((rows, 4096), (4096, 16384), (16384, 4096))
        return shard(layers, *(jax.ShapeDtypeStruct(s, jnp.bfloat16) for s in shapes), mesh=(8,))

    few, many = plan(8), plan(65536)
    assert few.arguments[1:] == [(1,), (0,)]
    assert [use.kind for use in few.collectives] == ["psum"]
    assert many.arguments[0] == (0,)
    assert many.collectives == []


def test_a_deep_transformer_is_planned_at_once() -> None:
    """32 layers on a mesh of 64: folded, exact, and within memory with a bound beside it."""
    make = lambda shape: jax.ShapeDtypeStruct(shape, jnp.bfloat16)  # noqa: E731 - an argument
    tokens = jax.ShapeDtypeStruct((64, 512), jnp.int32)
    args = (tokens, make((32000, 1024)), weights(32, 1024, 4096, make))
    free = shard(transformer, *args, mesh=(8, 8))
    assert free.gap < 1e-6
    limit = free.argument_bytes // 16
    tight = shard(transformer, *args, mesh=(8, 8), memory=limit, seconds=20.0)
    assert tight.argument_bytes <= limit
    assert free.seconds <= tight.bound <= tight.seconds
    assert tight.gap < 0.01
    with pytest.raises(PlanError, match="however they are divided"):
        shard(transformer, *args, mesh=(8, 8), memory=1000)
    with pytest.raises(PlanError, match="at least one device"):
        shard(transformer, *args, mesh=(0, 8))


COUNTING = r"""
import re, sys
from dataclasses import replace
import jax
jax.config.update("jax_num_cpu_devices", 8)
import numpy as np
import test_sharding as cases
from aiosearch.mapper import MeshCosts, PlanError, shard

ITEM = {"f32": 4, "s32": 4, "pred": 1}
COLLECTIVE = r"= (.*?) (all-reduce|all-gather|all-to-all|collective-permute)(-start)?\("
def moved(text):
    total = 0
    for line in text.splitlines():
        op = re.search(COLLECTIVE, line)
        for dtype, sizes in re.findall(r"(f32|s32|pred)\[([\d,]*)\]", op[1] if op else ""):
            total += ITEM[dtype] * int(np.prod([int(n) for n in sizes.split(",") if n] or [1]))
    return total
"""

SCRIPT = """
args = cases.small()
for mesh, costs, memory in (
    ((8,), MeshCosts(), None),
    ((8,), cases.SLOW_LINKS, 150_000),
    ((4, 2), cases.SLOW_LINKS, None),
    ((2, 4), MeshCosts(), 200_000),
):
    plan = shard(cases.transformer, *args, mesh=mesh, costs=costs, memory=memory)
    evidence = plan.evidence(jax.devices(), *args)
    assert evidence.holds, evidence
    compiled = plan.run(jax.devices()).lower(*args).compile()
    predicted = sum(use.bytes for use in plan.collectives)
    assert moved(compiled.as_text()) == predicted, (mesh, moved(compiled.as_text()), predicted)
    held = compiled.memory_analysis().argument_size_in_bytes
    assert memory is None or held <= memory, (mesh, held, memory)
    print(mesh, predicted, held, evidence)

# Bugs, one at a time: a sum that is left out, and a sum of what is whole already.
x, w, v = (jax.random.normal(jax.random.PRNGKey(n), s) for n, s in enumerate(cases.SIZES))
divided = shard(cases.layers, x, w, v, mesh=(8,), costs=cases.SLOW_DEVICES)
assert divided.evidence(jax.devices(), x, w, v).holds
chosen = [
    (variable.strategies, choice)
    for variable, choice in zip(divided._graph.variables, divided._chosen, strict=True)
    if variable.strategies
]
assert sum(bool(ways[choice].summed) for ways, choice in chosen) == 1
for ways, choice in chosen:
    right = ways[choice]
    ways[choice] = replace(right, summed=() if right.summed else (0,))
    assert not divided.evidence(jax.devices(), x, w, v).holds, right
    ways[choice] = right
try:
    plan.run(jax.devices()[:3])
except PlanError as error:
    assert "2 x 4 devices, not for 3" in str(error)
else:
    raise AssertionError
"""


PIPELINE = """
args = cases.small(8)
plan = shard(cases.transformer, *args, mesh=(4,), costs=cases.SLOWER_LINKS, memory=800_000)
pipeline = plan.pipeline
assert pipeline is not None and pipeline.order == (0, 1, 2, 3), plan.explain()
assert "4 stages along m0" in plan.explain()
devices = jax.devices()[:4]
evidence = plan.evidence(devices, *args)
assert evidence.holds, evidence
compiled = plan.run(devices).lower(*args).compile()
assert moved(compiled.as_text()) == sum(use.bytes for use in plan.collectives)
assert {use.kind for use in plan.collectives} >= {"collective_permute", "psum"}
assert compiled.memory_analysis().argument_size_in_bytes <= 800_000
# A mesh of two axes: stages along one of them, the rest divided along the other.
both = shard(cases.transformer, *args, mesh=(4, 2), costs=cases.SLOWER_LINKS, memory=600_000)
print(both.explain())
evidence = both.evidence(jax.devices(), *args)
assert evidence.holds, evidence

# Bugs: stages in another order, a part that is left out, one that comes too late.
(loop,) = (node.body for node in plan._nodes if node.body is not None)
for wrong in (replace(pipeline, order=(1, 0, 2, 3)), replace(pipeline, order=(0, 1, 3, 2))):
    loop.pipeline = wrong
    assert not plan.evidence(devices, *args).holds, wrong
loop.pipeline = pipeline
"""

TRAINING = """
import jax.numpy as jnp
from aiosearch.mapper import shard_gradient

tokens, table, layers = cases.small(4)
step = jax.value_and_grad(cases.loss, argnums=(0, 1))
for mesh, costs in (((8,), cases.SLOW_LINKS), ((8,), cases.SLOW_DEVICES)):
    plan = shard(step, layers, table, tokens, mesh=mesh, costs=costs)
    compiled = plan.run(jax.devices()).lower(layers, table, tokens).compile()
    predicted = sum(use.bytes for use in plan.collectives)
    assert moved(compiled.as_text()) == predicted, (mesh, moved(compiled.as_text()), predicted)
    actual, expected = compiled(layers, table, tokens), step(layers, table, tokens)
    for a, b in zip(*map(jax.tree_util.tree_leaves, (actual, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)

def held(run):
    memory = run.lower(layers, table, tokens).compile().memory_analysis()
    return (memory.argument_size_in_bytes + memory.output_size_in_bytes
            + memory.temp_size_in_bytes)

ways = set()
for memory in (20_000_000, 3_000_000):
    found = shard_gradient(cases.loss, layers, table, tokens, argnums=(0, 1), mesh=(8,),
                           costs=cases.SLOW_LINKS, memory=memory, devices=jax.devices(),
                           seconds=0.5)
    run = found.run(jax.devices())
    assert held(run) <= memory, (memory, held(run))
    ways.add((found.chosen.policy, found.chosen.offloads))
    for a, b in zip(*map(jax.tree_util.tree_leaves, (run(layers, table, tokens), expected)),
                    strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
assert len(ways) > 1, ways

# What loops keep for the way back, in the memory of the host.
away = plan.with_offload()
assert away.offloaded and away.seconds > plan.seconds
assert away.device_bytes < plan.device_bytes
actual = away.run(jax.devices())(layers, table, tokens)
for a, b in zip(*map(jax.tree_util.tree_leaves, (actual, expected)), strict=True):
    np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
"""


TWO_AXES = """
import time

tokens, table, layers = cases.small(4)
step = jax.value_and_grad(cases.loss, argnums=(0, 1))
args = (layers, table, tokens)
plan = shard(step, *args, mesh=(2, 4))
assert 0 <= plan.gap < 0.05, plan.gap
compiled = plan.run(jax.devices()).lower(*args).compile()
assert moved(compiled.as_text()) == sum(use.bytes for use in plan.collectives)
for a, b in zip(*map(jax.tree_util.tree_leaves, (compiled(*args), step(*args))), strict=True):
    np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
"""

STACKS = """
from jax import lax
import jax.numpy as jnp

key = jax.random.PRNGKey(0)
x, w = jax.random.normal(key, (64, 64)), jax.random.normal(key, (16, 64, 64)) / 8

def stacking(x, w):
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), (x.sum(-1), w.max())), x, w)

def backwards(x, w):
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), x[:, 0]), x, w, reverse=True)

for function in (stacking, backwards):
    plan = shard(function, x, w, mesh=(4,), costs=cases.SLOWER_LINKS, memory=90_000)
    assert plan.pipeline is not None, plan.explain()
    devices = jax.devices()[:4]
    evidence = plan.evidence(devices, x, w)
    assert evidence.holds, evidence
    compiled = plan.run(devices).lower(x, w).compile()
    assert moved(compiled.as_text()) == sum(use.bytes for use in plan.collectives)
    assert compiled.memory_analysis().argument_size_in_bytes <= 90_000
"""

MEASURED = """
from aiosearch.mapper import measure_mesh

costs = measure_mesh(jax.devices())
assert min(costs.operations, costs.memory, costs.links, costs.host, costs.latency) > 0, costs
assert costs.operations > 1e7 and costs.links < 1e13, costs
"""


def in_child(folder: Path, script: str) -> None:
    """Runs a script on eight CPU devices."""
    path = folder / "eight.py"
    path.write_text(COUNTING + script)
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    subprocess.run([sys.executable, str(path)], check=True, env={**os.environ, "PYTHONPATH": paths})


def test_plans_are_right_and_move_what_was_predicted(tmp_path: Path) -> None:
    """On eight CPU devices: results, bytes of collectives in the compiled program, memory."""
    in_child(tmp_path, SCRIPT)


def test_a_loop_over_layers_becomes_a_pipeline_where_links_are_slow(tmp_path: Path) -> None:
    """It is right, moves what was predicted, holds its layers only; swapped stages are refuted."""
    in_child(tmp_path, PIPELINE)


def test_a_training_step_is_sharded_within_memory(tmp_path: Path) -> None:
    """Loss and gradients are the function's, collectives those predicted, budgets are met."""
    in_child(tmp_path, TRAINING)


def test_a_training_step_is_planned_over_two_axes(tmp_path: Path) -> None:
    """A gradient of four layers on 2 x 4 devices: a bound beside it, right, moves as predicted."""
    in_child(tmp_path, TWO_AXES)


def test_what_stages_stack_stays_with_them(tmp_path: Path) -> None:
    """Loops that give something of each turn, and loops from the end, as pipelines."""
    in_child(tmp_path, STACKS)


def test_a_mesh_is_measured(tmp_path: Path) -> None:
    """What eight devices compute and move, in figures above 0."""
    in_child(tmp_path, MEASURED)


def test_what_cannot_be_pipelined_says_why() -> None:
    """Turns that do not divide, that hand nothing on, and gradients."""
    make = lambda shape: jax.ShapeDtypeStruct(shape, jnp.float32)  # noqa: E731 - an argument
    x, odd, even = make((8, 16)), make((3, 16, 16)), make((4, 16, 16))

    def run(x: Any, w: Any) -> Any:
        return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]

    def keeps(x: Any, w: Any) -> Any:
        return lax.scan(lambda x, w: (jnp.tanh(x @ w), x.sum()), x, w)

    def backwards(x: Any, w: Any) -> Any:
        return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w, reverse=True)[0]

    def apart(x: Any, w: Any) -> Any:
        return lax.map(lambda w: x @ w, w)

    def slope(x: Any, w: Any) -> Any:
        return jax.grad(lambda w: run(x, w).sum())(w)

    def stages(function: Any, w: Any) -> list[Any]:
        return list(pipelines(trace(function, (x, w))[0], (4,)))

    def reasons(function: Any, w: Any) -> list[str]:
        flat, _ = trace(function, (x, w))
        scans = [at for at, equation in enumerate(flat.equations) if equation.name == "scan"]
        return [why_no_pipeline(flat, at, 4) for at in scans]

    assert [len(stages(f, even)) for f in (run, keeps, backwards)] == [3, 3, 3]
    assert stages(backwards, even)[0].order == (3, 2, 1, 0)
    assert reasons(run, odd) == ["its 3 turns do not divide among 4 devices"]
    assert reasons(apart, even) == ["its turns hand nothing on"]
    assert all("from loop to loop" in why for why in reasons(slope, even)), reasons(slope, even)
    plan = shard(run, x, odd, mesh=(4,))
    assert "the loop of 3 turns is no pipeline: its 3 turns do not divide" in plan.explain()
