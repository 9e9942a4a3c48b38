"""The options of optimize: what they may be, and the function's own arguments of such names."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from aiosearch import AiosearchError
from aiosearch.optimizer.decorator import optimized
from aiosearch.optimizer.effort import Budget
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.optimization import optimize, optimize_sync
from aiosearch.optimizer.outcomes.results import Results

A = jnp.linspace(-1.0, 2.0, 4000)


def loss(x: jax.Array, target: Any) -> jax.Array:
    return jnp.sort(x) - target


def taking_all(x: jax.Array, *, strict: Any, largest: Any, kwargs: Any, effort: str) -> jax.Array:
    assert effort == "none"
    return jnp.sort(x) - strict - largest - kwargs


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Results]:
    with Results.open(tmp_path / "results.sqlite") as opened:
        yield opened


def test_arguments_with_the_names_of_options_reach_the_function(store: Results) -> None:
    fast = optimize_sync(
        loss, A, results=store, target="cpu", kernels=False, kwargs={"target": A + 1}
    )
    assert jnp.array_equal(fast(A, target=A + 2), loss(A, target=A + 2))
    assert fast.takes(A, target=A + 2)
    own = {"strict": 1.0, "largest": 2.0, "kwargs": 3.0, "effort": "none"}
    made = optimize_sync(
        taking_all, A, results=store, static_argnames="effort", kernels=False, kwargs=own
    )
    assert made.takes(A, **own)
    assert optimize_sync(lambda function: jnp.sort(function), function=A).takes(function=A)


@pytest.mark.parametrize("closed", [False, True])
def test_what_jax_is_tracing_cannot_be_optimized(store: Results, closed: bool) -> None:
    def inside(x: jax.Array) -> jax.Array:
        if closed:
            return optimize_sync(lambda y: jnp.sort(x) + y, A, results=store)(A)
        return optimize_sync(jnp.sort, x, results=store)(x)

    with pytest.raises(OptimizeError, match="is optimized where jax traces, as inside jit"):
        jax.jit(inside)(A)


def test_an_array_that_is_gone_cannot_be_optimized_with(store: Results) -> None:
    """Also one that was donated to a call, and one that is closed over, wherever that is."""
    deleted, donated = A + 1, A + 2
    deleted.delete()
    jax.jit(jnp.negative, donate_argnums=0)(donated)
    told = "with {}, which was deleted, or donated to another call: give an array that is still"
    for gone in (deleted, donated):
        with pytest.raises(OptimizeError, match=told.format("y_here")):
            optimize_sync(lambda x, y: jnp.sort(x), A, {"here": gone}, results=store)
        for closing in (lambda x: x * gone, jax.jit(lambda x: x * gone)):  # noqa: B023
            with pytest.raises(OptimizeError, match=told.format("an array that it closes over")):
                optimize_sync(closing, A, results=store)


async def test_a_decorated_function_gets_all_arguments_of_its_calls(store: Results) -> None:
    """Options are the decorator's alone."""
    made = optimized(results=store, target="cpu", kernels=False)(loss)
    found = await made.optimize(A, target=A + 1)
    assert found.takes(A, target=A)


def test_a_call_of_a_decorated_function_does_too(store: Results) -> None:
    made = optimized(wait=True, results=store, target="cpu", kernels=False)(loss)
    assert jnp.array_equal(made(A, target=A + 1), loss(A, A + 1))
    assert len(made.found) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"effort": 3}, "effort is an option of optimize and has to be quick, default"),
        ({"effort": Budget(1.0, 3, 0, 45, 4.0, 3, 4)}, "at least one contender and 6 rounds"),
        ({"effort": Budget(1.0, 3, 6, 5, 4.0, 3, 4)}, "at least one contender and 6 rounds"),
        ({"effort": Budget(-1.0, 3, 6, 45, 4.0, 3, 4)}, "a Budget with figures from 0"),
        ({"seconds": -1}, "has to be a number of seconds from 0, or None for no limit, not -1"),
        ({"seconds": "1"}, "has to be a number of seconds from 0, or None for no limit, not '1'"),
        ({"progress": 3}, "has to be True, False, a function of an OptimizeProgress, or None"),
        ({"target": None}, "has to be auto, cpu or cuda, not None"),
        ({"seed": "a"}, "seed is an option of optimize and has to be a whole number from 0"),
        ({"seed": -1}, "has to be a whole number from 0, not -1"),
        ({"seed": True}, "has to be a whole number from 0, not True"),
        ({"strict": "yes"}, "has to be True or False, not 'yes'"),
        ({"static_argnums": "x"}, "has to be the place of an argument, or several, not 'x'"),
        ({"static_argnames": 3}, "has to be the name of an argument, or several, not 3"),
        ({"constant_argnums": "w"}, "has to be the place of an argument, or several, not 'w'"),
        ({"results": "foo.sqlite"}, "Results.open.path. gives it, not 'foo.sqlite'"),
        ({"executor": 3}, "has to be an aiosearch.measure.Executor, not 3"),
        ({"tell": None}, "has to be a function of one text, not None"),
        ({"kwargs": A}, "has to be a mapping from names to arguments, not an array float32"),
        ({"static_argnums": 9}, "static_argnums has 9, and two takes 2 by position"),
        ({"static_argnums": (0, -3)}, "static_argnums has -3"),
        ({"constant_argnums": 9}, "constant_argnums has 9, and two takes 2 by position"),
        ({"static_argnames": "zz"}, "static_argnames has 'zz', and two has x, y"),
    ],
)
def test_what_an_option_cannot_be_is_said(options: dict[str, Any], told: str) -> None:
    def two(x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y

    with pytest.raises(AiosearchError, match=told):
        optimize_sync(two, A, 3, **options)


def test_an_option_that_is_meant_for_the_function_is_told_the_way() -> None:
    """In one sentence, without a single number of the array."""
    with pytest.raises(OptimizeError) as error:
        optimize_sync(loss, A, target=A)
    assert str(error.value) == (
        "target is an option of optimize and has to be auto, cpu or cuda, not an array"
        " float32[4000]; loss's own goes into kwargs={'target': ...}"
    )
    with pytest.raises(OptimizeError, match=r"loss takes target, .* kwargs={'target': ...}"):
        optimize_sync(loss, A, target="cpu")


def test_a_function_of_any_number_of_arguments_has_those_that_are_given() -> None:
    with pytest.raises(OptimizeError, match="constant_argnums has 2, and several takes 2 by"):
        optimize_sync(several, A, A, constant_argnums=2)


def several(*arrays: jax.Array) -> jax.Array:
    return sum(arrays, jnp.zeros(()))


def test_an_argument_is_given_once() -> None:
    with pytest.raises(OptimizeError, match="y is given by name, and in kwargs too"):
        optimize_sync(lambda x, target, y: x, A, y=A, kwargs={"y": A, "target": A})


async def a_coroutine(x: jax.Array) -> jax.Array:
    return x


async def an_async_generator(x: jax.Array) -> AsyncIterator[jax.Array]:
    yield x


def a_generator(x: jax.Array) -> Iterator[jax.Array]:
    yield x


class Called:
    async def __call__(self, x: jax.Array) -> jax.Array:
        return x


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (3, "optimize takes a function first, not 3"),
        (A, "not an array float32"),
        (a_coroutine, "a_coroutine is a coroutine function, which jax cannot trace"),
        (functools.partial(a_coroutine), "is a coroutine function"),
        (Called(), "is a coroutine function"),
        (a_generator, "a_generator is a generator function"),
        (an_async_generator, "an_async_generator is an async generator function"),
    ],
)
async def test_what_is_no_function_is_said(function: Any, told: str) -> None:
    with pytest.raises(OptimizeError, match=told):
        await optimize(function, A)


def test_an_argument_that_is_no_array_is_named() -> None:
    def f(x: jax.Array, settings: Any) -> jax.Array:
        return x

    for given, told in (
        ("mean", "settings is of the type str and no array: .* in static_argnames"),
        ({"mode": "mean"}, "settings_mode is of the type str and no array"),
    ):
        with pytest.raises(AiosearchError, match=told):
            optimize_sync(f, A, given)
    with pytest.raises(AiosearchError, match=r"static argument 0 cannot be hashed: it is of"):
        optimize_sync(f, A, 1, static_argnums=0)


def test_an_option_that_is_misspelt_is_told_from_an_argument() -> None:
    told = r"loss takes no efort, nor is there such an option \(did you mean effort\?\)"
    with pytest.raises(OptimizeError, match=told):
        optimize_sync(loss, A, A, efort="quick")
    with pytest.raises(OptimizeError, match="did you mean target"):
        optimize_sync(loss, A, targt=A)


def test_an_option_of_the_decorator_is_looked_at_at_once() -> None:
    """Not when the function is called, where it would only be a warning."""
    for options, told in (
        ({"target": None}, "has to be auto, cpu or cuda, not None"),
        ({"static_argnums": "x"}, "has to be the place of an argument"),
        ({"static_argnames": "zz"}, "static_argnames has 'zz', and loss has x, target"),
        ({"efort": "quick"}, "no option 'efort': there are effort, seconds, target"),
    ):
        with pytest.raises(OptimizeError, match=told):
            optimized(**options)(loss)


def test_a_partial_is_called_as_its_function() -> None:
    """Its text would be all that it holds."""
    with pytest.raises(OptimizeError, match="loss takes target"):
        optimize_sync(functools.partial(loss, x=A))
