"""Many kernels within one budget."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from testkit.programs.opaque import unread

from aiosearch.measure import Act, MockExecutor
from aiosearch.optimizer.trace.traced import cut
from aiosearch.tuner import (
    RecordTable,
    Sampler,
    Tunable,
    TunerError,
    TuningBudget,
    TuningSession,
    TuningTask,
    tune_function,
    tune_tasks,
)
from aiosearch.tuner.kernels import KernelCall
from aiosearch.tuner.tasks import TaskHistory, next_task, region_weights


def space(s: Sampler, x: Any) -> None:
    s.integer("block", 1, 64)


def reference(x: jax.Array) -> jax.Array:
    return x * 2


def function(x: jax.Array, *, block: int = 1) -> jax.Array:
    return x * 2


def test_who_had_no_turn_is_next() -> None:
    assert next_task([TaskHistory(1.0, [5.0]), TaskHistory(1.0)]) == 1


def test_what_weighs_more_goes_on() -> None:
    histories = [TaskHistory(1.0, [5.0, 4.0]), TaskHistory(9.0, [5.0, 4.0])]
    assert next_task(histories) == 1


def test_what_is_long_and_hardly_tried_goes_before_what_was_tried_much() -> None:
    histories = [TaskHistory(1.0, [5.0, 4.9, 4.8, 4.7, 4.6]), TaskHistory(1.0, [5.0])]
    assert next_task(histories) == 1


def test_what_has_converged_is_left() -> None:
    histories = [TaskHistory(9.0, [5.0] * 5), TaskHistory(1.0, [5.0, 4.0, 3.0, 2.0])]
    assert next_task(histories) == 1
    assert next_task(histories[:1]) is None


async def test_equal_tasks_are_tuned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kernel = Tunable(function, space, reference, RecordTable(tmp_path / "table.json"))
    acts = {
        name: Act(1e-3, compile_seconds=0.0, outputs=lambda x: (x[0] * 2,))
        for name in _names(kernel)
    }
    calls = [jax.ShapeDtypeStruct((rows, 4), jnp.float32) for rows in (8, 16, 8)]
    async with MockExecutor(acts, noise=0.001) as executor:
        reports = await tune_tasks(
            [TuningTask(kernel, (call,)) for call in calls], seconds=1000, executor=executor
        )
    assert [report.record.arguments for report in reports] == [
        ("f32[8,4]",), ("f32[16,4]",), ("f32[8,4]",)
    ]  # fmt: skip
    assert reports[0] is reports[2]
    assert len(kernel.table.records) == 2


async def test_tasks_that_two_tune_in_other_orders_wait_for_each_other_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kernel = Tunable(function, space, reference, RecordTable(tmp_path / "table.json"))
    acts = {
        name: Act(1e-3, compile_seconds=0.0, outputs=lambda x: (x[0] * 2,))
        for name in _names(kernel)
    }
    tasks = [TuningTask(kernel, (jax.ShapeDtypeStruct((n, 4), jnp.float32),)) for n in (8, 16)]
    async with MockExecutor(acts, noise=0.001) as executor:
        forth, back = await asyncio.gather(
            tune_tasks(tasks, seconds=1000, executor=executor),
            tune_tasks(tasks[::-1], seconds=1000, executor=executor),
        )
    assert [report.record for report in forth] == [report.record for report in back[::-1]]


async def test_a_turn_ends_with_the_time_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kernel = Tunable(function, space, reference, RecordTable(tmp_path / "table.json"))
    acts = {
        name: Act(1e-3, compile_seconds=0.0, outputs=lambda x: (x[0] * 2,))
        for name in _names(kernel)
    }
    call = jax.ShapeDtypeStruct((8, 4), jnp.float32)
    async with MockExecutor(acts, noise=0.001) as executor:
        search = TuningSession(kernel, KernelCall((call,)), executor, TuningBudget())
        async with search.opened():
            await search.advance(TuningBudget(trials=64), until=time.monotonic())
            report = await search.finish()
    assert report.trials < 64


def _names(kernel: Tunable[..., Any]) -> list[str]:
    call = KernelCall((jax.ShapeDtypeStruct((8, 4), jnp.float32),))
    points = [trace.key for trace in kernel.search_space(call).points()]
    return [*points, "reference", "precise"]


def layers(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
    def layer(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
        return jax.nn.relu(x @ w), None

    x, _ = jax.lax.scan(layer, x, jnp.stack([w] * 5))
    return unread(x) @ v


X, W = jnp.ones((16, 32)), jnp.ones((32, 32))


def test_a_region_of_a_loop_weighs_as_often_as_the_loop_goes_round() -> None:
    weights = region_weights(cut(layers, X, W, W))
    assert sorted(weights.values()) == [1.0, 5.0]


async def test_a_whole_function_is_tuned_and_computes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    x = jax.random.normal(jax.random.key(0), X.shape)
    w = jax.random.normal(jax.random.key(1), W.shape)
    tuned = await tune_function(layers, x, w, w, seconds=8, table=tmp_path / "table.json")
    assert jnp.allclose(jax.jit(tuned)(x, w, w), layers(x, w, w), atol=1e-3)
    gradient = jax.grad(lambda x: tuned(x, w, w).sum())(x)
    assert jnp.allclose(gradient, jax.grad(lambda x: layers(x, w, w).sum())(x), atol=1e-2)
    assert {region.weight for region in tuned.regions} == {1.0, 5.0}
    assert "the original" in str(tuned)


async def test_a_function_without_regions_is_said() -> None:
    with pytest.raises(TunerError, match=r"nothing in .*sort.* can be tuned"):
        await tune_function(jnp.sort, jnp.ones(64), seconds=5)
