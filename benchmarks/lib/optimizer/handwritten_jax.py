"""The corpus by hand: the fastest spelling in plain JAX that was found on a CPU, where one is.

A function here has the name of the one that it stands for.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from corpus import Array

F32 = jnp.float32


# Norms


def rms_norm_linear(x: Array, w: Array) -> Array:
    x = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    return jnp.dot(x, w, preferred_element_type=F32).astype(x.dtype)


def weight_norm_linear(x: Array, v: Array, gain: Array) -> Array:
    return (x @ v) * (gain * jax.lax.rsqrt(jnp.sum(v * v, axis=0)))


def low_rank_penalty(a: Array, b: Array) -> Array:
    return jnp.sum((a.T @ a) * (b @ b.T))


# Softmax and losses


def soft_cross_entropy(logits: Array, targets: Array) -> Array:
    chosen = jnp.sum(targets * logits, axis=-1)
    largest = jnp.max(logits, axis=-1)
    total = largest + jnp.log(jnp.sum(jnp.exp(logits - largest[:, None]), axis=-1))
    return jnp.mean(total * jnp.sum(targets, axis=-1) - chosen)


def distillation_loss(student: Array, teacher: Array) -> Array:
    p = jax.nn.log_softmax(teacher)
    q = jax.nn.log_softmax(student)
    return jnp.mean(jnp.sum(jnp.exp(p) * (p - q), axis=-1))


def binary_cross_entropy(logits: Array, labels: Array) -> Array:
    """Infinite from 89 on, where the one that it stands for is so from 17 on."""
    return jnp.mean(jnp.log(1 + jnp.exp(logits)) - labels * logits)


def importance_weighted(new: Array, old: Array, advantage: Array) -> Array:
    return -jnp.mean(new / old * advantage)


# Einsum chains


def least_squares_gradient(a: Array, x: Array, b: Array) -> Array:
    return (a @ x - b) @ a


def two_maps(a: Array, b: Array, x: Array) -> Array:
    return a @ (b @ x)


def merged_lora(x: Array, w: Array, a: Array, b: Array) -> Array:
    return x @ w + (0.5 * (x @ a)) @ b


def kronecker_product_map(a: Array, b: Array, x: Array) -> Array:
    return (a @ (x.reshape(a.shape[1], b.shape[1]) @ b.T)).reshape(-1)


# Trace and diagonal forms


def trace_of_product(a: Array, b: Array) -> Array:
    return jnp.sum(a * b.T)


def diagonal_of_product(a: Array, b: Array) -> Array:
    return jnp.sum(a * b.T, axis=1)


def from_singular_values(u: Array, s: Array, vt: Array) -> Array:
    return (u * s) @ vt


def mahalanobis(x: Array, precision: Array, mean: Array) -> Array:
    centred = x - mean
    return jnp.sqrt(jnp.abs(jnp.sum((centred @ precision) * centred, axis=1)))


# Stacks and row loops


def rows_to_shares(x: Array) -> Array:
    return x / jnp.sum(x, axis=1, keepdims=True)


def row_products(x: Array, y: Array) -> Array:
    return jnp.sum(x * y, axis=1)


def heads_one_by_one(x: Array, w: Array) -> Array:
    heads, width, size = w.shape
    return x @ w.transpose(1, 0, 2).reshape(width, heads * size)


# Polynomials


def cubic(x: Array, c: Array) -> Array:
    return ((c[3] * x + c[2]) * x + c[1]) * x + c[0]


def polynomial_features(x: Array, c: Array) -> Array:
    found = c[7]
    for k in reversed(range(7)):
        found = found * x + c[k]
    return found


def graph_filter(a: Array, x: Array) -> Array:
    once = a @ x
    return 0.5 * x + 0.3 * once + 0.2 * (a @ once)


def four_steps(transition: Array, x: Array) -> Array:
    return transition @ (transition @ (transition @ (transition @ x)))


# Gates and activations


def swiglu(x: Array, gate: Array, up: Array) -> Array:
    opened = jnp.dot(x, gate, preferred_element_type=F32)
    return (jax.nn.silu(opened) * jnp.dot(x, up, preferred_element_type=F32)).astype(x.dtype)


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)))


def mish(x: Array) -> Array:
    grown = jnp.exp(jnp.minimum(x, 20.0))
    both = grown * (grown + 2)
    return x * both / (both + 2)


def highway(x: Array, y: Array, gate: Array) -> Array:
    return x + jax.nn.sigmoid(gate) * (y - x)


# Attention


def linear_attention(q: Array, k: Array, v: Array) -> Array:
    q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
    total = q @ jnp.sum(k, axis=1)[:, :, None]
    return (q @ jnp.einsum("hkd,hkv->hdv", k, v)) / total


def grouped_query_decoding(q: Array, k: Array, v: Array) -> Array:
    groups = (q / math.sqrt(q.shape[-1])).reshape(k.shape[0], -1, q.shape[-1])
    weights = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", groups, k), axis=-1)
    return jnp.einsum("hqk,hkd->hqd", weights, v).reshape(q.shape)


def bf16_attention(q: Array, k: Array, v: Array) -> Array:
    scores = jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=F32) / math.sqrt(q.shape[-1])
    weights = jax.nn.softmax(scores, axis=-1).astype(q.dtype)
    return jnp.einsum("hqk,hkd->hqd", weights, v, preferred_element_type=F32).astype(q.dtype)


# Statistics


def rbf_kernel(x: Array, y: Array) -> Array:
    squares = jnp.sum(x * x, axis=1)[:, None] + jnp.sum(y * y, axis=1)
    return jnp.exp((2 * (x @ y.T) - squares) / x.shape[1])


def mean_similarity(x: Array, y: Array) -> Array:
    return jnp.sum((jnp.mean(x, axis=0) - jnp.mean(y, axis=0)) ** 2)


def weighted_second_moment(x: Array, weights: Array) -> Array:
    return (x.T * (weights / jnp.sum(weights))) @ x
