"""Functions that are optimized when they are called."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from answers import answer

from aiosearch.optimizer.decorating import optimized
from aiosearch.optimizer.results import Results

A = jnp.linspace(-1.0, 2.0, 12).reshape(3, 4)


class Remembering(Results):
    """A store that knows every answer, and which questions were asked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, print)
        self.asked: list[tuple[str, ...]] = []

    def find(self, key: Any) -> Any:
        self.asked.append(key.types)
        return answer(key=key, faster=False, effort="exhaustive")


@pytest.fixture
def store(tmp_path: Path) -> Remembering:
    return Remembering(tmp_path / "results.sqlite")


def test_each_kind_of_call_is_optimized_once(store: Remembering) -> None:
    """Another shape or type is another kind; other values are not."""

    @optimized(results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        """Says what it does."""
        return jnp.sum(x * 2)

    assert f.__doc__ == "Says what it does."
    for x in (A, A + 1, A[:2], A.astype("bfloat16"), A):
        assert f(x) == jnp.sum(x * 2)
    assert [types[0] for types in store.asked] == [
        "float32[3,4]",
        "float32[2,4]",
        "bfloat16[3,4]",
    ]
    assert len(f.found) == 3


def test_it_may_stand_without_options(monkeypatch: pytest.MonkeyPatch, store: Remembering) -> None:
    monkeypatch.setattr(Results, "open", lambda *_: store)

    @optimized
    def f(x: jax.Array, y: float) -> jax.Array:
        return x * y

    assert f(A, 2.0).tolist() == (A * 2).tolist()
    assert f(A, 3.0).tolist() == (A * 3).tolist()
    assert len(f.found) == 1


def test_static_arguments_are_kinds_of_their_own(store: Remembering) -> None:
    @optimized(results=store, target="cpu", static_argnums=1)
    def f(x: jax.Array, n: int) -> jax.Array:
        return x.sum(axis=n)

    assert f(A, 0).shape == (4,)
    assert f(A, 1).shape == (3,)
    assert len(f.found) == 2


def test_what_is_traced_runs_the_original(store: Remembering) -> None:
    @optimized(results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x**3)

    assert jax.grad(f)(A).tolist() == jax.grad(f.original)(A).tolist()
    assert jax.vmap(f)(A).shape == (3,)
    assert store.asked == []


async def test_in_an_event_loop_it_says_what_to_await(store: Remembering) -> None:
    """Nothing waits there: the original runs, and a warning is given once."""

    @optimized(results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return x * 2

    with pytest.warns(RuntimeWarning, match=r"await its \.optimize\(\.\.\.\)"):
        f(A)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(A)
        await f.optimize(A)
        f(A)
    assert len(f.found) == 1


def test_what_cannot_be_traced_runs_as_it_is(store: Remembering) -> None:
    @optimized(results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return x if x.sum() > 0 else -x

    with pytest.warns(RuntimeWarning, match="runs as it is: cannot trace"):
        assert f(A) is A
    assert f(A) is A
