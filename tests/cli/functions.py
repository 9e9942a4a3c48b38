"""Functions for `aiosearch verify` and `aiosearch optimize`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

table = jnp.arange(8.0, dtype="float16")
backwards = jnp.arange(7.0, -1.0, -1.0, dtype="float16")
other = jnp.ones(8, dtype="float16")
number = 3


def plain(x: jax.Array, w: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return x @ w + (x @ a) @ b


def wrong(x: jax.Array, w: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return x @ w + x @ a @ b * 2


def by_name(x: jax.Array, *, scale: jax.Array) -> jax.Array:
    return jnp.diag((x * scale) @ x.T)


def doubled(x: jax.Array) -> jax.Array:
    return x * 2


def summed(x: jax.Array) -> jax.Array:
    return x.sum()


def rising(x: jax.Array) -> jax.Array:
    """In order, by two keys, which is no part of a program."""
    return jax.lax.sort((x, x), num_keys=2)[0]


def in_order(x: jax.Array) -> jax.Array:
    return rising(x)


def in_order_too(x: jax.Array) -> jax.Array:
    return -jnp.flip(rising(-x))


def in_reverse(x: jax.Array) -> jax.Array:
    return jnp.flip(rising(x))


def largest(x: jax.Array) -> jax.Array:
    return rising(x)[-1:]


def at_random(x: jax.Array) -> jax.Array:
    return x + jax.random.normal(jax.random.key(0), x.shape)


def single(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, x[0].astype("int32"), lambda _, y: y + x, jnp.zeros(8, "float32"))


def of_its_sign(x: jax.Array) -> jax.Array:
    return x if x.sum() > 0 else -x


def shifted(x: jax.Array) -> jax.Array:
    return x + table


def shifted_too(x: jax.Array) -> jax.Array:
    return table + x


def shifted_backwards(x: jax.Array) -> jax.Array:
    return x + backwards[::-1]


def shifted_otherwise(x: jax.Array) -> jax.Array:
    return x + other


def broken(x: jax.Array) -> jax.Array:
    return x @ jnp.ones((7, 7))


def traced(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.trace(a @ b)


def repeated(x: jax.Array, count: int, scale: float = 2.0) -> jax.Array:
    for _ in range(count):
        x = jnp.tanh(x * scale)
    return x.sum(-1)


def with_numpy(x: jax.Array) -> jax.Array:
    return x * np.linalg.norm(x)


def by_kernel(x: jax.Array) -> jax.Array:
    def kernel(source: Any, target: Any) -> None:
        target[...] = source[...] * 2

    doubled: jax.Array = pl.pallas_call(kernel, out_shape=x)(x)
    return doubled


def noisy(weights: dict[str, jax.Array], key: jax.Array) -> jax.Array:
    """Takes what no type on a command line says: a tree, and a key."""
    noise = jax.random.normal(key, weights["x"].shape)
    return jnp.diag((weights["x"] + noise) @ weights["y"])


def noisy_inputs() -> tuple[dict[str, jax.Array], jax.Array]:
    return {"x": jnp.ones((32, 16)), "y": jnp.ones((16, 32))}, jax.random.key(1)


def misled(x: jax.Array) -> jax.Array:
    return x


def misled_inputs() -> int:
    return 3


def loss(logits: jax.Array, labels: jax.Array) -> jax.Array:
    scores = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(scores, labels[:, None], -1, mode="clip")[:, 0]


def one_hot_loss(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return -(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, logits.shape[-1])).sum(-1)


def gelu(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=False)


def rough_gelu(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=True)
