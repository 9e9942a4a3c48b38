"""Functions that are optimized when they are called, and wait for it."""

from __future__ import annotations

import copy
import functools
import os
import pickle
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from answers import Remembering

from aiosearch.optimizer.decorator import optimized
from aiosearch.optimizer.errors import SpliceError
from aiosearch.optimizer.handback.optimized import Optimized
from aiosearch.optimizer.optimization import optimize_sync
from aiosearch.optimizer.outcomes.results import Results

A = jnp.linspace(-1.0, 2.0, 12).reshape(3, 4)


@pytest.fixture
def store(tmp_path: Path) -> Remembering:
    return Remembering(tmp_path / "results.sqlite")


def test_each_kind_of_call_is_optimized_once(store: Remembering) -> None:
    """Another shape or type is another kind; other values are not."""

    @optimized(wait=True, results=store, target="cpu")
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


def test_it_may_stand_without_a_store(monkeypatch: pytest.MonkeyPatch, store: Remembering) -> None:
    monkeypatch.setattr(Results, "open", lambda *_: store)

    @optimized(wait=True)
    def f(x: jax.Array, y: float) -> jax.Array:
        return x * y

    assert f(A, 2.0).tolist() == (A * 2).tolist()
    assert f(A, 3.0).tolist() == (A * 3).tolist()
    assert len(f.found) == 1


def test_static_arguments_are_kinds_of_their_own(store: Remembering) -> None:
    @optimized(wait=True, results=store, target="cpu", static_argnums=1)
    def f(x: jax.Array, n: int) -> jax.Array:
        return x.sum(axis=n)

    assert f(A, 0).shape == (4,)
    assert f(A, 1).shape == (3,)
    assert len(f.found) == 2


def test_what_is_traced_runs_the_original(store: Remembering) -> None:
    @optimized(wait=True, results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x**3)

    assert jax.grad(f)(A).tolist() == jax.grad(f.original)(A).tolist()
    assert jax.vmap(f)(A).shape == (3,)
    assert store.asked == []


async def test_in_an_event_loop_it_says_what_to_await(store: Remembering) -> None:
    """Nothing waits there: the original runs, and a warning is given once."""

    @optimized(wait=True, results=store, target="cpu")
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


def test_each_reason_is_told_once(store: Remembering) -> None:
    @optimized(wait=True, results=store, target="cpu")
    def f(x: Any, mode: Any = None) -> Any:
        return x

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for mode in ("mean", "sum", object(), "mean"):
            f(A, mode)
            f(A[:2], mode)
    first, second = (str(one.message) for one in told)
    assert "mode is of the type str and no array" in first
    assert "mode is of the type object and no array" in second


async def test_what_is_found_anew_takes_the_place_of_what_was_found(store: Remembering) -> None:
    @optimized(wait=True, results=store, target="cpu", static_argnums=1)
    def f(x: jax.Array, n: float) -> jax.Array:
        return jnp.sum(x * n)

    like = jax.ShapeDtypeStruct(A.shape, A.dtype)
    for n in (1, 1.0, True, 1):
        for x in (A, like, A[:2], A + 1):
            made = await f.optimize(x, n)
            assert f.found[-1] is made
    assert len(f.found) == 3 * 3


async def test_of_two_that_take_a_call_the_last_that_was_found_is_called(
    monkeypatch: pytest.MonkeyPatch, store: Remembering
) -> None:
    """What was found for a type takes arrays, too."""

    @optimized(wait=True, results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    await f.optimize(jax.ShapeDtypeStruct(A.shape, A.dtype))
    made = await f.optimize(A)
    asked, attempt = [], Optimized.attempt

    def attempted(self: Any, *given: Any) -> Any:
        asked.append(self)
        return attempt(self, *given)

    monkeypatch.setattr(Optimized, "attempt", attempted)
    assert f(A) == jnp.sum(A * 2)
    assert asked == [made]


def test_what_cannot_be_traced_runs_as_it_is(store: Remembering) -> None:
    @optimized(wait=True, results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return x if x.sum() > 0 else -x

    with pytest.warns(RuntimeWarning, match="runs as it is: cannot trace"):
        assert f(A) is A
    assert f(A) is A


def test_a_function_that_minds_tracers_runs_as_it_is(store: Remembering) -> None:
    """Whatever it raises on one, its caller never sees it."""

    @optimized(wait=True, results=store, target="cpu")
    def f(x: Any) -> Any:
        assert isinstance(x, np.ndarray)
        return x * 2

    with pytest.warns(RuntimeWarning, match="cannot trace f: AssertionError"):
        assert f(np.ones(3)).tolist() == [2, 2, 2]
    assert f(np.zeros(3)).tolist() == [0, 0, 0]


def test_whatever_goes_wrong_the_function_runs(tmp_path: Path) -> None:
    class Broken(Remembering):
        def find(self, key: Any) -> Any:
            raise LookupError("no find")

    @optimized(wait=True, results=Broken(tmp_path / "results.sqlite"), target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    with pytest.warns(RuntimeWarning, match="runs as it is: LookupError: no find"):
        assert f(A) == jnp.sum(A * 2)


def test_a_call_with_an_array_that_is_gone_decides_nothing(store: Remembering) -> None:
    """It fails as it would without the decorator; the next call of its kind is searched."""

    @optimized(wait=True, results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    gone = A + 1
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f(gone)
    assert f(A) == jnp.sum(A * 2)
    assert len(f.found) == 1


def test_a_kind_that_ctrl_c_ended_is_tried_again(tmp_path: Path) -> None:
    class Interrupted(Remembering):
        def find(self, key: Any) -> Any:
            found = super().find(key)
            if len(self.asked) == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return found

    store = Interrupted(tmp_path / "results.sqlite")

    @optimized(wait=True, results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    with pytest.raises(KeyboardInterrupt):
        f(A)
    assert f.found == ()
    assert f(A) == jnp.sum(A * 2)
    assert len(f.found) == 1


def test_numbers_are_no_kinds_of_their_own(store: Remembering) -> None:
    """Neither of what can be traced nor of what cannot, which is tried once."""
    traces: list[Any] = []

    @optimized(wait=True, results=store, target="cpu")
    def f(x: jax.Array, y: float) -> Any:
        traces.append(y)
        return float(x.sum()) * y

    with pytest.warns(RuntimeWarning, match="runs as it is"):
        f(A, 1.5)
    tried = len(traces)
    for number in (2.5, 3.5, 4.5):
        f(A, number)
    assert len(traces) == tried + 3


def test_kinds_do_not_wait_for_each_other(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Remembering):
        def find(self, key: Any) -> Any:
            if key.types[0] == "float32[3,4]":
                begun.set()
                assert go_on.wait(30)
            return super().find(key)

    @optimized(wait=True, results=Slow(tmp_path / "results.sqlite"), target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(f, A)
        assert begun.wait(30)
        other = pool.submit(f, A[:2])
        try:
            assert other.result(30) == jnp.sum(A[:2] * 2)
            assert not slow.done()
        finally:
            go_on.set()
        assert slow.result(30) == jnp.sum(A * 2)
    assert len(f.found) == 2


def test_threads_that_make_the_same_call_search_once(tmp_path: Path) -> None:
    store = Remembering(tmp_path / "results.sqlite")

    @optimized(wait=True, results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    with ThreadPoolExecutor(4) as pool:
        assert {float(found) for found in pool.map(f, [A] * 4)} == {float(jnp.sum(A * 2))}
    assert len(store.asked) == len(f.found) == 1


def test_a_method_takes_its_object(store: Remembering) -> None:
    class Layer:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @optimized(wait=True, results=store, target="cpu", static_argnums=0)
        def run(self, x: jax.Array) -> jax.Array:
            return jnp.sum(x * self.scale)

    two, three = Layer(2.0), Layer(3.0)
    for layer in (two, three, two):
        assert layer.run(A) == jnp.sum(A * layer.scale)
    assert len(Layer.run.found) == 2


def test_a_method_whose_object_is_no_array_is_told_what_to_do(store: Remembering) -> None:
    """And what it is told to do is right."""

    class Layer:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @optimized(wait=True, results=store, target="cpu")
        def run(self, x: jax.Array) -> jax.Array:
            return jnp.sum(x * self.scale)

    layer = Layer(2.0)
    with pytest.warns(RuntimeWarning, match=r"as in optimize\(obj\.run, \.\.\.\), or name self in"):
        assert layer.run(A) == jnp.sum(A * 2)
    made = optimize_sync(layer.run, A, results=store, target="cpu")
    assert made.takes(A)
    assert made(A) == jnp.sum(A * 2)
    with pytest.raises(SpliceError, match=r"optimize the method of one object"):
        optimize_sync(Layer.run, layer, A, results=store, target="cpu")
    with pytest.raises(SpliceError, match="name the argument in static_argnames"):
        optimize_sync(lambda own, x: own.run(x), layer, A, results=store, target="cpu")


def test_one_of_one_finds_for_itself(store: Remembering) -> None:
    @optimized(wait=True, results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    f(A)
    outer = optimized(wait=True, results=store, target="cpu")(f)
    assert outer.found == ()
    assert outer(A) == f(A)
    assert len(outer.found) == len(f.found) == 1
    assert outer.found[0].original is f.original


def test_other_settings_of_jax_are_another_kind(store: Remembering) -> None:
    @optimized(wait=True, results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    f(A)
    with jax.enable_x64(True):
        f(A)
    f(A)
    assert len(f.found) == len(store.asked) == 2


def test_the_functions_attributes_hide_none_of_its_own(store: Remembering) -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    f.version, f.optimize = 3, "always"  # type: ignore[attr-defined]
    made: Any = optimized(wait=True, results=store, target="cpu")(f)
    assert made.version == 3
    assert callable(made.optimize)


@optimized
def by_name(x: jax.Array) -> jax.Array:
    return x


def test_it_is_copied_and_pickled_by_its_name() -> None:
    """As functions are, so that it reaches other processes."""
    assert copy.deepcopy(by_name) is by_name
    assert pickle.loads(pickle.dumps(by_name)) is by_name
    partial = optimized(functools.partial(by_name, A))
    assert copy.copy(partial) is partial
    assert repr(partial) == "<optimized on call: partial of by_name>"
