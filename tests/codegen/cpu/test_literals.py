"""What is made of numbers alone may be floats, and is not computed in whole numbers that wrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from running import run

from aiosearch.capture import capture
from aiosearch.codegen.lowering import lower

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
