"""Where an error is said to come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

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
