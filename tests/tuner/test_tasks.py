"""Many kernels within one budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from aiosearch.measure import Act, MockExecutor
from aiosearch.tuner import RecordTable, Sampler, Tunable, TuningTask, tune_tasks
from aiosearch.tuner.kernels import KernelCall
from aiosearch.tuner.tasks import TaskHistory, next_task


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


def _names(kernel: Tunable[..., Any]) -> list[str]:
    call = KernelCall((jax.ShapeDtypeStruct((8, 4), jnp.float32),))
    points = [trace.key for trace in kernel.search_space(call).points()]
    return [*points, "reference", "precise"]
