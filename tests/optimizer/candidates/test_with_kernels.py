"""The whole way with kernels of ours: compiled, tried, verified on the device, kept, and called."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.programs.biased_executor import Favouring

from aiosearch.optimizer.optimization import optimize
from aiosearch.optimizer.outcomes.results import Results

RANDOM = np.random.default_rng(0)
X = jnp.asarray(RANDOM.normal(size=(8, 48)), jnp.float32)
W = jnp.asarray(RANDOM.normal(size=(48, 64)), jnp.float32)


def norm(x: jax.Array, w: jax.Array) -> jax.Array:
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True)) @ w


def exact(x: Any) -> Any:
    wide = np.asarray(x, np.float64)
    return wide / np.sqrt((wide * wide).mean(-1, keepdims=True)) @ np.asarray(W, np.float64)


@pytest.mark.parametrize(
    ("strict", "constant"), [(True, ()), (False, (1,))], ids=["strict", "constant"]
)
async def test_the_answer_is_a_kernel(
    tmp_path: Path, strict: bool, constant: tuple[int, ...]
) -> None:
    """Right, remembered, and the same in its file, in a process that has not made it."""
    options: Any = {"effort": "quick", "target": "cpu", "strict": strict}
    options["constant_argnums"] = constant
    with Results.open(tmp_path / "results.sqlite") as store:
        async with Favouring(lambda one: "carried(" in one.source) as executor:
            made = await optimize(norm, X, W, results=store, executor=executor, **options)
        assert made.report is not None
        (one,) = made.report.found
        assert "carried(" in one.answer.source
        np.testing.assert_allclose(made(X, W), exact(X), rtol=2e-5, atol=2e-5)
        sliced = jnp.concatenate([X, X])[3:11]
        np.testing.assert_allclose(made(sliced, W), exact(sliced), rtol=2e-5, atol=2e-5)
        awkward = X.at[2, 5].set(jnp.nan).at[4, 0].set(jnp.inf)
        np.testing.assert_array_equal(np.isnan(made(awkward, W)), np.isnan(norm(awkward, W)))
        # Under noise a gain is measured again, so that its times may be others.
        async with Favouring(lambda one: "carried(" in one.source) as executor:
            again = await optimize(norm, X, W, results=store, executor=executor, **options)
        assert again.report is not None
        assert again.report.found[0].answer.source == one.answer.source
    path = tmp_path / "faster.py"
    path.write_text(made.source())
    np.savez(tmp_path / "given.npz", x=X, w=W)
    call = "norm_packed(x, *faster.norm_pack(w))" if constant else "norm(x, w)"
    program = (
        "import sys, jax.numpy as jnp, numpy as np, faster\n"
        "given = np.load(sys.argv[1])\n"
        "x, w = jnp.asarray(given['x']), jnp.asarray(given['w'])\n"
        f"np.save(sys.argv[2], faster.{call})\n"
    )
    arguments = [str(tmp_path / "given.npz"), str(tmp_path / "found.npy")]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, *arguments, cwd=tmp_path
    )
    assert await process.wait() == 0
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), made(X, W))


async def test_weights_of_eight_bits_are_read_as_such(tmp_path: Path) -> None:
    """Their kernel widens them, packed once or not."""
    few = jnp.asarray(RANDOM.integers(-128, 128, size=(48, 64)), jnp.int8)
    scale = jnp.asarray(RANDOM.random(64) / 64, jnp.float32)

    def layer(x: jax.Array, few: jax.Array, scale: jax.Array) -> jax.Array:
        return x @ (few.astype(jnp.float32) * scale)

    wanted = np.asarray(X, np.float64) @ (np.asarray(few, np.float64) * np.asarray(scale))
    options: Any = {"effort": "quick", "target": "cpu", "constant_argnums": (1, 2)}
    with Results.open(tmp_path / "results.sqlite") as store:
        async with Favouring(lambda one: "carried(" in one.source) as executor:
            made = await optimize(layer, X, few, scale, results=store, executor=executor, **options)
    assert "carried(" in made.source()
    np.testing.assert_allclose(made(X, few, scale), wanted, rtol=2e-5, atol=2e-5)
