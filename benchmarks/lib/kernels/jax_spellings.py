"""The spellings in plain JAX that were found best for the programs that kernels are measured on.

The text stands alone: it is what a process that times one of them runs. What a function takes
beside the program's inputs, the function that `entrants.py` names with it makes of them beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

Array: TypeAlias = Any
F32 = jnp.float32
SPLITS = 16
"""Into so many parts the keys of an attention are split."""


# Products: x has a row or a few, w is large


def _sums(x: Array, w: Array) -> Array:
    """Added up in 32 bits."""
    return jnp.dot(x, w, preferred_element_type=F32)


def _two_rows(x: Array, w: Array) -> Array:
    """A single row with another one below it, which takes another way through XLA."""
    return _sums(jnp.pad(x, ((0, 1), (0, 0))), w)[:1]


def _turned(x: Array, turned: Array) -> Array:
    """With weights that lie turned."""
    return lax.dot_general(x, turned, (((1,), (1,)), ((), ())), preferred_element_type=F32)


def _turned_two_rows(x: Array, turned: Array) -> Array:
    return _turned(jnp.pad(x, ((0, 1), (0, 0))), turned)[:1]


def turned(*weights: Array) -> tuple[Array, ...]:
    return tuple(one.T for one in weights)


def side_by_side(*weights: Array) -> tuple[Array, ...]:
    return (jnp.concatenate(weights, axis=1),)


def merged(w: Array, a: Array, b: Array) -> tuple[Array, ...]:
    """A linear layer and its adapter in one."""
    return ((_sums(a, b) + w).astype(w.dtype),)


# A norm before a linear layer


def _rms(x: Array) -> Array:
    return lax.rsqrt(jnp.mean(jnp.square(x.astype(F32)), axis=-1, keepdims=True))


def _norm_first(product: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def spelled(x: Array, w: Array) -> Array:
        return product((x * _rms(x)).astype(x.dtype), w).astype(x.dtype)

    return spelled


def _norm_last(product: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def spelled(x: Array, w: Array) -> Array:
        return (product(x, w) * _rms(x)).astype(x.dtype)

    return spelled


norm_first, norm_last = _norm_first(_sums), _norm_last(_sums)
norm_first_two_rows, norm_last_two_rows = _norm_first(_two_rows), _norm_last(_two_rows)
norm_first_turned, norm_last_turned = _norm_first(_turned), _norm_last(_turned)
norm_first_turned_two_rows = _norm_first(_turned_two_rows)


# A gated layer


def _gated(product: Callable[[Array, Array], Array]) -> Callable[[Array, Array, Array], Array]:
    def spelled(x: Array, gate: Array, up: Array) -> Array:
        return (jax.nn.silu(product(x, gate)) * product(x, up)).astype(x.dtype)

    return spelled


def gated_side_by_side(x: Array, both: Array) -> Array:
    gate, up = jnp.split(_sums(x, both), 2, axis=1)
    return (jax.nn.silu(gate) * up).astype(x.dtype)


gated, gated_two_rows = _gated(_sums), _gated(_two_rows)
gated_turned, gated_turned_two_rows = _gated(_turned), _gated(_turned_two_rows)


# A linear layer with an adapter


def adapted(x: Array, w: Array, a: Array, b: Array) -> Array:
    return (_sums(x, w) + _sums(_sums(x, a).astype(x.dtype), b)).astype(x.dtype)


def adapted_merged(x: Array, whole: Array) -> Array:
    return _sums(x, whole).astype(x.dtype)


# Attention


def _scores(q: Array, k: Array) -> Array:
    return jnp.exp(jnp.einsum("hqd,hdk->hqk", q, k, preferred_element_type=F32))


def _weighted(e: Array, v: Array) -> Array:
    return jnp.einsum("hqk,hkd->hqd", e.astype(v.dtype), v, preferred_element_type=F32)


def divided_late(q: Array, k: Array, v: Array) -> Array:
    e = _scores(q, k)
    return (_weighted(e, v) / jnp.sum(e, axis=-1, keepdims=True)).astype(q.dtype)


def split(q: Array, k: Array, v: Array) -> Array:
    """The parts one after the other in the text."""
    found, total = 0.0, 0.0
    for keys, values in zip(jnp.split(k, SPLITS, 2), jnp.split(v, SPLITS, 1), strict=True):
        e = _scores(q, keys)
        found, total = found + _weighted(e, values), total + jnp.sum(e, axis=-1, keepdims=True)
    return (found / total).astype(q.dtype)


def scanned(q: Array, k: Array, v: Array) -> Array:
    """The parts one after the other in a loop."""
    heads, rows, _ = q.shape
    start = jnp.zeros((heads, rows, v.shape[2]), F32), jnp.zeros((heads, rows, 1), F32)
    size = k.shape[2] // SPLITS

    def step(number: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        keys = lax.dynamic_slice_in_dim(k, number * size, size, 2)
        values = lax.dynamic_slice_in_dim(v, number * size, size, 1)
        e = _scores(q, keys)
        return sums[0] + _weighted(e, values), sums[1] + jnp.sum(e, axis=-1, keepdims=True)

    found, total = lax.fori_loop(0, SPLITS, step, start)
    return (found / total).astype(q.dtype)


def head_by_head(q: Array, k: Array, v: Array) -> Array:
    return lax.map(lambda one: divided_late(*(each[None] for each in one))[0], (q, k, v))


def _normed(
    attention: Callable[[Array, Array, Array], Array],
) -> Callable[[Array, Array, Array], Array]:
    """Behind norms of the queries and the keys."""

    def spelled(q: Array, k: Array, v: Array) -> Array:
        keys = k * lax.rsqrt(jnp.mean(jnp.square(k.astype(F32)), axis=-2, keepdims=True))
        return attention((q * _rms(q)).astype(q.dtype), keys.astype(k.dtype), v)

    return spelled


normed_divided_late, normed_split = _normed(divided_late), _normed(split)
normed_scanned, normed_head_by_head = _normed(scanned), _normed(head_by_head)


# A step of a normalised transformer


def in_32_bits(x: Array, h: Array, alpha: Array) -> Array:
    wide, state = x.astype(F32), h.astype(F32)
    moved = wide + alpha.astype(F32) * (state * _rms(state) + wide)
    return (moved * _rms(moved)).astype(x.dtype)
