"""Blocks of models as they are written in jax.numpy, and the types of their arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

Function: TypeAlias = Callable[..., Any]

ROWS, WIDTH, HIDDEN, HEADS = 32, 256, 1024, 4


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def layer_norm(x: Any, gain: Any = 1.0, shift: Any = 0.0) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * gain + shift


def rms_norm(x: Any, gain: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain


def heads(x: Any, weight: Any) -> Any:
    rows, width = x.shape
    return (x @ weight).reshape(rows, HEADS, width // HEADS).transpose(1, 0, 2)


def attention(x: Any, wq: Any, wk: Any, wv: Any, low: float = 0.0, turn: Any = None) -> Any:
    """Multi-head attention; masked by `low` where that is not 0, positions rotated by `turn`."""
    rows, width = x.shape
    q, k, v = (heads(x, weight) for weight in (wq, wk, wv))
    if turn is not None:
        q, k = turn(q), turn(k)
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(width // HEADS)
    if low:
        scores = jnp.where(jnp.tril(jnp.ones((rows, rows), bool)), scores, low)
    return (jax.nn.softmax(scores, -1) @ v).transpose(1, 0, 2).reshape(rows, width)


def rotary(x: Any) -> Any:
    _, rows, width = x.shape
    angles = jnp.arange(rows)[:, None] / 10000 ** (jnp.arange(0, width, 2) / width)
    cosine, sine = (jnp.concatenate([part] * 2, -1) for part in (jnp.cos(angles), jnp.sin(angles)))
    turned = jnp.concatenate([-x[..., width // 2 :], x[..., : width // 2]], -1)
    return x * cosine + turned * sine


def residual_attention(x: Any, wq: Any, wk: Any, wv: Any, o: Any) -> Any:
    return x + attention(layer_norm(x), wq, wk, wv) @ o


def gpt2_block(
    x: Any, g1: Any, b1: Any, wq: Any, wk: Any, wv: Any, o: Any,
    g2: Any, b2: Any, w1: Any, c1: Any, w2: Any, c2: Any,
) -> Any:  # fmt: skip
    x = x + attention(layer_norm(x, g1, b1), wq, wk, wv, low=-1e9) @ o
    return x + jax.nn.gelu(layer_norm(x, g2, b2) @ w1 + c1, approximate=True) @ w2 + c2


def flax_block(
    x: Any, wq: Any, wk: Any, wv: Any, o: Any, g1: Any, b1: Any,
    w1: Any, c1: Any, w2: Any, c2: Any, g2: Any, b2: Any,
) -> Any:  # fmt: skip
    x = layer_norm(x + attention(x, wq, wk, wv) @ o, g1, b1)
    return layer_norm(x + jax.nn.relu(x @ w1 + c1) @ w2 + c2, g2, b2)


def llama_block(
    x: Any, g1: Any, wq: Any, wk: Any, wv: Any, o: Any, g2: Any, gate: Any, up: Any, down: Any
) -> Any:
    low = float(jnp.finfo(jnp.float32).min)
    x = x + attention(rms_norm(x, g1), wq, wk, wv, low, rotary) @ o
    y = rms_norm(x, g2)
    return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down


def jitter(x: Any, u: Any) -> Any:
    return jnp.where((u < 0) | (u > 1), -jnp.inf, -(x**2)).sum(-1)


def label_loss(logits: Any, labels: Any) -> Any:
    """Cross entropy with whole labels, of which one is picked by comparison with places."""
    chosen = labels[:, None] == jnp.arange(logits.shape[-1])
    return -jnp.sum(jnp.where(chosen, jax.nn.log_softmax(logits), 0.0), -1).mean()


_X, _SQUARE, _ROW = floats(ROWS, WIDTH), floats(WIDTH, WIDTH), floats(WIDTH)
_UP, _DOWN, _WIDE = floats(WIDTH, HIDDEN), floats(HIDDEN, WIDTH), floats(HIDDEN)

MODELS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "residual attention": (residual_attention, (_X, *[_SQUARE] * 4)),
    "gpt2": (
        gpt2_block,
        (_X, _ROW, _ROW, *[_SQUARE] * 4, _ROW, _ROW, _UP, _WIDE, _DOWN, _ROW),
    ),
    "flax": (
        flax_block,
        (_X, *[_SQUARE] * 4, _ROW, _ROW, _UP, _WIDE, _DOWN, _ROW, _ROW, _ROW),
    ),
    "llama": (llama_block, (_X, _ROW, *[_SQUARE] * 4, _ROW, _UP, _UP, _DOWN)),
    "jitter": (jitter, (floats(64, 8), floats(64, 8))),
    "label loss": (label_loss, (floats(32, 10), jax.ShapeDtypeStruct((32,), jnp.int32))),
}
"""Functions by name, each with the types of its arguments."""

_DENSITIES = {
    "norm": 3, "expon": 3, "uniform": 3, "laplace": 3, "cauchy": 3, "pareto": 2, "logistic": 1,
    "truncnorm": 3, "bernoulli": 2, "geom": 2,
}  # fmt: skip
"""Distributions of jax.scipy.stats that the language has words for, and how many arguments."""

for name, count in _DENSITIES.items():
    module = getattr(jax.scipy.stats, name)
    density = getattr(module, "logpdf", None) or module.logpmf
    MODELS[name] = (density, (floats(64),) * count)
