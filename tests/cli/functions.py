"""Functions for `aiosearch verify`."""

from __future__ import annotations

import jax
import jax.numpy as jnp

table = jnp.arange(8.0, dtype="float16")
other = jnp.ones(8, dtype="float16")
number = 3


def plain(x: jax.Array, w: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return x @ w + (x @ a) @ b


def wrong(x: jax.Array, w: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return x @ w + x @ a @ b * 2


def doubled(x: jax.Array) -> jax.Array:
    return x * 2


def in_order(x: jax.Array) -> jax.Array:
    return jnp.sort(x)


def shifted(x: jax.Array) -> jax.Array:
    return x + table


def shifted_too(x: jax.Array) -> jax.Array:
    return table + x


def shifted_otherwise(x: jax.Array) -> jax.Array:
    return x + other


def broken(x: jax.Array) -> jax.Array:
    return x @ jnp.ones((7, 7))
