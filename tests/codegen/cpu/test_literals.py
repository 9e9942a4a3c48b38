"""What is made of numbers alone may be floats, and is not computed in whole numbers that wrap."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from testkit.kernels.native_run import program, run

from aiosearch.capture import capture
from aiosearch.codegen.lower.lowering import lower
from aiosearch.tensor import DType, apply, literal, tensor

A = np.array([True, False] * 16)
B = np.array([True, True, False, False] * 8)


def added(a: Any, b: Any) -> Any:
    return jnp.where(a, 2e9, 0.0) + jnp.where(b, 2e9, 0.0)


def multiplied(a: Any, b: Any) -> Any:
    return jnp.where(a, 1e5, -1.0) * jnp.where(b, 1e5, 0.0) - 3.0


def largest(a: Any, b: Any) -> Any:
    return jnp.maximum(-jnp.where(a, 2e9, 1.0) - jnp.where(b, 2e9, 1.0), -3.5e9)


def padded(a: Any, b: Any) -> Any:
    return jnp.pad(jnp.full(31, 2e9), (1, 0)) + jnp.where(b, 2e9, 0.0)


def whole(a: Any, b: Any) -> Any:
    return jnp.where(a, 2**24 + 1, 0) + jnp.where(b, 2**24 + 2, 5)


@pytest.mark.parametrize("function", [added, multiplied, largest, padded, whole])
def test_numbers_that_are_chosen_are_computed_with_as_meant(function: Callable[..., Any]) -> None:
    module = lower(capture(function, A, B).program)
    given = {"a": A, "b": B}
    (found,) = run(module, [given[one.name] for one in module.inputs])
    np.testing.assert_allclose(found, np.asarray(function(A, B)), rtol=2e-7)


LEAST, MOST = -(2**31), 2**31 - 1
WHOLE = np.array([LEAST, LEAST + 1, -(2**24) - 1, -1, 0, 7, 2**24 + 1, MOST] * 4, np.int32)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: jnp.maximum(a, LEAST),
        lambda a: jnp.clip(a, LEAST, 5),
        lambda a: a == LEAST,
        lambda a: jnp.where(a > 0, a, LEAST),
        lambda a: a * LEAST - a + LEAST,
    ],
)
def test_the_least_whole_number_is_one(function: Callable[[Any], Any]) -> None:
    (found,) = run(lower(capture(function, WHOLE).program), [WHOLE])
    np.testing.assert_array_equal(found, np.asarray(function(jnp.asarray(WHOLE))))


@pytest.mark.parametrize("number", [2**31, -3e9, -math.inf])
def test_whole_numbers_are_exact_beside_a_number_that_is_too_large_for_one(number: float) -> None:
    x = tensor("X", DType.I32, WHOLE.shape)
    beyond = [apply("maximum", x, literal(number)), apply("less", x, literal(number))]
    beside = apply("pad", x, axis=0, low=1, high=0, value=2**31)
    largest, below, padded = run(lower(program(*beyond, beside)), [WHOLE])
    meant = np.maximum(WHOLE.astype(float), number)
    np.testing.assert_array_equal(largest, np.clip(meant, LEAST, MOST))
    np.testing.assert_array_equal(below, number > WHOLE.astype(float))
    np.testing.assert_array_equal(padded, [MOST, *WHOLE])


@pytest.mark.parametrize(
    "function",
    [
        lambda a: jnp.where(a > 0, 2**30, 3) * 5,
        lambda a: jnp.where(a > 0, 2**30, 3) + jnp.where(a > 2, 2**30, -7),
        lambda a: -jnp.where(a > 0, LEAST, 3),
        lambda a: jnp.abs(jnp.where(a > 0, LEAST, 3)) - 1,
        lambda a: jnp.full(17, 2**30).sum() + a,
        lambda a: jnp.broadcast_to(jnp.where(a[0] < 0, 2**30, 3), (17,)).sum() + a,
        lambda a: (jnp.where(a > 0, 5, 7) - jnp.where(a < 9, 2**20, 3)) + a * a,
        lambda a: jnp.maximum(jnp.abs(jnp.where(a > 0, -5, 7)), a) + MOST,
        lambda a: jnp.square(jnp.where(a > 0, 2**20 + 1, 3)),
    ],
)
def test_whole_numbers_that_are_chosen_wrap(function: Callable[[Any], Any]) -> None:
    (found,) = run(lower(capture(function, WHOLE).program), [WHOLE])
    np.testing.assert_array_equal(found, np.asarray(function(jnp.asarray(WHOLE))))


@pytest.mark.parametrize(
    ("operator", "number", "wanted"), [("neg", LEAST, LEAST), ("square", MOST, 1)]
)
def test_whole_numbers_that_have_their_type_wrap(operator: str, number: int, wanted: int) -> None:
    typed = apply("cast", literal(number), dtype=DType.I32)
    least = apply("minimum", apply(operator, typed), tensor("X", DType.I32, (18,)))
    (found,) = run(lower(program(least)), [np.full(18, MOST, np.int32)])
    np.testing.assert_array_equal(found, np.full(18, wanted))
