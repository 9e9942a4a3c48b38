"""Operators that programs have beside sums and products: which are parts of programs, judged
against themselves, and which stay with JAX while all around them is searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.linalg import solve_triangular

from aiosearch.equivalence.floats import compare_floats
from aiosearch.optimizer.trace.traced import CutFunction, cut

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(6, 5)).astype(np.float32)
SQUARE = RANDOM.normal(size=(6, 6)).astype(np.float32)
ROWS = np.array([0, 5, 2, 3, 3, 1], np.int32)
IMAGE = RANDOM.normal(size=(1, 6, 6, 4)).astype(np.float32)
WEIGHTS = RANDOM.normal(size=(5, 20)).astype(np.float32)


def cross_entropy(logits: Any, labels: Any) -> Any:
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def grouped(image: Any, filters: Any, groups: int) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    convolved = lax.conv_general_dilated(
        image, filters, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=groups
    )
    return jnp.tanh(convolved)


def lstm(x: Any, w: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        hidden, cell = state
        gates = jnp.split(row @ w + hidden @ w, 4)
        cell = jax.nn.sigmoid(gates[0]) * cell + jax.nn.sigmoid(gates[1]) * jnp.tanh(gates[2])
        hidden = jax.nn.sigmoid(gates[3]) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return lax.scan(step, (x[0], x[0]), x)[1]


def returns(rewards: Any, discounts: Any) -> Any:
    """Lambda returns, from the last step back."""

    def step(after: Any, now: Any) -> Any:
        after = now[0] + jnp.tanh(now[1]) * after * 0.9
        return after, after

    return lax.scan(step, jnp.zeros(5), (rewards, discounts), reverse=True)[1]


@jax.custom_jvp
def own_slope(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x)) * x


own_slope.defjvp(lambda primals, tangents: (own_slope(*primals), tangents[0]))


def focal(logits: Any, labels: Any) -> Any:
    likely = jax.nn.sigmoid(logits)
    loss = -(labels * jax.nn.log_sigmoid(logits) + (1 - labels) * jax.nn.log_sigmoid(-logits))
    return loss * (1 - likely * labels - (1 - likely) * (1 - labels)) ** 2


def alignment(logits: Any, labels: Any) -> Any:
    """The loss of connectionist temporal classification, without padding; label 0 is a blank."""
    scores = jax.nn.log_softmax(logits)
    blank = scores[:, 0]
    emitted = scores @ jax.nn.one_hot(labels, scores.shape[1]).T
    repeated = jnp.concatenate([labels[1:] == labels[:-1], jnp.array([False])])
    start = jnp.full(labels.size + 1, -1e5).at[0].set(0.0)

    def step(before: Any, now: Any) -> Any:
        empty, label = before
        off, on = now
        moved = label + jnp.where(repeated, -1e5, 0.0)
        emitting = jnp.logaddexp(jnp.logaddexp(empty[:-1], moved) + on, label + on)
        waiting = jnp.logaddexp(empty, jnp.concatenate([jnp.full(1, -1e5), label])) + off
        return (waiting, emitting), None

    (empty, label), _ = lax.scan(step, (start, start[1:]), (blank, emitted))
    return -jnp.logaddexp(empty[-1], label[-1])


READ: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "embeddings of few rows": (lambda x, i: jnp.tanh(x[i] * 2), (X, ROWS)),
    "integer labels": (cross_entropy, (X, ROWS % 5)),
    "gradient of integer labels": (jax.grad(cross_entropy), (X, ROWS % 5)),
    "scatter-add": (lambda x, i: x.at[i].add(jnp.tanh(x) * 2), (X, ROWS)),
    "segment sums": (lambda x, i: jax.ops.segment_sum(jnp.tanh(x), i, 6) * 2, (X, ROWS)),
    "segment maxima": (lambda x, i: jax.ops.segment_max(jnp.tanh(x), i, 6) * 2, (X, ROWS)),
    "segment minima": (lambda x, i: jax.ops.segment_min(jnp.tanh(x), i, 6) * 2, (X, ROWS)),
    "cumsum": (lambda x: jnp.cumsum(jnp.tanh(x), 1) * 2, (X,)),
    "cummax": (lambda x: lax.cummax(jnp.tanh(x), 1) * 2, (X,)),
    "cumprod": (lambda x: jnp.cumprod(jnp.tanh(x), 1) * 2, (X,)),
    "argmax": (lambda x: jnp.argmax(x @ x, 1), (SQUARE,)),
    "top_k": (lambda x: lax.top_k(jax.nn.softmax(x), 2), (X,)),
    "sort": (lambda x: jnp.sort(jnp.tanh(x), 1) * 2, (X,)),
    "argsort": (lambda x: jnp.argsort(x @ x, 1), (SQUARE,)),
    "quantile": (lambda x: jnp.median(jnp.tanh(x) * 2, 1), (X,)),
    "grouped convolution": (
        lambda x, w: grouped(x, w, 2), (IMAGE, RANDOM.normal(size=(3, 3, 2, 4)).astype("f"))
    ),
    "depthwise convolution": (
        lambda x, w: grouped(x, w, 4), (IMAGE, RANDOM.normal(size=(3, 3, 1, 4)).astype("f"))
    ),
    "rem": (lambda x: lax.rem(jnp.tanh(x) * 7, jnp.float32(2.5)) * 2, (X,)),
    "modulo": (lambda x, y: jnp.tanh(x) * 7 % (y * y + 1), (X, X)),
    "whole modulo": (lambda x, i: jnp.where(i[:, None] % 3 == 1, jnp.tanh(x), x), (X, ROWS)),
    "lgamma": (lambda x: lax.lgamma(x * x + 1) * 2, (X,)),
    "gradient of lgamma": (jax.grad(lambda x: jnp.sum(lax.lgamma(x * x + 1))), (X,)),
    "whole powers": (lambda x, i: jnp.tanh(x) * jnp.float32(0.9) ** i[:, None], (X, ROWS)),
    "LSTM": (lstm, (X, WEIGHTS)),
    "lambda returns": (returns, (X, X)),
    "ODE steps": (lambda x: lax.fori_loop(0, 40, lambda i, y: y + jnp.sin(y @ x) / 9, x),
        (SQUARE,),
),
    "while": (
        lambda x: lax.while_loop(lambda y: jnp.sum(y * y) < 9, lambda y: jnp.tanh(y) * 2, x), (X,)
    ),
    "branch": (lambda x: lax.cond(x[0, 0] > 0, lambda x: jnp.tanh(x) * x, jnp.sin, x), (X,)),
    "own derivative": (lambda x: own_slope(jnp.tanh(x)) * 2, (X,)),
    "focal loss": (focal, (X, (X > 0).astype(np.float32))),
    "gradient of the focal loss": (
        jax.grad(lambda x, y: jnp.sum(focal(x, y))), (X, (X > 0).astype(np.float32))
    ),
    "alignment": (alignment, (X, np.array([1, 2, 2], np.int32))),
}  # fmt: skip
"""What is a part of a program."""


@pytest.mark.parametrize("name", READ)
def test_it_is_a_part_of_a_program_which_is_judged(name: str) -> None:
    """On inputs drawn and within twenty seconds each program agrees with itself."""
    function, arguments = READ[name]
    made = cut(function, *arguments)
    assert not made.left_alone
    assert made.subjects
    for subject in made.subjects:
        evidence = compare_floats(subject.program, subject.program, seconds=20)
        assert evidence.outcome == "agree", evidence
        assert "left out" not in evidence.remark


TABLE = np.ones((64, 5), np.float32)
KEY = jax.random.key(0)


def sharply(x: Any) -> Any:
    """A function with derivatives of its own of which a part is no part of any program."""
    return jnp.sort(x, 0) * 2


own_rule = jax.custom_vjp(sharply)
own_rule.defvjp(lambda x: (sharply(x), x), lambda x, slope: (slope * x,))
LONG = RANDOM.normal(size=(64, 5)).astype(np.float32)

LEFT: dict[str, tuple[str, Callable[..., Any], tuple[Any, ...]]] = {
    "sorted": ("sort (of 64 elements)", lambda x: jnp.sort(x, 0), (LONG,)),
    "products": ("cumprod (of 64 elements)", lambda x: jnp.cumprod(x, 0), (LONG,)),
    "rows": (
        "gather (along an axis of 64, which XLA does best)",
        lambda x, i: x[i[:, None] + jnp.arange(6)],
        (LONG, ROWS),
    ),
    "segments": (
        "scatter-max (along an axis of 99, which XLA does best)",
        lambda x, i: jax.ops.segment_max(x, i, 99),
        (X, ROWS),
    ),
    "drawn numbers": ("no element type key", lambda x: x + jax.random.uniform(KEY, (6, 5)), (X,)),
    "frequencies": ("fft", lambda x: jnp.abs(jnp.fft.rfft(x)), (X,)),
    "factors": (
        "cholesky",
        lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(6)),
        (SQUARE,),
    ),
    "solution": (
        "triangular_solve", lambda x: solve_triangular(x + 9 * jnp.eye(6), x, lower=True), (SQUARE,)
    ),
    "own derivative": ("custom_vjp_call (of 64 elements)", own_rule, (LONG,)),
}  # fmt: skip
"""What stays with JAX: what the reason says, and the function."""


def around(function: Callable[..., Any], *arguments: Any) -> CutFunction:
    """The function between two others that are searched."""

    def whole(x: Any, *others: Any) -> Any:
        result = function(jnp.tanh(x) * 2, *others)
        return jnp.sin(result) * result

    return cut(whole, *arguments)


@pytest.mark.parametrize("name", LEFT)
def test_it_stays_with_jax_and_what_is_around_it_is_searched(name: str) -> None:
    reason, function, arguments = LEFT[name]
    made = around(function, *arguments)
    assert any(reason in sentence for sentence in made.left_alone), made.left_alone
    searched = {step.primitive.name for region in made.regions for step in region.jaxpr.eqns}
    assert {"tanh", "sin"} <= searched
