"""Running a function: its types, its own precision, float64, and what fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aiosearch.capture import JaxFunction, RunError
from aiosearch.tensor import DType, TensorType

FLOATS = (DType.F64, DType.F32, DType.F16, DType.BF16)


def made(function: Callable[..., Any], *dtypes: DType, shape: tuple[int, ...] = (3,)) -> Any:
    return JaxFunction(function, [TensorType(dtype, shape) for dtype in dtypes])


def test_the_types_of_all_outputs_are_known_before_it_runs() -> None:
    def function(x: Any, n: Any) -> Any:
        return {"sorted": jnp.sort(x), "more": (x[:1] > 0, jnp.argsort(x) + n)}

    run = made(function, DType.BF16, DType.I32)
    assert run.name == "function"
    assert [str(one) for one in run.outputs] == ["bool[1]", "i32[3]", "bf16[3]"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_its_own_types_round_and_float64_does_not(dtype: DType) -> None:
    """What is too small to be added is lost, and not in float64."""
    unit = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}[dtype]
    run = made(lambda x: x + unit / 2, dtype)
    one = np.ones(3, np.float64 if dtype is DType.F64 else np.float32)
    (own,) = run.own([one])
    assert run.outputs == (TensorType(dtype, (3,)),)
    assert own.dtype == {"f64": "f8", "f16": "f2"}.get(dtype, "f4")
    assert (own == 1).all()
    (double,) = run.double([one])
    assert double.dtype == np.float64
    assert (double > 1).all() == (dtype is not DType.F64)


def test_integers_and_truth_values_are_as_they_are() -> None:
    run = made(lambda n, b: jnp.where(b, n * 2, -n), DType.I32, DType.BOOL)
    inputs = [np.array([1.0, 2.0, 3.0]), np.array([True, False, True])]
    for found in (*run.own(inputs), *run.double(inputs)):
        assert found.dtype == np.int32
        assert found.tolist() == [2, -2, 6]


def test_arrays_that_it_closes_over_have_their_values() -> None:
    table = jnp.arange(3, dtype="float32")
    run = made(lambda x: jnp.sort(x)[::-1] + table, DType.F32)
    x = np.array([0.5, 2.5, 1.5], np.float32)
    for (found,) in (run.own([x]), run.double([x])):
        assert found.tolist() == [2.5, 2.5, 2.5]


def test_precision_is_given_back() -> None:
    made(jnp.sort, DType.F64).double([np.ones(3)])
    assert jnp.ones(1, float).dtype == jnp.float32


def callback(x: Any) -> Any:
    def fails(_: Any) -> Any:
        raise OSError("no such table")

    return jax.pure_callback(fails, jax.ShapeDtypeStruct((3,), "float32"), x)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: x if x.sum() > 0 else -x, r"<lambda>\(f32\[3\]\) cannot be run: TracerBool"),
        (lambda x: x @ jnp.ones((7, 7)), "cannot be run: TypeError: dot_general"),
        (lambda x: x.astype("int16"), "cannot be run: no element type int16"),
        (lambda x: None, "gives no array"),
    ],
)
def test_a_function_that_cannot_be_traced_is_refused_in_a_line(
    function: Callable[..., Any], told: str
) -> None:
    with pytest.raises(RunError, match=told) as caught:
        JaxFunction(function, [TensorType(DType.F32, (3,))], "<lambda>")
    assert "\n" not in str(caught.value)


def test_a_function_that_fails_while_it_runs_is_told_in_a_line() -> None:
    with pytest.raises(RunError, match=r"callback\(f32\[3\]\) cannot be run: ") as caught:
        made(callback, DType.F32).own([np.ones(3)])
    assert "\n" not in str(caught.value)


def test_a_function_of_one_precision_has_no_float64() -> None:
    def counted(x: Any) -> Any:
        return lax.while_loop(lambda y: y.sum() < 9, lambda y: y + x, jnp.zeros(3, "float32"))

    def bits(x: Any) -> Any:
        return lax.bitcast_convert_type(x, jnp.int32)

    run = made(counted, DType.F32)
    assert run.own([np.ones(3)])[0].tolist() == [3, 3, 3]
    with pytest.raises(RunError, match="cannot be run in float64: TypeError"):
        run.double([np.ones(3)])
    with pytest.raises(RunError, match="other shapes in float64"):
        made(bits, DType.F32).double([np.ones(3)])
