"""Sizes that are known when a kernel runs: one record serves a range."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.measure import Act, MockExecutor
from aiosearch.tuner import (
    RecordTable,
    Sampler,
    SizeRange,
    Tunable,
    TunerError,
    UntunedWarning,
    tune,
)
from aiosearch.tuner.kernels import KernelCall
from aiosearch.tuner.space.traces import point_key

X = jax.ShapeDtypeStruct((32, 4), jnp.float32)
ROWS = SizeRange(8, 64, ((0, 0),))


def space(s: Sampler, x: Any) -> None:
    s.categorical("block", (4, 8))


def reference(x: jax.Array) -> jax.Array:
    return x * 2


def doubled(x: jax.Array, *, block: int = 4) -> jax.Array:
    assert block in (4, 8)
    return x * 2


def without_mask(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Leaves out the rows behind the last whole block of eight."""
    outputs = inputs[0] * 2
    outputs[len(outputs) // 8 * 8 :] = 0
    return (outputs,)


def right(inputs: Sequence[Any]) -> tuple[Any, ...]:
    return (inputs[0] * 2,)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tunable[..., Any]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    table = RecordTable(tmp_path / "table.json")
    return Tunable(doubled, space, reference, table, ranges=[ROWS])


def acts(fast: Any, slow: Any = right) -> dict[str, Act]:
    outputs = {point_key({"block": 8}): (1e-3, fast), point_key({"block": 4}): (2e-3, slow)}
    plain = dict.fromkeys(("reference", "precise"), (0.005, right))
    return {
        name: Act(seconds, outputs=each, compile_seconds=0.0)
        for name, (seconds, each) in (outputs | plain).items()
    }


async def test_a_point_that_forgets_its_edge_does_not_win_the_range(
    kernel: Tunable[..., Any],
) -> None:
    """At 32 rows it is right and twice as fast; at 45 it leaves five out."""
    async with MockExecutor(acts(without_mask), noise=0.001) as executor:
        report = await tune(kernel, X, executor=executor, trials=3)
    assert report.configuration == {"block": 4}
    assert report.record.arguments == ("f32[8..64,4]",)
    assert report.rejected == {"numbers": 1}


async def test_one_record_serves_all_sizes_of_the_range(kernel: Tunable[..., Any]) -> None:
    async with MockExecutor(acts(right), noise=0.001) as executor:
        await tune(kernel, X, executor=executor, trials=3)
        again = await tune(kernel, jax.ShapeDtypeStruct((45, 4), jnp.float32), executor=executor)
    assert again.remembered
    for rows in (8, 13, 64):
        assert kernel.configuration(jnp.ones((rows, 4))) == {"block": 8}
    with pytest.warns(UntunedWarning, match=r"f32\[65,4\]"):
        assert kernel.configuration(jnp.ones((65, 4))) == {"block": 4}


async def test_where_nothing_serves_the_range_the_reference_does(kernel: Tunable[..., Any]) -> None:
    async with MockExecutor(acts(without_mask, without_mask), noise=0.001) as executor:
        report = await tune(kernel, X, executor=executor, trials=3)
    assert report.record.winner == "reference"
    assert np.asarray(kernel(jnp.ones((13, 4)))).sum() == 13 * 4 * 2


def test_axes_that_are_equally_long_move_together() -> None:
    shared = SizeRange(2, 16, ((0, 0), (1, 1)))
    kernel = Tunable(doubled, space, reference, RecordTable(), ranges=[shared])
    call = KernelCall((jnp.ones((4, 3)), jnp.ones((5, 4))))
    assert kernel.key(call) == ("f32[2..16,3]", "f32[5,2..16]")
    shapes = [tuple(leaf.shape for leaf in each.leaves) for each in kernel.probing_calls(call)]
    assert shapes == [((2, 3), (5, 2)), ((11, 3), (5, 11)), ((16, 3), (5, 16))]


def test_a_range_that_is_none_is_said() -> None:
    with pytest.raises(TunerError, match="no range"):
        SizeRange(8, 4, ((0, 0),))
