"""Kernels with a point that crashes, hangs or takes all memory, and one that has no valid point."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import jax
import jax.numpy as jnp

from aiosearch.tuner import Sampler, tunable

FAULTS = ("crash", "abort", "hang", "memory", "raise", "slow run")


def _plain(x: jax.Array, fault: str = "") -> jax.Array:
    return jnp.tanh(x) * 2


def _space(s: Sampler, x: Any, fault: str = "") -> None:
    s.categorical("block", (1, 2, 4, 8))


@tunable(_space, reference=_plain)
def troubled(x: jax.Array, fault: str = "", *, block: int = 1) -> jax.Array:
    """A block of 8 has the fault."""
    if block == 8:
        match fault:
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "abort":
                os.abort()
            case "hang":
                time.sleep(3600)
            case "memory":
                bytearray(1 << 40)
            case "raise":
                raise ValueError("no such block")
            case "slow run":
                return jax.lax.while_loop(lambda v: v[0, 0] > -1e30, jnp.tanh, x)
    blocks = x.reshape(-1, block, x.shape[1])
    return jax.lax.map(lambda rows: jnp.tanh(rows) * 2, blocks).reshape(x.shape)


def _nothing(s: Sampler, x: Any) -> None:
    s.categorical("block", (3, 5))
    s.require(lambda block: x.shape[0] % block == 0, "blocks divide the rows")


@tunable(_nothing, reference=_plain)
def none_fits(x: jax.Array, *, block: int = 3) -> jax.Array:
    """No block divides 64 rows."""
    return jnp.tanh(x.reshape(-1, block, x.shape[1])).reshape(x.shape) * 2
