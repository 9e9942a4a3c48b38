"""Where an error is said to come from, and what it says to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.capture.errors import tracing_hint
from aiosearch.capture.user_frames import user_frame


def raises(x: Any) -> Any:
    raise ValueError("no")


def mismatched(x: Any) -> Any:
    return jnp.dot(x, x[:2])


def error_of(function: Any) -> Exception:
    try:
        jax.make_jaxpr(function)(jnp.ones(3))
    except Exception as error:
        return error
    raise AssertionError


@pytest.mark.parametrize("function", [raises, mismatched])
def test_the_innermost_line_of_the_users_is_named(
    function: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever of jax's or Python's own lies below it; from the current folder, where it can be."""
    line = function.__code__.co_firstlineno + 1
    monkeypatch.chdir(Path(__file__).parent)
    assert user_frame(error_of(jax.jit(function))) == f" ({Path(__file__).name}:{line})"
    assert user_frame(error_of(lambda x: function(x))) == f" ({Path(__file__).name}:{line})"
    monkeypatch.chdir(tmp_path)
    assert user_frame(error_of(function)) == f" ({__file__}:{line})"


def test_an_error_without_a_line_has_none() -> None:
    assert user_frame(ValueError("no")) == ""


def repeated(x: Any, n: Any) -> Any:
    return [x * at for at in range(n)]


def branching(x: Any, n: Any) -> Any:
    return x if n > 0 else -x


def in_numpy(x: Any, n: Any) -> Any:
    return np.sum(np.asarray(x)) * n


class TraceContextError(Exception):
    """As flax.nnx has it."""


def changing(x: Any, n: Any) -> Any:
    raise TraceContextError("Cannot mutate RngCount")


def kernel(x: Any, n: Any) -> Any:
    raise ValueError("Only interpret mode is supported on CPU backend.")


@pytest.mark.parametrize(
    ("function", "dtype", "hint"),
    [
        (repeated, "int32", "is named in static_argnames="),
        (repeated, "float32", "on the command line it is given with its value, as --arg n=3"),
        (branching, "int32", "is written with jnp.where or jax.lax.cond"),
        (in_numpy, "int32", "write jnp there"),
        (changing, "int32", "is cut by nnx.split"),
        (kernel, "int32", "pallas_call takes interpret=True"),
    ],
)
def test_an_error_of_tracing_says_what_is_missing(function: Any, dtype: str, hint: str) -> None:
    error = error_of(lambda x: function(x, x.sum().astype(dtype)))
    assert hint in tracing_hint(error)


def test_an_error_that_nobody_knows_has_no_hint() -> None:
    assert tracing_hint(KeyError("w")) == ""
