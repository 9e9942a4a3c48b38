"""What is captured keeps the digits that jax's functions keep: near zero, and where they vanish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.kernels.native_run import run

from aiosearch.capture import capture
from aiosearch.codegen.lower.lowering import lower
from aiosearch.equivalence.runnables import ExecutedProgram

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cosh": jnp.cosh,
    "elu": jax.nn.elu,
    "erfc": jax.scipy.special.erfc,
    "expm1": jnp.expm1,
    "log1p": jnp.log1p,
    "log_sigmoid": jax.nn.log_sigmoid,
    "logaddexp": lambda x: jnp.logaddexp(x, 2 * x),
    "mish": jax.nn.mish,
    "one_minus_square": getattr(jax.lax, "one_minus_square", lambda x: (1 + x) * (1 - x)),
    "sigmoid": jax.nn.sigmoid,
    "sinh": jnp.sinh,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
    "xlog1py": lambda x: jax.scipy.special.xlog1py(x, x),
}
TAILS: dict[str, Callable[..., Any]] = {
    "erfc": jax.scipy.special.erfc,
    "gelu": lambda x: jax.nn.gelu(-x, approximate=False),
    "probability": lambda x: jax.scipy.stats.norm.pdf(x) / jax.scipy.stats.norm.sf(x),
    "scaled": lambda x: jnp.exp(x * x) * jax.scipy.special.erfc(x),
    "survival": jax.scipy.stats.norm.sf,
}
"""What is made of the error function where that is nearly one."""
MOST = 16
"""Units in the last place, of the exact result."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_digits_are_kept_where_jax_keeps_them(name: str) -> None:
    """Of small numbers, near one, of large ones, and up to where results overflow."""
    function, least = FUNCTIONS[name], np.finfo(np.float32).tiny
    size = np.concatenate([np.logspace(-30, 0, 300), np.linspace(1, 104, 1000)])
    size = np.concatenate([size, 1 - np.logspace(-7, -1, 100)])
    x = np.concatenate([-size, size]).astype(np.float32)
    captured = capture(function, x)
    with np.errstate(all="ignore"):
        (found,) = ExecutedProgram(captured.program).own([x, *captured.constants.values()])
    expected = np.asarray(jax.jit(function)(x))
    with jax.enable_x64(True):
        exact = np.asarray(function(x.astype(np.float64)))
    assert (np.isfinite(found) == np.isfinite(expected)).all()
    told = np.isfinite(expected) & (np.abs(exact) > least) & (np.abs(exact) < 1 / least)
    off, own = (np.abs(one[told].astype(np.float64) - exact[told]) for one in (found, expected))
    unit = np.spacing(np.abs(exact[told]).astype(np.float32)).astype(np.float64)
    assert (off <= MOST * unit + own).all()


@pytest.mark.parametrize("name", TAILS)
def test_kernels_keep_the_digits_of_what_vanishes(name: str) -> None:
    """But for those that the rounding of what they are taken of costs."""
    function, x = TAILS[name], np.linspace(0, 6, 49, dtype=np.float32)
    captured = capture(function, x)
    (found,) = run(lower(captured.program), [x, *captured.constants.values()])
    np.testing.assert_allclose(found, jax.jit(function)(x), rtol=2e-5)
    with jax.enable_x64(True):
        exact = np.asarray(function(x.astype(np.float64)))
    np.testing.assert_allclose(found, exact, rtol=2e-5)
