"""Portfolios: few configurations for many shapes."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from aiosearch.measure import Act, MockExecutor
from aiosearch.tuner import RecordTable, Sampler, TunerError, tunable, tune_portfolio
from aiosearch.tuner.portfolios import choose
from aiosearch.tuner.space.traces import point_key


def space(s: Sampler, x: Any) -> None:
    s.categorical("block", (1, 2, 4, 8, 16))
    s.require(lambda block: x.shape[0] % block == 0, "blocks divide the rows")


def reference(x: jax.Array) -> jax.Array:
    return x * 2


@tunable(space, reference=reference)
def doubled(x: jax.Array, *, block: int = 1) -> jax.Array:
    return x * 2


def test_the_choice_is_the_best_of_all_subsets() -> None:
    random = Random(0)
    seconds = {
        shape: {name: random.uniform(1, 9) for name in "abcdef" if random.random() < 0.8} | {"g": 9}
        for shape in range(12)
    }
    chosen = choose(seconds, 3)

    def worst(names: tuple[str, ...]) -> float:
        return max(
            min(row.get(name, math.inf) for name in names) / min(row.values())
            for row in seconds.values()
        )

    least = min(worst(names) for names in itertools.combinations("abcdefg", 3))
    served = max(
        seconds[shape][name] / min(seconds[shape].values()) for shape, name in chosen.items()
    )
    assert len(set(chosen.values())) <= 3
    assert served == pytest.approx(least)


def test_many_columns_are_chosen_one_by_one() -> None:
    """Of 400 columns each is best for one of 4 shapes: too many subsets, and found all the same."""
    seconds = {
        shape: {name: 1.0 if name % 4 == shape else 2.0 for name in range(400)}
        for shape in range(4)
    }
    chosen = choose(seconds, 4)
    assert all(name % 4 == shape for shape, name in chosen.items())


def test_shapes_that_nothing_fits_together_are_refused() -> None:
    with pytest.raises(TunerError, match="no 1 configurations fit all 2 shapes"):
        choose({"a": {"x": 1.0}, "b": {"y": 1.0}}, 1)


async def test_two_configurations_serve_six_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Odd shapes want a block of 1, even ones one of 2 or 4: two configurations are enough."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    doubled.table = RecordTable(tmp_path / "table.json")
    right = lambda inputs: (inputs[0] * 2,)  # noqa: E731
    acts = {
        point_key({"block": block}): Act(seconds=1e-3 / min(block, 4), outputs=right)
        for block in (1, 2, 4, 8, 16)
    }
    acts |= {name: Act(seconds=1e-2, outputs=right) for name in ("reference", "precise")}
    calls = [(jax.ShapeDtypeStruct((rows, 4), jnp.float32),) for rows in (3, 5, 4, 8, 12, 16)]
    async with MockExecutor(acts, noise=0.001) as executor:
        portfolio = await tune_portfolio(
            doubled, calls, configurations=2, trials=10, executor=executor
        )
    assert len(portfolio.configurations) == 2
    assert portfolio.worst < 1.05
    for (call,) in calls:
        block = doubled.configuration(call)["block"]
        assert call.shape[0] % block == 0
        assert block == (1 if call.shape[0] % 2 else block)
    assert len({record.arguments for record in doubled.table.records}) == 6
