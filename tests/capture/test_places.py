"""Gathers, scatters and places of the largest, as jax computes them: ties, NaN and indices that
are outside of their axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.capture import capture
from aiosearch.optimizer.candidates.jax_source import emit, names
from aiosearch.tensor import Program
from aiosearch.tensor.referee import run

X = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(4, 6, 5)).astype(np.float32)
ROWS = np.array([0, 5, -1, 7, 2, -9, 3], np.int32)
"""Some of them outside of an axis of six, on both sides."""
LABELS = np.array([4, 0, -1, 9, 2, -8], np.int32)
TABLE = np.stack([LABELS, LABELS[::-1]], 1)
TABLE3 = np.random.default_rng(3).integers(-1, 4, (6, 5)).astype(np.int32)
UPDATES = np.random.default_rng(2).normal(size=(7, 5)).astype(np.float32)

GATHERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rows": (lambda x, i: x[i], (X, ROWS)),
    "rows of a table of rows": (lambda x, i: x[i], (X, TABLE)),
    "columns": (lambda x, i: x[:, i], (X, LABELS)),
    "filled": (lambda x, i: jnp.take(x, i, axis=0), (X, ROWS)),
    "filled columns": (lambda x, i: jnp.take(x, i, axis=1), (X, LABELS)),
    "clipped": (lambda x, i: jnp.take(x, i, axis=1, mode="clip"), (X, TABLE)),
    "wrapped": (lambda x, i: jnp.take(x, i, axis=0, mode="wrap"), (X, ROWS)),
    "filled with a number": (
        lambda x, i: x.at[i].get(mode="fill", fill_value=3.0),
        (X, ROWS),
    ),
    "whole numbers": (lambda x, i: jnp.take(x, i, axis=0, mode="clip"), (TABLE, ROWS)),
    "labels": (lambda x, i: jnp.take_along_axis(x, i[:, None], 1), (X, LABELS)),
    "several labels": (lambda x, i: jnp.take_along_axis(x, i, 1), (X, TABLE)),
    "labels by row": (lambda x, i: x[jnp.arange(6), i], (X, LABELS)),
    "labels in a batch": (
        lambda x, i: jnp.take_along_axis(x, i[None, :, None], 2)[..., 0],
        (Y, LABELS),
    ),
    "batched": (jax.vmap(lambda x, i: x[i], (0, 0)), (X, LABELS)),
    "batched rows": (jax.vmap(lambda x, i: x[i], (0, None)), (Y, ROWS)),
    "in the middle": (lambda x, i: x[:, i], (Y, ROWS)),
    "neighbours, an edge its own": (
        lambda x: x[:, jnp.maximum(jnp.arange(5) - 1, 0)] - x[jnp.minimum(jnp.arange(6) + 2, 5)],
        (X,),
    ),
    "neighbours around": (lambda x: jnp.take(x, (jnp.arange(6) + 4) % 6, 0), (X,)),
    "a single row": (lambda x, i: x[i], (X, ROWS[1])),
    "a single row outside": (lambda x, i: x[i], (X, ROWS[3])),
    "a window": (lambda x, i: jax.lax.dynamic_slice(x, (i, 0), (3, 5)), (X, ROWS[3])),
    "a window in the middle": (
        lambda x, i: jax.lax.dynamic_slice_in_dim(x, i, 2, 1),
        (Y, ROWS[4]),
    ),
}

SCATTERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "segments": (lambda x, i: jax.ops.segment_sum(x, i, 6), (UPDATES, ROWS)),
    "rows": (lambda x, i, u: x.at[i].add(u), (X, ROWS, UPDATES)),
    "columns": (lambda x, i, u: x.at[:, i].add(u), (X, LABELS, X[:, :1] * np.ones(6, np.float32))),
    "gradient of rows": (jax.grad(lambda x, i: jnp.sum(jnp.sin(x[i]))), (X, ROWS)),
    "gradient of labels": (
        jax.grad(lambda x, i: jnp.sum(jnp.sin(jnp.take_along_axis(x, i[:, None], 1)))),
        (X, np.abs(LABELS) % 5),
    ),
    "gradient of labels by row": (
        jax.grad(lambda x, i: jnp.sum(jnp.sin(x[jnp.arange(6), i]))),
        (X, LABELS),
    ),
    "gradient of rows in a batch": (
        jax.grad(lambda x, i: jnp.sum(jnp.sin(x[:, i]))),
        (Y, ROWS),
    ),
    "clipped": (lambda x, i, u: x.at[i].add(u, mode="clip"), (X, ROWS, UPDATES)),
    "dropped": (lambda x, i, u: x.at[i].add(u, mode="drop"), (X, ROWS, UPDATES)),
    "largest of segments": (lambda x, i: jax.ops.segment_max(x, i, 6), (UPDATES, ROWS)),
    "smallest of segments": (lambda x, i: jax.ops.segment_min(x, i, 6), (UPDATES, ROWS)),
    "largest with NaN": (
        lambda x, i, u: x.at[i].max(u / (u - u[0])),
        (X, ROWS, UPDATES),
    ),
    "largest of columns": (
        lambda x, i, u: x.at[:, i].max(u),
        (X, LABELS, X[:, :1] * np.ones(6, np.float32)),
    ),
    "smallest that are clipped": (
        lambda x, i, u: x.at[i].min(u, mode="clip"),
        (X, ROWS, UPDATES),
    ),
    "largest in a batch": (jax.vmap(lambda x, i: jax.ops.segment_max(x, i, 3)), (X, TABLE3)),
}

TIED = np.array([[1, 3, 3, -2], [np.nan, 5, np.nan, 5], [0, -0.0, 0, -1], [-5, -5, -5, -5]])
TIED = TIED.astype(np.float32)

PLACES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product": (lambda x: jnp.prod(x, 1), (X,)),
    "product of all": (jnp.prod, (X,)),
    "running products": (lambda x: jnp.cumprod(x, 1), (X,)),
    "running products from the end": (lambda x: jax.lax.cumprod(x, 0, reverse=True), (X,)),
    "running logarithms of sums": (lambda x: jax.lax.cumlogsumexp(x, 1), (X,)),
    "running logarithms of nothing": (
        lambda x: jax.lax.cumlogsumexp(x, 0, reverse=True),
        (np.array([-np.inf, -np.inf, 2, np.inf, -np.inf], np.float32),),
    ),
    "largest": (lambda x: jax.lax.top_k(x, 2)[0], (X,)),
    "places of the largest": (lambda x: jax.lax.top_k(x, 3)[1], (TIED[[0, 3]],)),
    "largest with NaN": (lambda x: jax.lax.top_k(x, 3)[0], (TIED[:2],)),
    "largest down": (lambda x: jax.lax.top_k(x, 2, axis=0)[0], (X,)),
    "sorted": (lambda x: jnp.sort(x, 0), (X,)),
    "sorted with NaN and ties": (lambda x: jnp.sort(x, 1), (TIED,)),
    "sorted from the largest": (lambda x: jnp.sort(x, descending=True), (TIED,)),
    "places in order": (lambda x: jnp.argsort(x, 1), (TIED,)),
    "whole numbers in order": (lambda x: jnp.sort(x, 0), (TABLE,)),
    "beside its keys": (lambda x: jax.lax.sort((x, x * 2), num_keys=1)[1], (X,)),
    "median": (lambda x: jnp.median(x, 0), (X,)),
    "a row replaced": (lambda x: x.at[2].set(x[0] * 2), (X,)),
    "an element replaced": (lambda x: x.at[1, -1].set(7), (X,)),
    "a column replaced": (lambda x: x.at[:, 1].set(jnp.sin(x[:, 0])), (X,)),
    "argmax": (lambda x: jnp.argmax(x, 1), (TIED,)),
    "argmax down": (lambda x: jnp.argmax(x, 0), (TIED,)),
    "argmin": (lambda x: jnp.argmin(x, 1), (TIED,)),
    "argmax of all": (lambda x: jnp.argmax(x), (X,)),
    "argmax of whole numbers": (lambda x: jnp.argmax(x, 0), (TABLE,)),
    "cumsum": (lambda x: jnp.cumsum(x, 1), (X,)),
    "cumsum from the end": (lambda x: jax.lax.cumsum(x, 0, reverse=True), (X,)),
    "cumsum of whole numbers": (lambda x: jnp.cumsum(x, 0), (TABLE,)),
    "cummax": (lambda x: jax.lax.cummax(x, 1), (X,)),
    "cummin from the end": (lambda x: jax.lax.cummin(x, 1, reverse=True), (X,)),
    "rem": (lambda x: jax.lax.rem(x * 7, jnp.float32(2.5)), (X,)),
    "modulo": (lambda x, y: x * 7 % y, (X, np.abs(X) + 1)),
    "modulo of whole numbers": (lambda x: x % 3, (TABLE,)),
    "lgamma": (lambda x: jax.lax.lgamma(jnp.abs(x) * 4 + 3), (X,)),
    "poles of lgamma": (jax.lax.lgamma, (np.array([0, -1, -2, 1, np.inf], np.float32),)),
    "digamma": (lambda x: jax.lax.digamma(jnp.abs(x) * 4 + 0.1), (X,)),
    "digamma below zero": (lambda x: jax.lax.digamma(jnp.tanh(x) / 4 - 0.5), (X,)),
    "poles of digamma": (jax.lax.digamma, (np.array([0, -1, 1, np.inf, -np.inf], np.float32),)),
    "gradient of lgamma": (jax.grad(lambda x: jnp.sum(jax.lax.lgamma(x * x + 1))), (X,)),
    "inverse hyperbolic tangent": (lambda x: jnp.arctanh(x / 4), (X,)),
    "its ends": (jnp.arctanh, (np.array([0, 1, -1, 2, 1e-30], np.float32),)),
    "whole power": (lambda n: jnp.float32(0.9) ** n, (np.arange(4, dtype=np.int32),)),
    "power of a table": (lambda x, n: jnp.abs(x) ** n[:5], (X, np.arange(6, dtype=np.int32))),
}


def written(program: Program) -> Callable[..., Any]:
    """The program's own text as a function."""
    module: dict[str, Any] = {}
    exec(emit(program), module)
    return module[names(program)[0]]  # type: ignore[no-any-return]  # of a text


@pytest.mark.parametrize("name", GATHERS | SCATTERS | PLACES)
def test_it_is_what_jax_computes(name: str) -> None:
    """The referee's numbers, and those of the program written out again."""
    function, arguments = {**GATHERS, **SCATTERS, **PLACES}[name]
    program = capture(function, *arguments).program
    wanted = np.asarray(function(*map(jnp.asarray, arguments)))
    (given,) = run(program, arguments)
    np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-6)
    again = written(program)(*map(jnp.asarray, arguments))
    assert jax.typeof(again).dtype == wanted.dtype
    np.testing.assert_allclose(again, wanted, rtol=1e-5, atol=1e-6)
