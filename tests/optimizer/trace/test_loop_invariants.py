"""What leaves a loop, and what stays in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from aiosearch.optimizer.trace.flat_jaxpr import FlatJaxpr, inline_calls
from aiosearch.optimizer.trace.loop_invariants import move_out

X = jnp.linspace(-1.0, 2.0, 36).reshape(6, 6)
W = jnp.cos(X)


def moved(function: Callable[..., Any], *args: Any) -> FlatJaxpr:
    return move_out(inline_calls(jax.make_jaxpr(function)(*args)))


def before_the_loop(flat: FlatJaxpr) -> list[str]:
    names = [equation.primitive.name for equation in flat.equations]
    loop = next(at for at, name in enumerate(names) if name in ("scan", "while"))
    return names[:loop]


def same(flat: FlatJaxpr, function: Callable[..., Any], *args: Any) -> bool:
    """Whether it computes what the function does."""
    held = list(flat.constants)
    jaxpr = flat.part((*held, *flat.inputs), flat.equations, flat.outputs)
    found = jax.core.eval_jaxpr(jaxpr, (), *flat.constants.values(), *args)
    wanted = jax.tree.leaves(function(*args))
    return all(map(jnp.allclose, found, wanted))


def scanned(x: Any, w: Any) -> Any:
    return lax.scan(lambda h, row: (jnp.tanh(h @ (w * W) + row), h), x[0], x)


def until(x: Any, w: Any) -> Any:
    return lax.while_loop(
        lambda h: jnp.sum(h * w) < 9, lambda h: jnp.abs(h) + jnp.exp(w) @ jnp.exp(w), x
    )


def in_a_loop(x: Any, w: Any) -> Any:
    return lax.fori_loop(
        0, 3, lambda i, h: lax.fori_loop(0, 2, lambda j, h: h @ jnp.sin(w) + i, h), x
    )


@pytest.mark.parametrize(
    ("function", "names"),
    [(scanned, ["mul"]), (until, ["exp", "exp", "dot_general"]), (in_a_loop, ["sin"])],
)
def test_what_each_step_does_alike_is_done_before_the_loop(
    function: Callable[..., Any], names: list[str]
) -> None:
    flat = moved(function, X, W)
    assert [name for name in before_the_loop(flat) if name in names] == names
    assert same(flat, function, X, W)


def spread(x: Any, v: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, h: h + jnp.sin(v)[:, None] * jnp.sin(v), x)


STAYING: dict[str, Callable[..., Any]] = {
    "what is larger than its origin": lambda x, w: spread(x, w[0]),
    "what only moves": lambda x, w: lax.fori_loop(0, 3, lambda i, h: h @ w.T, x),
    "what has effects": lambda x, w: lax.fori_loop(0, 3, lambda i, h: h + shown(w), x),
    "what changes": lambda x, w: lax.fori_loop(0, 3, lambda i, h: jnp.sin(h) @ w, x),
}


def shown(w: Any) -> Any:
    jax.debug.print("{}", w[0, 0])
    return w


@pytest.mark.parametrize("name", STAYING)
def test_what_the_loop_does_better_itself_stays(name: str) -> None:
    flat = moved(STAYING[name], X, W)
    big = [
        equation
        for equation in flat.equations
        if equation.primitive.name not in ("scan", "while")
        and any(var.aval.size >= X.size for var in equation.outvars)
    ]
    assert not big
    assert same(flat, STAYING[name], X, W)
