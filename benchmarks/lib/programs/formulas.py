"""Twelve models written to their formulas in jax.numpy, so that they need no library.

Each maker draws weights as the library of the model does (the comment beside a scale says how), and
inputs of ordinary size. Weights are arguments, as `model.apply(weights, x)` has them.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from lib.programs.subject import Function, Rng

Array: TypeAlias = jax.Array
Weights: TypeAlias = dict[str, Any]
Made: TypeAlias = tuple[Function, tuple[Any, ...]]

BATCH, LENGTH, WIDTH, HEADS = 2, 128, 256, 8


def normal(rng: Rng, *shape: int, scale: float = 1.0) -> Array:
    return jnp.asarray(rng.standard_normal(shape) * scale, jnp.float32)


def lecun(rng: Rng, *shape: int) -> Array:
    """By the root of what a unit sums up, as flax and haiku draw dense layers."""
    return normal(rng, *shape, scale=1 / math.sqrt(math.prod(shape[:-1])))


def tokens(rng: Rng) -> Array:
    return normal(rng, BATCH, LENGTH, WIDTH)


def ones(*shape: int) -> Array:
    return jnp.ones(shape, jnp.float32)


def zeros(*shape: int) -> Array:
    return jnp.zeros(shape, jnp.float32)


# Layers


def layer_norm(x: Array, w: Weights, eps: float = 1e-6) -> Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x), axis=-1, keepdims=True) - jnp.square(mean)
    return (x - mean) * jax.lax.rsqrt(variance + eps) * w["scale"] + w["bias"]


def rms_norm(x: Array, scale: Array, eps: float = 1e-6) -> Array:
    return scale * x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + eps)


def dense(x: Array, w: Weights) -> Array:
    return x @ w["kernel"] + w["bias"]


def split(x: Array, heads: int = HEADS) -> Array:
    """From `[batch, length, width]` to `[batch, heads, length, head]`."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def joined(x: Array) -> Array:
    batch, heads, length, head = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * head)


def attention(q: Array, k: Array, v: Array, mask: Array | None = None, scale: bool = True) -> Array:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k)
    if scale:
        scores = scores / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    return joined(jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v))


def self_attention(x: Array, w: Weights, mask: Array | None = None) -> Array:
    q, k, v = (split(dense(x, w[name])) for name in ("query", "key", "value"))
    return dense(attention(q, k, v, mask), w["out"])


def causal(length: int) -> Array:
    return jnp.tril(jnp.ones((length, length), bool))


# Their weights


def norm_weights(width: int = WIDTH) -> Weights:
    return {"scale": ones(width), "bias": zeros(width)}


def dense_weights(rng: Rng, rows: int, columns: int, scale: float | None = None) -> Weights:
    drawn = lecun(rng, rows, columns) if scale is None else normal(rng, rows, columns, scale=scale)
    return {"kernel": drawn, "bias": zeros(columns)}


def attention_weights(rng: Rng, scale: float | None = None) -> Weights:
    names = ("query", "key", "value", "out")
    return {name: dense_weights(rng, WIDTH, WIDTH, scale) for name in names}


def block_weights(rng: Rng, scale: float | None = None) -> Weights:
    """Of an attention and of a network of two layers, each with its norm."""
    return {
        "first norm": norm_weights(),
        "attention": attention_weights(rng, scale),
        "second norm": norm_weights(),
        "up": dense_weights(rng, WIDTH, 4 * WIDTH, scale),
        "down": dense_weights(rng, 4 * WIDTH, WIDTH, scale),
    }


# Transformers


def pre_norm_block(w: Weights, x: Array) -> Array:
    x = x + self_attention(layer_norm(x, w["first norm"]), w["attention"])
    hidden = jax.nn.gelu(dense(layer_norm(x, w["second norm"]), w["up"]))
    return x + dense(hidden, w["down"])


def transformer_block(rng: Rng) -> Made:
    """As in flax's examples: norms first, dense layers drawn by their fan-in."""
    return pre_norm_block, (block_weights(rng), tokens(rng))


def encoder(rng: Rng) -> Made:
    """Two such blocks and a last norm."""

    def encoder(w: Weights, x: Array) -> Array:
        for block in w["blocks"]:
            x = pre_norm_block(block, x)
        return layer_norm(x, w["norm"])

    blocks = [block_weights(rng) for _ in range(2)]
    return encoder, ({"blocks": blocks, "norm": norm_weights()}, tokens(rng))


def gpt2_block(rng: Rng) -> Made:
    """Queries, keys and values by one product; a causal mask; all drawn with deviation 0.02."""

    def gpt2_block(w: Weights, x: Array) -> Array:
        joint = dense(layer_norm(x, w["first norm"], 1e-5), w["joint"])
        q, k, v = map(split, jnp.split(joint, 3, axis=-1))
        x = x + dense(attention(q, k, v, causal(x.shape[1])), w["out"])
        hidden = dense(layer_norm(x, w["second norm"], 1e-5), w["up"])
        return x + dense(jax.nn.gelu(hidden, approximate=True), w["down"])

    weights = {
        "first norm": norm_weights(),
        "joint": dense_weights(rng, WIDTH, 3 * WIDTH, 0.02),
        "out": dense_weights(rng, WIDTH, WIDTH, 0.02),
        "second norm": norm_weights(),
        "up": dense_weights(rng, WIDTH, 4 * WIDTH, 0.02),
        "down": dense_weights(rng, 4 * WIDTH, WIDTH, 0.02),
    }
    return gpt2_block, (weights, tokens(rng))


def bert(w: Weights, x: Array, present: Array) -> Array:
    """Norms behind, and a mask of the words that are there."""
    mask = present[:, None, None, :] > 0
    x = layer_norm(x + self_attention(x, w["attention"], mask), w["first norm"], 1e-12)
    hidden = jax.nn.gelu(dense(x, w["up"]), approximate=False)
    return layer_norm(x + dense(hidden, w["down"]), w["second norm"], 1e-12)


def bert_arguments(rng: Rng) -> tuple[Weights, Array, Array]:
    lengths = rng.integers(LENGTH // 2, LENGTH + 1, BATCH)
    present = jnp.arange(LENGTH)[None, :] < jnp.asarray(lengths)[:, None]
    return block_weights(rng, 0.02), tokens(rng), present.astype(jnp.int32)


def bert_layer(rng: Rng) -> Made:
    return bert, bert_arguments(rng)


def rotated(x: Array, base: float = 10000.0) -> Array:
    """Rotary positions, by halves."""
    half = x.shape[-1] // 2
    rates = base ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = jnp.arange(x.shape[-2], dtype=jnp.float32)[:, None] * rates
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def llama_layer(rng: Rng) -> Made:
    """Rotary positions, two queries for a key, a gated network; drawn with deviation 0.02."""

    def llama_layer(w: Weights, x: Array) -> Array:
        h = rms_norm(x, w["first norm"], 1e-5)
        q = rotated(split(h @ w["query"]))
        k = rotated(split(h @ w["key"], HEADS // 2))
        v = split(h @ w["value"], HEADS // 2)
        k, v = jnp.repeat(k, 2, axis=1), jnp.repeat(v, 2, axis=1)
        x = x + attention(q, k, v, causal(x.shape[1])) @ w["out"]
        h = rms_norm(x, w["second norm"], 1e-5)
        return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]

    wide = 11 * WIDTH // 4
    shapes = {
        "query": (WIDTH, WIDTH),
        "key": (WIDTH, WIDTH // 2),
        "value": (WIDTH, WIDTH // 2),
        "out": (WIDTH, WIDTH),
        "gate": (WIDTH, wide),
        "up": (WIDTH, wide),
        "down": (wide, WIDTH),
    }
    weights = {name: normal(rng, *shape, scale=0.02) for name, shape in shapes.items()}
    norms = {"first norm": ones(WIDTH), "second norm": ones(WIDTH)}
    return llama_layer, ({**weights, **norms}, tokens(rng))


def t5_buckets(length: int, count: int = 32, farthest: int = 128) -> Array:
    """A bucket for each distance: exact ones nearby, then on a logarithmic scale."""
    distance = jnp.arange(length)[None, :] - jnp.arange(length)[:, None]
    half, exact = count // 2, count // 4
    size = jnp.abs(distance)
    share = jnp.log(jnp.maximum(size, 1) / exact) / math.log(farthest / exact)
    far = jnp.minimum(exact + (share * (half - exact)).astype(jnp.int32), half - 1)
    return jnp.where(distance > 0, half, 0) + jnp.where(size < exact, size, far)


def t5_layer(rng: Rng) -> Made:
    """Scores are not scaled, and a learned bias is added for each distance."""

    def t5_layer(w: Weights, x: Array) -> Array:
        h = rms_norm(x, w["first norm"])
        q, k, v = (split(h @ w[name]) for name in ("query", "key", "value"))
        bias = w["distances"][t5_buckets(x.shape[1])].transpose(2, 0, 1)
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) + bias
        x = x + joined(jax.nn.softmax(scores, axis=-1) @ v) @ w["out"]
        h = rms_norm(x, w["second norm"])
        return x + jax.nn.relu(h @ w["up"]) @ w["down"]

    root, head = 1 / math.sqrt(WIDTH), WIDTH // HEADS
    weights = {
        # By width and head, since the scores are not divided by anything.
        "query": normal(rng, WIDTH, WIDTH, scale=1 / math.sqrt(WIDTH * head)),
        **{name: normal(rng, WIDTH, WIDTH, scale=root) for name in ("key", "value", "out")},
        "distances": normal(rng, 32, HEADS, scale=root),
        "up": normal(rng, WIDTH, 4 * WIDTH, scale=root),
        "down": normal(rng, 4 * WIDTH, WIDTH, scale=root / 2),
        "first norm": ones(WIDTH),
        "second norm": ones(WIDTH),
    }
    return t5_layer, (weights, tokens(rng))


def attention_block(rng: Rng) -> Made:
    """As in haiku's example of a transformer: `x + attention(layer_norm(x))`."""

    def attention_block(w: Weights, x: Array) -> Array:
        return x + self_attention(layer_norm(x, w["norm"], 1e-5), w["attention"])

    weights = {"norm": norm_weights(), "attention": attention_weights(rng)}
    return attention_block, (weights, tokens(rng))


def vit_block(rng: Rng) -> Made:
    """A picture is cut into patches, which are projected, and go through a block."""
    patch, size = 16, 128

    def vit_block(w: Weights, pictures: Array) -> Array:
        batch, height, width, channels = pictures.shape
        rows, columns = height // patch, width // patch
        cut = pictures.reshape(batch, rows, patch, columns, patch, channels)
        patches = cut.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows * columns, -1)
        return pre_norm_block(w["block"], dense(patches, w["patches"]) + w["places"])

    weights = {
        "patches": dense_weights(rng, patch * patch * 3, WIDTH),
        "places": normal(rng, (size // patch) ** 2, WIDTH, scale=0.02),
        "block": block_weights(rng),
    }
    return vit_block, (weights, normal(rng, 4, size, size, 3))


# Others


def batch_norm(x: Array, w: Weights) -> Array:
    """With the moments that training left."""
    return (x - w["mean"]) * (jax.lax.rsqrt(w["variance"] + 1e-5) * w["scale"]) + w["bias"]


def convolution(x: Array, kernel: Array) -> Array:
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)


def resnet_block(rng: Rng) -> Made:
    """Two convolutions of 3 by 3 with 64 channels, each normalised; drawn as He has it."""
    channels = 64

    def resnet_block(w: Weights, x: Array) -> Array:
        h = jax.nn.relu(batch_norm(convolution(x, w["first"]), w["first norm"]))
        return jax.nn.relu(x + batch_norm(convolution(h, w["second"]), w["second norm"]))

    def moments() -> Weights:
        spread = jnp.asarray(rng.uniform(0.5, 1.5, channels), jnp.float32)
        return {**norm_weights(channels), "mean": normal(rng, channels), "variance": spread}

    scale = math.sqrt(2 / (9 * channels))
    weights = {
        "first": normal(rng, 3, 3, channels, channels, scale=scale),
        "second": normal(rng, 3, 3, channels, channels, scale=scale),
        "first norm": moments(),
        "second norm": moments(),
    }
    return resnet_block, (weights, normal(rng, 4, 28, 28, channels))


def mlp_mixer(rng: Rng) -> Made:
    """Mixes patches, then channels."""

    def mixed(w: Weights, name: str, x: Array) -> Array:
        return dense(jax.nn.gelu(dense(x, w[f"{name} up"])), w[f"{name} down"])

    def mlp_mixer(w: Weights, x: Array) -> Array:
        h = layer_norm(x, w["first norm"]).swapaxes(1, 2)
        x = x + mixed(w, "patches", h).swapaxes(1, 2)
        return x + mixed(w, "channels", layer_norm(x, w["second norm"]))

    weights = {
        "first norm": norm_weights(),
        "patches up": dense_weights(rng, 64, 128),
        "patches down": dense_weights(rng, 128, 64),
        "second norm": norm_weights(),
        "channels up": dense_weights(rng, WIDTH, 4 * WIDTH),
        "channels down": dense_weights(rng, 4 * WIDTH, WIDTH),
    }
    return mlp_mixer, (weights, normal(rng, 4, 64, WIDTH))


def lstm(rng: Rng) -> Made:
    """A scan over time; the gates are input, forget, cell and output."""

    def lstm(w: Weights, x: Array) -> Array:
        def step(carry: tuple[Array, Array], now: Array) -> tuple[tuple[Array, Array], Array]:
            cell, hidden = carry
            gates = now @ w["input"] + hidden @ w["hidden"] + w["bias"]
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (cell, hidden), hidden

        start = jnp.zeros((x.shape[0], WIDTH), x.dtype)
        return jax.lax.scan(step, (start, start), x.swapaxes(0, 1))[1].swapaxes(0, 1)

    weights = {
        "input": lecun(rng, WIDTH, 4 * WIDTH),
        "hidden": lecun(rng, WIDTH, 4 * WIDTH),
        "bias": zeros(4 * WIDTH),
    }
    return lstm, (weights, normal(rng, 8, 32, WIDTH))


def gru(rng: Rng) -> Made:
    """A scan over time; the gates are reset, update and new."""

    def gru(w: Weights, x: Array) -> Array:
        def step(hidden: Array, now: Array) -> tuple[Array, Array]:
            r, z, n = jnp.split(now @ w["input"] + w["bias"], 3, axis=-1)
            hr, hz, hn = jnp.split(hidden @ w["hidden"], 3, axis=-1)
            r, z = jax.nn.sigmoid(r + hr), jax.nn.sigmoid(z + hz)
            hidden = (1 - z) * jnp.tanh(n + r * (hn + w["new bias"])) + z * hidden
            return hidden, hidden

        start = jnp.zeros((x.shape[0], WIDTH), x.dtype)
        return jax.lax.scan(step, start, x.swapaxes(0, 1))[1].swapaxes(0, 1)

    weights = {
        "input": lecun(rng, WIDTH, 3 * WIDTH),
        "hidden": lecun(rng, WIDTH, 3 * WIDTH),
        "bias": zeros(3 * WIDTH),
        "new bias": zeros(WIDTH),
    }
    return gru, (weights, normal(rng, 8, 32, WIDTH))


# Training steps: a loss with its gradient by the weights


def mlp_loss(rng: Rng) -> Made:
    """Three layers, and the squared error of ten outputs."""

    def loss(layers: list[Weights], x: Array, y: Array) -> Array:
        for layer in layers[:-1]:
            x = jax.nn.relu(dense(x, layer))
        return jnp.mean((dense(x, layers[-1]) - y) ** 2)

    sizes = (784, 256, 256, 10)
    layers = [dense_weights(rng, rows, columns) for rows, columns in pairwise(sizes)]
    arguments = (layers, normal(rng, 128, 784), normal(rng, 128, 10))
    return jax.value_and_grad(loss), arguments


def encoder_loss(rng: Rng) -> Made:
    """A block, a mean over the tokens, and the squared error of a projection."""

    def loss(w: Weights, x: Array, y: Array) -> Array:
        pooled = jnp.mean(pre_norm_block(w["block"], x), axis=1)
        return jnp.mean((dense(pooled, w["head"]) - y) ** 2)

    weights = {"block": block_weights(rng), "head": dense_weights(rng, WIDTH, 16)}
    return jax.value_and_grad(loss), (weights, tokens(rng), normal(rng, BATCH, 16))


def bert_loss(rng: Rng) -> Made:
    """A layer of BERT, and the squared error of its outputs."""

    def loss(w: Weights, x: Array, present: Array, y: Array) -> Array:
        return jnp.mean((bert(w, x, present) - y) ** 2)

    return jax.value_and_grad(loss), (*bert_arguments(rng), tokens(rng))
