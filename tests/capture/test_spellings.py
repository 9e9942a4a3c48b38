"""What users write in JAX computes the same after it was read as a tensor program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aiosearch.capture import capture
from aiosearch.tensor.referee import run

Shapes = tuple[tuple[int, ...], ...]
CASES: dict[str, tuple[Callable[..., Any], Shapes]] = {}


def case(*shapes: tuple[int, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = (function, shapes)
        return function

    return add


def one_line(name: str, function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    CASES[name] = (function, shapes)


# Pointwise

for _name, _function in {
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "leaky_relu": jax.nn.leaky_relu,
    "elu": jax.nn.elu,
    "selu": jax.nn.selu,
    "celu": jax.nn.celu,
    "silu": jax.nn.silu,
    "sigmoid": jax.nn.sigmoid,
    "hard_swish": jax.nn.hard_swish,
    "hard_tanh": jax.nn.hard_tanh,
    "softplus": jax.nn.softplus,
    "log_sigmoid": jax.nn.log_sigmoid,
    "soft_sign": jax.nn.soft_sign,
    "mish": jax.nn.mish,
    "gelu_tanh": jax.nn.gelu,
    "gelu_erf": lambda x: jax.nn.gelu(x, approximate=False),
    "squareplus": jax.nn.squareplus,
    "sin_cos_tan": lambda x: jnp.sin(x) + jnp.cos(x) * jnp.tan(x / 4),
    "sign_floor": lambda x: jnp.sign(x) * jnp.floor(x) + jnp.ceil(x) - jnp.round(x),
    "truncated": lambda x: (3 * x).astype(jnp.int32).astype(jnp.float32) + jnp.trunc(x),
    "powers": lambda x: x**3 + jnp.abs(x) ** 1.5 + jnp.power(jnp.abs(x) + 1, -2),
    "exponentials": lambda x: jnp.exp2(x) + 3.0**x + jnp.expm1(x) - jnp.log1p(jnp.abs(x)),
    "hyperbolic": lambda x: jnp.sinh(x) - jnp.cosh(x / 2),
    "logarithms": lambda x: jnp.log2(jnp.abs(x) + 1) + jnp.log10(jnp.exp(x)),
    "polynomial": lambda x: jnp.polyval(jnp.array([1.0, -2.0, 3.0]), x),
    "one_hot": lambda x: jax.nn.one_hot(jnp.round(x[:, 0]).astype(int) + 1, 4) @ x[:1, :4].T,
    "pow_of_two": lambda x: jnp.power(jnp.abs(x) + 1, x),
    "clipped": lambda x: jnp.clip(x, -0.5, 0.25) + jnp.minimum(x, 0.0),
    "clipped_below": lambda x: jnp.clip(x, jnp.sin(x), None),
    "lax_clamp": lambda x: lax.clamp(-0.5, x, 0.5) + lax.clamp(x, x * 2, x + 1),
    "where": lambda x: jnp.where((x > 0) & (x < 1) | (x < -1), x, 0.5 * x),
    "logic": lambda x: jnp.where(~(x >= 0) ^ (x <= -1), 2.0, jnp.where(x != 0, x, 1.0)),
    "truth_as_numbers": lambda x: (x > 0).astype(jnp.float32) * x + x.astype(bool),
    "where_nan": lambda x: jnp.where(jnp.isnan(x), 0.0, x) + jnp.nan_to_num(x),
    "logaddexp": lambda x: jnp.logaddexp(x, 2 * x),
    "reciprocals": lambda x: jnp.reciprocal(x) + lax.rsqrt(x * x + 1) + 1 / (1 + jnp.sqrt(abs(x))),
    "bf16_inside": lambda x: (x.astype(jnp.bfloat16).astype(jnp.float32) - x) * 0 + x,
}.items():
    one_line(_name, _function, (3, 5))

# Reductions, norms, losses

for _name, _function in {
    "sum": lambda x: jnp.sum(x, axis=-1),
    "sum_all": jnp.sum,
    "sum_twice": lambda x: x.sum(axis=(0, 2), keepdims=True),
    "mean": lambda x: jnp.mean(x, axis=1, keepdims=True),
    "var": lambda x: jnp.var(x, axis=-1),
    "std_sample": lambda x: jnp.std(x, axis=-1, ddof=1),
    "max_min": lambda x: x.max(axis=-1) - x.min(axis=(0, 1))[0] + jnp.ptp(x),
    "any_all": lambda x: jnp.where(jnp.any(x > 1, axis=0), 1.0, 2.0) * jnp.all(x > -9),
    "count": lambda x: jnp.sum(x > 0, axis=-1) + jnp.count_nonzero(x),
    "norm": lambda x: jnp.linalg.norm(x, axis=-1),
    "normalised": lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True),
    "average": lambda x: jnp.average(x, axis=0, weights=jnp.array([0.2, 0.8])),
    "softmax": jax.nn.softmax,
    "softmax_axis": lambda x: jax.nn.softmax(x, axis=(1, 2)),
    "softmax_masked": lambda x: jax.nn.softmax(x, where=x > -1),
    "log_softmax": jax.nn.log_softmax,
    "logsumexp": lambda x: jax.nn.logsumexp(x, axis=-1),
    "logsumexp_scipy": lambda x: jax.scipy.special.logsumexp(x, axis=0, b=x * x),
    "naive_softmax": lambda x: jnp.exp(x) / jnp.sum(jnp.exp(x), axis=-1, keepdims=True),
    "standardize": jax.nn.standardize,
    "rms_norm": lambda x: x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6),
    "entropy": lambda x: -jnp.sum(jax.nn.softmax(x) * jax.nn.log_softmax(x), axis=-1),
    "gradient": jax.grad(lambda x: jnp.sum(jax.nn.softmax(x) ** 2)),
    "gradient_gelu": jax.grad(lambda x: jnp.mean(jax.nn.gelu(x)[:, 1:])),
    "rematerialised": jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.tanh(x) * x))),
    "vmapped": jax.vmap(lambda x: x @ x.T / jnp.sum(x)),
    "named_tuple_of_outputs": lambda x: {"a": x[0], "b": (x.sum(), x[1] * 2)},
}.items():
    one_line(_name, _function, (2, 4, 4))


@case((4, 7), (7,), (7,))
def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


@case((4, 7), (4, 7))
def cross_entropy(logits: Any, targets: Any) -> Any:
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.softmax(targets), axis=-1))


@case((4, 7), (4, 7))
def huber(x: Any, y: Any) -> Any:
    error = jnp.abs(x - y)
    return jnp.mean(jnp.where(error < 1.0, 0.5 * error**2, error - 0.5))


@case((4, 7), (4, 7))
def cosine_similarity(x: Any, y: Any) -> Any:
    return jnp.vecdot(x, y) / (jnp.linalg.norm(x, axis=1) * jnp.linalg.norm(y, axis=1))


@case((6, 3))
def contrastive(x: Any) -> Any:
    scores = x @ x.T - 1e9 * jnp.eye(6)
    return jnp.mean(jax.nn.logsumexp(scores, axis=1) - jnp.diag(scores, 1).sum())


# Moving elements

for _name, _function in {
    "transposes": lambda x: x.T + jnp.swapaxes(x, 0, 1),
    "moveaxis": lambda x: jnp.moveaxis(x[:, None, :], 0, 2),
    "reshapes": lambda x: x.reshape(2, 18).reshape(-1, 9, order="C")[None],
    "flattened": lambda x: x.ravel()[:7],
    "slices": lambda x: x[:, :3] * x[1:2, 3:] + x[::2, ::2][0, 1],
    "one_row": lambda x: x[2] + x[-1] * x[1, 3],
    "ellipsis": lambda x: x[..., 0] + x[..., -1],
    "newaxis": lambda x: x[:, None] * x[None, :, :],
    "split": lambda x: sum(jnp.split(x, 3, axis=1)),
    "split_at": lambda x: jnp.concatenate(jnp.split(x, [1, 4])[::-1]),
    "unpacked": lambda x: [row * 2 for row in x][3],
    "stacked": lambda x: jnp.stack([x, x * 2, jnp.zeros_like(x)], axis=1),
    "stacks": lambda x: jnp.hstack([x, jnp.vstack([x[:3], jnp.ones((3, 6))])]),
    "repeated": lambda x: jnp.repeat(x, 2, axis=0) + jnp.tile(x, (2, 1)),
    "tiled": lambda x: jnp.tile(x, (2, 3)),
    "broadcast": lambda x: jnp.broadcast_to(x[0], (3, 6)) + jnp.full((3, 1), 2.0),
    "rolled": lambda x: jnp.roll(x, 2, axis=1),
    "padded": lambda x: jnp.pad(x, ((1, 0), (2, 3)), constant_values=2.5),
    "padded_endless": lambda x: jnp.exp(jnp.pad(x, 1, constant_values=-jnp.inf)),
    "spread": lambda x: lax.pad(x, 1.5, ((0, 1, 2), (-1, 0, 1))),
    "gradient_of_steps": jax.grad(lambda x: jnp.sum(x[1:4:2, ::3] ** 2)),
    "running_sum": lambda x: lax.associative_scan(jnp.add, x),
    "cropped": lambda x: lax.pad(x, 0.0, ((-1, 2, 0), (0, -2, 0))),
    "diagonals": lambda x: jnp.diagonal(x) + jnp.diag(x),
    "offset_diagonals": lambda x: jnp.diagonal(x, 1) + jnp.diag(x, -1),
    "diagonal_of_many": lambda x: jnp.diagonal(x.reshape(3, 3, 4), axis1=0, axis2=1),
    "diag_matrix": lambda x: jnp.diag(x[0]) @ x,
    "trace": jnp.trace,
    "triangles": lambda x: jnp.tril(x) + 2 * jnp.triu(x, 1),
    "diagonal_by_einsum": lambda x: jnp.einsum("ii->i", x) + jnp.einsum("ij,ij->i", x, x),
    "arange": lambda x: x * jnp.arange(6) + jnp.linspace(0.0, 1.0, 6)[:, None],
    "mask_by_iota": lambda x: jnp.where(jnp.arange(6)[:, None] >= jnp.arange(6), x, -jnp.inf),
    "dynamic": lambda x: (
        lax.dynamic_slice(x, (1, 2), (3, 3)) + lax.dynamic_index_in_dim(x, 0)[:, 1]
    ),
    "take": lambda x: jnp.take(x, 3, axis=1) + x.at[0].get(),
    "strided_places": lambda x: x[np.arange(0, 6, 2)] + jnp.take(x, jnp.arange(3), axis=0),
    "placed_pairs": lambda x: x[np.arange(5), np.arange(5) + 1],
    "loops": lambda x: lax.scan(lambda c, row: (c + row, c * row), x[0], x, reverse=True),
    "mapped": lambda x: lax.map(lambda row: row / row.sum(), x),
    "updated": lambda x: lax.dynamic_update_slice(x, 2 * x[:2, 1:4], (1, 7)),
    "squeezed": lambda x: jnp.squeeze(x[None, :, :1], (0, 2)) + jnp.expand_dims(x, 0)[0, 0],
    "constants": lambda x: x @ np.arange(12.0, dtype=np.float32).reshape(6, 2) ** 0.5,
    "constant_everywhere": lambda x: x + np.full((6, 6), 0.25, np.float32),
}.items():
    one_line(_name, _function, (6, 6))

# Products

for _name, _spec, _shapes in [
    ("einsum_matmul", "ij,jk->ik", ((3, 4), (4, 5))),
    ("einsum_turned", "ji,kj->ki", ((4, 3), (5, 4))),
    ("einsum_batch", "bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
    ("einsum_batch_last", "ijb,jkb->bki", ((3, 4, 2), (4, 5, 2))),
    ("einsum_heads", "bqhd,bkhd->bhqk", ((2, 3, 2, 4), (2, 5, 2, 4))),
    ("einsum_two_sums", "aij,ijb->ab", ((2, 3, 4), (3, 4, 5))),
    ("einsum_outer", "i,jk->jik", ((3,), (4, 2))),
    ("einsum_summed_out", "ij,k->k", ((3, 4), (5,))),
    ("einsum_bilinear", "bi,ijk,bj->bk", ((2, 3), (3, 4, 5), (2, 4))),
    ("einsum_chain", "ab,bc,cd,de->ae", ((2, 3), (3, 4), (4, 2), (2, 5))),
    ("einsum_vectors", "i,i->", ((5,), (5,))),
]:
    one_line(_name, lambda *xs, spec=_spec: jnp.einsum(spec, *xs), *_shapes)
for _name, _function, _shapes in [
    ("outer", jnp.outer, ((3,), (4,))),
    ("vector_matrix", lambda v, m: v @ m, ((3,), (3, 4))),
    ("matrix_vector", lambda m, v: m @ v, ((4, 3), (3,))),
    ("tensordot", lambda x, y: jnp.tensordot(x, y, 2), ((2, 3, 4), (3, 4, 5))),
    ("batched_broadcast", jnp.matmul, ((2, 1, 3, 4), (5, 4, 2))),
    ("kron", jnp.kron, ((2, 3), (3, 2))),
    (
        "half_product",
        lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32),
        ((3, 4), (4, 5)),
    ),
    ("distances", lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1), ((3, 4), (5, 4))),
    ("low_rank", lambda x, w, a, b: x @ w + 2.0 * (x @ a) @ b, ((3, 4), (4, 5), (4, 2), (2, 5))),
]:
    one_line(_name, _function, *_shapes)


@case((4, 6), (6, 8), (6, 8), (8, 6))
def gated_mlp(x: Any, gate: Any, up: Any, down: Any) -> Any:
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


@case((2, 5, 2, 4), (2, 5, 2, 4), (2, 5, 2, 4))
def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((5, 5), dtype=bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


one_line("library_attention", jax.nn.dot_product_attention, *((2, 5, 2, 4),) * 3)
one_line(
    "causal_attention",
    lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
    (2, 5, 4, 4), (2, 5, 2, 4), (2, 5, 2, 4),
)  # fmt: skip


@case((4, 3), (6, 3), (6, 5))
def online_softmax(q: Any, k: Any, v: Any) -> Any:
    def step(i: Any, state: Any) -> Any:
        most, total, found = state
        keys = lax.dynamic_slice_in_dim(k, 2 * i, 2)
        scores = q @ keys.T
        more = jnp.maximum(most, scores.max(-1, keepdims=True))
        weights = jnp.exp(scores - more)
        past = jnp.exp(most - more)
        values = weights @ lax.dynamic_slice_in_dim(v, 2 * i, 2)
        return more, past * total + weights.sum(-1, keepdims=True), past * found + values

    start = jnp.full((4, 1), -1e30), jnp.zeros((4, 1)), jnp.zeros((4, 5))
    _, total, found = lax.fori_loop(0, 3, step, start)
    return found / total


@case((1, 4, 2, 6))
def rotary(x: Any) -> Any:
    angles = jnp.arange(4)[:, None] / 10000 ** (jnp.arange(3) / 3)
    left, right = jnp.split(x, 2, axis=-1)
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    return jnp.concatenate([left * cos - right * sin, left * sin + right * cos], axis=-1)


@case((2, 8, 9, 3), (3, 2, 3, 5), (5,))
def convolution(x: Any, w: Any, bias: Any) -> Any:
    found = lax.conv_general_dilated(
        x, w, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jax.nn.relu(found + bias)


@case((2, 3, 8, 9), (5, 3, 3, 2))
def convolution_of_channels_first(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), ((1, 0), (0, 2)), rhs_dilation=(2, 1))


one_line(
    "transposed_convolution",
    lambda x, w: lax.conv_transpose(x, w, (2, 1), "SAME"),
    (1, 4, 3, 2), (3, 2, 2, 3),
)  # fmt: skip
one_line(
    "gradient_of_convolution",
    jax.grad(lambda w, x: jnp.sum(lax.conv_general_dilated(x, w, (2, 2), "VALID") ** 2)),
    (2, 3, 3, 3), (1, 3, 8, 8),
)  # fmt: skip
for _name, _operation, _start in [
    ("max_pool", lax.max, -np.inf),
    ("min_pool", lax.min, np.inf),
    ("sum_pool", lax.add, 0.0),
]:
    one_line(
        _name,
        lambda x, op=_operation, start=_start: lax.reduce_window(
            x, start, op, (1, 2, 3, 1), (1, 2, 1, 1), "SAME", window_dilation=(1, 1, 2, 1)
        ),
        (2, 5, 6, 3),
    )
one_line("signal", lambda x, w: jnp.convolve(x, w, mode="valid"), (9,), (3,))


def _inputs(shapes: Shapes) -> list[np.ndarray]:
    random = np.random.default_rng(7)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("name", CASES)
def test_a_captured_function_computes_what_jax_computes(name: str) -> None:
    function, shapes = CASES[name]
    inputs = _inputs(shapes)
    captured = capture(function, *inputs)
    expected = jax.tree_util.tree_leaves(jax.jit(function)(*inputs))
    found = run(captured.program, [*inputs, *captured.constants.values()])
    for one, other, term in zip(found, expected, captured.program.outputs, strict=True):
        assert term.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
