"""Gradients fit the memory that is allowed, and are those of the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aiosearch.mapper import (
    KeepPolicy,
    PlanError,
    fit_gradient,
    measure_mesh,
    shard,
    shard_gradient,
)
from aiosearch.mapper.rematerialization import keeping
from aiosearch.mapper.rows.blocked import memory_of

KEY = jax.random.PRNGKey(0)
WEIGHTS = jax.random.normal(KEY, (12, 32, 64)) * 0.1
BACK = jax.random.normal(KEY, (12, 64, 32)) * 0.1
X = jax.random.normal(KEY, (256, 32))


def loss(weights: Any, back: Any, x: Any) -> Any:
    def layer(x: Any, pair: Any) -> Any:
        w, v = pair
        return x + jax.nn.silu(jnp.tanh(x @ w)) @ v, x.sum()

    x, sums = lax.scan(layer, x, (weights, back))
    return (x**2).mean() + sums.sum() * 0.01


def needed(policy: KeepPolicy) -> int:
    gradient = jax.jit(jax.value_and_grad(keeping(loss, policy, WEIGHTS, BACK, X)))
    return memory_of(gradient.lower(WEIGHTS, BACK, X).compile()).temporary


def test_the_first_policy_that_fits_is_taken() -> None:
    """From keeping everything down to what a turn begins with; each gives the same gradient."""
    sizes = {policy: needed(policy) for policy in KeepPolicy}
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    assert len(set(sizes.values())) == len(sizes)
    expected = jax.value_and_grad(loss)(WEIGHTS, BACK, X)
    for policy, size in sizes.items():
        plan = fit_gradient(loss, WEIGHTS, BACK, X, memory=size)
        assert plan.policy is policy
        assert plan.bytes == size
        for actual, wanted in zip(
            jax.tree_util.tree_leaves(plan(WEIGHTS, BACK, X)),
            jax.tree_util.tree_leaves(expected),
            strict=True,
        ):
            np.testing.assert_allclose(actual, wanted, rtol=2e-4, atol=1e-6)


def test_what_fits_nowhere_is_said() -> None:
    """With what the least needs, and which policy that is."""
    with pytest.raises(PlanError, match=r"no gradient fits 10 bytes: the least is [\d,]+, which"):
        fit_gradient(loss, WEIGHTS, BACK, X, memory=10)
    with pytest.raises(PlanError, match="above 0, not 0"):
        fit_gradient(loss, WEIGHTS, BACK, X, memory=0)


def scalar(w: Any) -> Any:
    return (w**2).sum()


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        (lambda: fit_gradient(scalar, X, memory="8M"), "bytes above 0, not '8M'"),  # type: ignore[arg-type]
        (lambda: fit_gradient(jnp.tanh, X, memory=10**9), "cannot be traced.*scalar-output"),
        (lambda: fit_gradient(scalar, X, memory=10**9, argnums=4), "cannot be traced"),
        (lambda: shard_gradient(jnp.tanh, X, mesh=(2,), memory=10**9), "cannot be traced"),
        (lambda: shard(scalar, X, mesh=8), "at least one device, as .* not 8"),  # type: ignore[arg-type]
        (lambda: shard(scalar, X, mesh=(2.5,)), "at least one device"),  # type: ignore[arg-type]
        (lambda: shard(jnp.matmul, X, mesh=(2,)), "cannot be traced with these arguments"),
        (lambda: shard(scalar, "w", mesh=(2,)), "cannot be traced with these arguments"),
        (lambda: measure_mesh([]), "there is no device"),
    ],
)
def test_what_is_no_plan_is_refused_in_a_sentence(
    refused: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(PlanError, match=sentence):
        refused()
