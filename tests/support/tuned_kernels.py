"""Kernels that tests tune for real, in processes that import this module."""

from __future__ import annotations

import os
import signal
from typing import Any

import jax
import jax.numpy as jnp

from aiosearch.tuner import Sampler, tunable


def plain(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) * 2


def space(s: Sampler, x: Any) -> None:
    s.categorical("chunk", (1, 16))
    s.categorical("form", ("right", "zeros", "short", "crash"))


@tunable(space, reference=plain)
def chunked(x: jax.Array, *, chunk: int = 1, form: str = "right") -> jax.Array:
    """Right, or wrong, or the end of the process that compiles it."""
    if form == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)

    def rows(block: jax.Array) -> jax.Array:
        if form == "zeros":
            return jnp.zeros_like(block)
        if form == "short":
            return (jnp.tanh(block.astype(jnp.bfloat16)) * 2).astype(block.dtype)
        return jnp.tanh(block) * 2

    return jax.lax.map(rows, x.reshape(-1, chunk, x.shape[1])).reshape(x.shape)


def wide_space(s: Sampler, x: Any) -> None:
    s.integer("shift", 0, 40)


@tunable(wide_space, reference=plain)
def shifted(x: jax.Array, *, shift: int = 0) -> jax.Array:
    """Forty ways to compute the same, none of them faster."""
    return jnp.tanh(jnp.roll(jnp.roll(x, shift, 0), -shift, 0)) * 2
