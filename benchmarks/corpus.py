"""Forty JAX functions as people write them, four of each of ten families, and their arguments.

What each computes is common; how it is written is what comes to mind first. Some are as fast as
they can be, and are here so that they stay so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Array: TypeAlias = jax.Array
Function: TypeAlias = Callable[..., Any]

DTYPES = {"f32": "float32", "bf16": "bfloat16", "i32": "int32"}
DRAWN: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "weight": lambda rng, shape: rng.standard_normal(shape) / math.sqrt(shape[0]),
    "operand": lambda rng, shape: rng.standard_normal(shape) / math.sqrt(shape[-2]),
    "positive": lambda rng, shape: rng.uniform(0.1, 2.0, shape),
    "share": lambda rng, shape: rng.dirichlet(np.ones(shape[-1]), shape[:-1]),
    "bit": lambda rng, shape: rng.integers(0, 2, shape),
}
"""How the elements of an argument are drawn."""


@dataclass(frozen=True)
class Argument:
    dtype: str
    shape: tuple[int, ...]
    drawn: str

    @classmethod
    def read(cls, text: str) -> Argument:
        """Reads `f32[16,4096]`, which is normal, or `f32[16,4096] positive`."""
        type_, _, drawn = text.partition(" ")
        dtype, _, sizes = type_.rstrip("]").partition("[")
        shape = tuple(int(size) for size in sizes.split(",")) if sizes else ()
        return cls(DTYPES[dtype], shape, drawn or "normal")

    def value(self, rng: np.random.Generator) -> Array:
        return jnp.asarray(DRAWN[self.drawn](rng, self.shape), self.dtype)


@dataclass(frozen=True)
class Case:
    family: str
    function: Function
    arguments: tuple[Argument, ...]

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def types(self) -> list[jax.ShapeDtypeStruct]:
        return [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in self.arguments]

    def values(self, seed: int = 0) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [argument.value(rng) for argument in self.arguments]


CORPUS: dict[str, Case] = {}


def case(family: str, *arguments: str) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        CORPUS[function.__name__] = Case(family, function, tuple(map(Argument.read, arguments)))
        return function

    return add


# Norms


@case("norms", "bf16[8,4096]", "bf16[4096,4096] weight")
def rms_norm_linear(x: Array, w: Array) -> Array:
    return (x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)) @ w


@case("norms", "f32[512,512]", "f32[512]", "f32[512]")
def layer_norm(x: Array, gain: Array, shift: Array) -> Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * gain + shift


@case("norms", "f32[16,1024]", "f32[1024,1024] weight", "f32[1024]")
def weight_norm_linear(x: Array, v: Array, gain: Array) -> Array:
    w = gain * v / jnp.linalg.norm(v, axis=0)
    return x @ w


@case("norms", "f32[1024,32]", "f32[32,1024]")
def low_rank_penalty(a: Array, b: Array) -> Array:
    """The squared norm of a low-rank update."""
    return jnp.sum((a @ b) ** 2)


# Softmax and losses


@case("softmax and losses", "f32[512,512]", "f32[512,512] share")
def soft_cross_entropy(logits: Array, targets: Array) -> Array:
    return -jnp.mean(jnp.sum(targets * jnp.log(jax.nn.softmax(logits)), axis=-1))


@case("softmax and losses", "f32[512,512]", "f32[512,512]")
def distillation_loss(student: Array, teacher: Array) -> Array:
    p = jax.nn.softmax(teacher)
    q = jax.nn.softmax(student)
    return jnp.mean(jnp.sum(p * (jnp.log(p) - jnp.log(q)), axis=-1))


@case("softmax and losses", "f32[512,512]", "f32[512,512] bit")
def binary_cross_entropy(logits: Array, labels: Array) -> Array:
    p = jax.nn.sigmoid(logits)
    return -jnp.mean(labels * jnp.log(p) + (1 - labels) * jnp.log(1 - p))


@case("softmax and losses", "f32[512,512] positive", "f32[512,512] positive", "f32[512,512]")
def importance_weighted(new: Array, old: Array, advantage: Array) -> Array:
    """The surrogate objective of a policy gradient."""
    ratio = jnp.exp(jnp.log(new) - jnp.log(old))
    return -jnp.mean(ratio * advantage)


# Einsum chains


@case("einsum chains", "f32[512,512]", "f32[512]", "f32[512]")
def least_squares_gradient(a: Array, x: Array, b: Array) -> Array:
    return a.T @ (a @ x - b)


@case("einsum chains", "f32[512,512]", "f32[512,512]", "f32[512]")
def two_maps(a: Array, b: Array, x: Array) -> Array:
    return a @ b @ x


@case(
    "einsum chains",
    "f32[16,1024]",
    "f32[1024,1024] weight",
    "f32[1024,16] weight",
    "f32[16,1024] weight",
)
def merged_lora(x: Array, w: Array, a: Array, b: Array) -> Array:
    return x @ (w + 0.5 * (a @ b))


@case("einsum chains", "f32[32,32]", "f32[32,32]", "f32[1024]")
def kronecker_product_map(a: Array, b: Array, x: Array) -> Array:
    return jnp.kron(a, b) @ x


# Trace and diagonal forms


@case("trace and diagonal forms", "f32[512,512]", "f32[512,512]")
def trace_of_product(a: Array, b: Array) -> Array:
    return jnp.trace(a @ b)


@case("trace and diagonal forms", "f32[512,512]", "f32[512,512]")
def diagonal_of_product(a: Array, b: Array) -> Array:
    return jnp.diag(a @ b)


@case("trace and diagonal forms", "f32[512,512]", "f32[512]", "f32[512,512]")
def from_singular_values(u: Array, s: Array, vt: Array) -> Array:
    return u @ jnp.diag(s) @ vt


@case("trace and diagonal forms", "f32[1024,64]", "f32[64,64]", "f32[64]")
def mahalanobis(x: Array, precision: Array, mean: Array) -> Array:
    centred = x - mean
    return jnp.sqrt(jnp.abs(jnp.diag(centred @ precision @ centred.T)))


# Stacks and row loops


@case("stacks and row loops", "f32[32,4096] positive")
def rows_to_shares(x: Array) -> Array:
    return jnp.stack([x[i] / jnp.sum(x[i]) for i in range(x.shape[0])])


@case("stacks and row loops", "f32[64,512]", "f32[64,512]")
def row_products(x: Array, y: Array) -> Array:
    return jnp.array([jnp.dot(x[i], y[i]) for i in range(x.shape[0])])


@case("stacks and row loops", "f32[128,512]", "f32[8,512,64] weight")
def heads_one_by_one(x: Array, w: Array) -> Array:
    return jnp.concatenate([x @ w[h] for h in range(w.shape[0])], axis=-1)


@case("stacks and row loops", "f32[16,256,256]", "f32[16]")
def weighted_models(outputs: Array, weights: Array) -> Array:
    return sum(weights[i] * outputs[i] for i in range(outputs.shape[0]))


# Polynomials


@case("polynomials", "f32[512,512]", "f32[4]")
def cubic(x: Array, c: Array) -> Array:
    return c[3] * x**3 + c[2] * x**2 + c[1] * x + c[0]


@case("polynomials", "f32[65536]", "f32[8]")
def polynomial_features(x: Array, c: Array) -> Array:
    return jnp.stack([x**k for k in range(8)], axis=-1) @ c


@case("polynomials", "f32[512,512] weight", "f32[512]")
def graph_filter(a: Array, x: Array) -> Array:
    return (0.5 * jnp.eye(a.shape[0]) + 0.3 * a + 0.2 * (a @ a)) @ x


@case("polynomials", "f32[512,512] weight", "f32[512]")
def four_steps(transition: Array, x: Array) -> Array:
    return jnp.linalg.matrix_power(transition, 4) @ x


# Gates and activations


@case("gates and activations", "bf16[8,1024]", "bf16[1024,4096] weight", "bf16[1024,4096] weight")
def swiglu(x: Array, gate: Array, up: Array) -> Array:
    return jax.nn.silu(x @ gate) * (x @ up)


@case("gates and activations", "f32[512,512]")
def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@case("gates and activations", "f32[512,512]")
def mish(x: Array) -> Array:
    return x * jnp.tanh(jnp.log(1 + jnp.exp(x)))


@case("gates and activations", "f32[512,512]", "f32[512,512]", "f32[512,512]")
def highway(x: Array, y: Array, gate: Array) -> Array:
    t = jax.nn.sigmoid(gate)
    return t * y + (1 - t) * x


# Attention


@case("attention", "f32[8,512,64]", "f32[8,512,64]", "f32[8,512,64]")
def softmax_attention(q: Array, k: Array, v: Array) -> Array:
    scores = q @ jnp.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, axis=-1) @ v


@case("attention", "f32[4,1024,64]", "f32[4,1024,64]", "f32[4,1024,64]")
def linear_attention(q: Array, k: Array, v: Array) -> Array:
    q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
    weights = jnp.einsum("hqd,hkd->hqk", q, k)
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    return jnp.einsum("hqk,hkd->hqd", weights, v)


@case("attention", "f32[32,1,64]", "f32[8,1024,64]", "f32[8,1024,64]")
def grouped_query_decoding(q: Array, k: Array, v: Array) -> Array:
    """One new token; four heads of the queries share a head of keys and values."""
    k, v = jnp.repeat(k, 4, axis=0), jnp.repeat(v, 4, axis=0)
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / math.sqrt(q.shape[-1])
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)


@case("attention", "bf16[8,256,64]", "bf16[8,256,64]", "bf16[8,256,64]")
def bf16_attention(q: Array, k: Array, v: Array) -> Array:
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / math.sqrt(q.shape[-1])
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)


# Statistics


@case("statistics", "f32[512,64]", "f32[512,64]")
def rbf_kernel(x: Array, y: Array) -> Array:
    squares = jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)
    return jnp.exp(-squares / x.shape[1])


@case("statistics", "f32[4096,128]")
def covariance(x: Array) -> Array:
    centred = x - jnp.mean(x, axis=0)
    return centred.T @ centred / (x.shape[0] - 1)


@case("statistics", "f32[1024,64]", "f32[1024,64]")
def mean_similarity(x: Array, y: Array) -> Array:
    """The squared distance of two samples' means, in the words of kernels."""
    return jnp.mean(x @ x.T) + jnp.mean(y @ y.T) - 2 * jnp.mean(x @ y.T)


@case("statistics", "f32[2048,128]", "f32[2048] positive")
def weighted_second_moment(x: Array, weights: Array) -> Array:
    return x.T @ jnp.diag(weights) @ x / jnp.sum(weights)


# Loops, and random numbers


@case("loops", "f32[512,512]", "f32[512]")
def power_iteration(a: Array, x: Array) -> Array:
    def step(_: Any, x: Array) -> Array:
        y = a @ x
        return y / jnp.linalg.norm(y)

    return jax.lax.fori_loop(0, 50, step, x)


@case("loops", "f32[128,256]", "f32[256,256] weight", "f32[256,256] weight")
def recurrent_network(x: Array, w: Array, u: Array) -> Array:
    def step(h: Array, row: Array) -> tuple[Array, Array]:
        h = jnp.tanh(row @ w + h @ u)
        return h, h

    return jax.lax.scan(step, jnp.zeros(u.shape[0], x.dtype), x)[1]


@case("loops", "f32[512,512] positive")
def cube_root(x: Array) -> Array:
    """By Newton's method, until nothing moves."""

    def moves(state: tuple[Array, Array]) -> Array:
        before, now = state
        return jnp.max(jnp.abs(now - before)) > 1e-5

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        _, y = state
        return y, (2 * y + x / (y * y)) / 3

    return jax.lax.while_loop(moves, step, (x, x / 3 + 2 / 3))[1]


@case("loops", "f32[512,512]", "i32[] bit")
def dropout(x: Array, seed: Array) -> Array:
    keep = jax.random.bernoulli(jax.random.key(seed), 0.9, x.shape)
    return jnp.where(keep, x / 0.9, 0.0)
