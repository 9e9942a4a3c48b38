"""What is captured keeps the digits that jax's functions keep: near zero, and where they vanish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.capture import capture
from aiosearch.equivalence.sides import Executed

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cosh": jnp.cosh,
    "elu": jax.nn.elu,
    "expm1": jnp.expm1,
    "log1p": jnp.log1p,
    "log_sigmoid": jax.nn.log_sigmoid,
    "logaddexp": lambda x: jnp.logaddexp(x, 2 * x),
    "mish": jax.nn.mish,
    "sigmoid": jax.nn.sigmoid,
    "sinh": jnp.sinh,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
    "xlog1py": lambda x: jax.scipy.special.xlog1py(x, x),
}
MOST = 16
"""Units in the last place, of the exact result."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_digits_are_kept_where_jax_keeps_them(name: str) -> None:
    """Of small numbers, of large ones, and up to where results overflow."""
    function, least = FUNCTIONS[name], np.finfo(np.float32).tiny
    size = np.concatenate([np.logspace(-30, 0, 300), np.linspace(1, 104, 1000)])
    x = np.concatenate([-size, size]).astype(np.float32)
    captured = capture(function, x)
    with np.errstate(all="ignore"):
        (found,) = Executed(captured.program).own([x, *captured.constants.values()])
    expected = np.asarray(jax.jit(function)(x))
    with jax.enable_x64(True):
        exact = np.asarray(function(x.astype(np.float64)))
    assert (np.isfinite(found) == np.isfinite(expected)).all()
    told = np.isfinite(expected) & (np.abs(exact) > least) & (np.abs(exact) < 1 / least)
    off, own = (np.abs(one[told].astype(np.float64) - exact[told]) for one in (found, expected))
    unit = np.spacing(np.abs(exact[told]).astype(np.float32)).astype(np.float64)
    assert (off <= MOST * unit + own).all()
