"""`assert_equal`, and its fixture: proved, tested, within limits and tolerances, or refuted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from aiosearch import AiosearchError
from aiosearch.testing import assert_equal

TABLE = jnp.arange(8.0)


def softmax(x: jax.Array) -> jax.Array:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_what_is_proved_says_so() -> None:
    verdict = assert_equal(softmax, jax.nn.softmax, jax.ShapeDtypeStruct((4, 8), jnp.float32))
    assert verdict.status == "proved"


def test_a_mistake_is_an_assertion_that_names_both_and_the_place() -> None:
    with pytest.raises(
        AssertionError, match=r"<lambda> does not compute what softmax does"
    ) as told:
        assert_equal(softmax, lambda x: jax.nn.softmax(x, 0), jnp.ones((4, 4)))
    assert "output 0 at [" in str(told.value)


def test_other_outputs_are_refuted_without_running() -> None:
    with pytest.raises(AssertionError, match="other outputs"):
        assert_equal(softmax, lambda x: softmax(x).sum(-1), jnp.ones((4, 4)))


def test_trees_are_compared_by_their_leaves() -> None:
    params = {"w": jnp.ones((4, 4)), "b": jnp.ones(4)}
    verdict = assert_equal(
        lambda p, x: x @ p["w"] + p["b"], lambda p, x: p["b"] + x @ p["w"], params, jnp.ones((2, 4))
    )
    assert verdict.status == "proved"


def test_within_ranges_functions_may_be_equal_that_differ_elsewhere() -> None:
    x = jax.ShapeDtypeStruct((64,), jnp.float32)
    verdict = assert_equal(lambda x: x, jnp.abs, x, ranges={"x": (0.0, 10.0)})
    assert verdict.scope == "in floats only, at these shapes, within the limits of inputs"
    with pytest.raises(AssertionError):
        assert_equal(lambda x: x, jnp.abs, x)
    with pytest.raises(AssertionError):
        assert_equal(lambda x: x, jnp.abs, x, ranges={"x": (-1.0, 10.0)})


def test_a_tolerance_decides_how_far_results_may_be_off() -> None:
    x = jax.ShapeDtypeStruct((64,), jnp.float32)

    def rough(x: jax.Array) -> jax.Array:
        return jnp.tanh(x) * 1.001

    verdict = assert_equal(jnp.tanh, rough, x, tolerance=0.01)
    assert verdict.floats is not None
    assert 0.0009 < max(trial.relative_error for trial in verdict.floats.trials) < 0.0011
    for tolerance in (None, 0.0001):
        with pytest.raises(AssertionError):
            assert_equal(jnp.tanh, rough, x, tolerance=tolerance)


def test_arguments_are_tried_before_anything_drawn() -> None:
    """A difference at one value that no distribution draws is seen where it is given."""
    x = jnp.full((4,), 1234.5)
    with pytest.raises(AssertionError, match="on given inputs"):
        assert_equal(jnp.sort, lambda x: jnp.where(x == 1234.5, 0, jnp.sort(x)), x)


def test_closed_over_arrays_are_compared_as_they_are() -> None:
    assert assert_equal(lambda x: x + TABLE, lambda x: TABLE + x, jnp.ones(8)).status == "proved"


def test_a_range_of_no_input_is_refused() -> None:
    with pytest.raises(AiosearchError, match="no input is called y; there are x"):
        assert_equal(jnp.sin, jnp.sin, jnp.ones(3), ranges={"y": (0, 1)})


TESTS = """
import jax.numpy as jnp


def test_right(assert_equal):
    assert_equal(lambda x: x * 2, lambda x: x + x, jnp.ones(4))


def test_wrong(assert_equal):
    assert_equal(lambda x: x * 2, lambda x: x + 2, jnp.ones(4))
"""


def test_pytest_has_it_as_a_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_both.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*words, "test_both.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout


def test_the_fixture_is_the_function(request: pytest.FixtureRequest) -> None:
    fixture: Callable[..., object] = request.getfixturevalue("assert_equal")
    assert fixture is assert_equal
