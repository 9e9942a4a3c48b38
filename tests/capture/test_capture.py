"""Capturing a function: its inputs, its constants, what is refused, and how it is said."""

from __future__ import annotations

import functools
import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aiosearch.capture import CaptureError, capture
from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.codegen.lower.lowering import lower
from aiosearch.tensor import DType, Program, apply, literal, tensor
from aiosearch.tensor.referee import run

X = tensor("x", "f32", (6, 6))
SQUARE = jax.ShapeDtypeStruct((6, 6), "float32")


def captured(function: Callable[..., Any], *args: Any) -> Program:
    return capture(function, *args or (SQUARE,)).program


def output(function: Callable[..., Any], *args: Any) -> Any:
    return captured(function, *args).outputs[0]


def names(program: Program) -> list[str]:
    return [one.parameter("name") for one in program.inputs]


def operators(program: Program) -> list[str]:
    return [term.operator.name for term in program.terms()]


def test_inputs_are_named_after_parameters_and_the_way_into_their_trees() -> None:
    def layer(params: Any, x: Any, *more: Any) -> Any:
        return params["w"][0] @ x + params["b"] + more[1]

    params = {"w": [SQUARE], "b": 1.0}
    program = captured(layer, params, SQUARE, SQUARE, SQUARE)
    assert program.name == "layer"
    assert names(program) == ["params_b", "params_w_0", "x", "more0", "more1"]
    assert [one.shape for one in program.inputs] == [(), *[(6, 6)] * 4]


def test_inputs_whose_names_would_meet_are_told_apart() -> None:
    def f(x_0: Any, x: Any) -> Any:
        return x_0 + x[0]

    assert names(captured(f, SQUARE, [SQUARE])) == ["x_0", "x_0_2"]


def test_a_function_without_a_signature_or_a_name_is_captured_too() -> None:
    """A partial has its function's name; an object has none."""
    program = captured(functools.partial(jnp.sum, axis=0))
    assert program.name == "sum"
    assert names(program) == ["a"]
    assert captured(operator.itemgetter(0)).name == "itemgetter"
    assert capture(jnp.exp, SQUARE, name="grows").program.name == "grows"


def test_arrays_and_what_stands_for_them_give_one_program() -> None:
    assert captured(jnp.tanh) == captured(jnp.tanh, np.ones((6, 6), np.float32))


def test_constants_become_inputs_named_by_what_they_hold() -> None:
    weights = np.arange(36, dtype=np.float32).reshape(6, 6) ** 2
    one = capture(lambda x: x @ weights, SQUARE)
    two = capture(lambda x: x @ jnp.asarray(weights.copy()), SQUARE)
    assert one.program == two.program
    (name,) = one.constants
    assert names(one.program) == ["x", name]
    np.testing.assert_array_equal(one.constants[name], weights)


def test_a_constant_that_is_one_number_or_counts_is_no_input() -> None:
    both = capture(lambda x: x * np.full((6, 6), 2.0, np.float32) + np.arange(6)[None], SQUARE)
    assert not both.constants
    assert names(both.program) == ["x"]


def test_a_constant_that_nothing_needs_is_left_out() -> None:
    def f(x: Any) -> Any:
        jnp.cumsum(x @ np.eye(6, dtype=np.float32))
        return x

    assert captured(f).outputs == (X,)
    assert not capture(f, SQUARE).constants


def test_calls_are_read_as_what_they_call() -> None:
    @jax.custom_vjp
    def twice(x: Any) -> Any:
        return x * 2

    twice.defvjp(lambda x: (twice(x), None), lambda _, g: (g * 2,))
    inner = jax.jit(jax.checkpoint(lambda x: jax.nn.relu(twice(x))))
    expected = apply("maximum", X * 2, literal(0))
    assert output(lambda x: inner(x)) is expected


REFUSED: dict[str, Callable[..., Any]] = {
    "cumprod": lambda x: jnp.cumprod(jnp.tile(x, (6, 1)), axis=0),
    "sort": lambda x: jnp.sort(jnp.tile(x, (1, 6))),
    "top_k": lambda x: lax.top_k(jnp.tile(x, (1, 6)), 2)[0],
    "reduce_prod": lambda x: jnp.prod(jnp.tile(x, (6, 1))),
    "scan": lambda x: lax.fori_loop(0, 100, lambda i, y: y * 2, x),
    "while": lambda x: lax.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
    "rem": lambda x: x.astype(int) % x[0].astype(int),
    "dynamic_update_slice": lambda x: lax.dynamic_update_index_in_dim(
        x, x[0], x[0, 0].astype(int), 0
    ),
    "gather": lambda x: x[x[0].astype(int), x[1].astype(int)],
    "scatter-add": lambda x: x.at[x[0].astype(int), x[1].astype(int)].add(1.0),
    "scatter": lambda x: x.at[jnp.array([0, 2])].set(1.0),
    "select_n": lambda x: lax.select_n(x.astype(int), x, x, x),
    "div": lambda x: lax.div(x.astype(int), 3),
    "convert_element_type": lambda x: x * 1j,
    "round": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "conv_general_dilated": lambda x: lax.conv_general_dilated(
        x.reshape(2, 3, 3, 2), x[:2, :3].reshape(2, 3, 1, 1), (1, 1), "SAME", batch_group_count=2
    ),
    "pure_callback": lambda x: jax.pure_callback(np.sin, x, x),
    "random_seed": lambda x: x + jax.random.uniform(jax.random.key(0), (6, 6)),
}


@pytest.mark.parametrize("primitive", REFUSED)
def test_what_the_language_cannot_say_is_refused_by_name_and_line(primitive: str) -> None:
    with pytest.raises(CaptureError) as caught:
        captured(REFUSED[primitive])
    assert caught.value.primitive == primitive
    assert str(caught.value).startswith(f"cannot judge: {primitive} stands in the way")
    assert "test_capture.py:" in caught.value.where


def test_a_constant_of_another_kind_is_refused() -> None:
    with pytest.raises(CaptureError, match="a constant stands in the way: no element type complex"):
        captured(lambda x: jnp.real(1j * jnp.exp(1j)) + x)


def test_a_zero_below_zero_is_refused() -> None:
    """It is not the one above: what divides by it is infinite on the other side."""
    with pytest.raises(CaptureError, match="a zero below zero, which the language has not"):
        captured(lambda x: jnp.maximum(x, -0.0), jax.ShapeDtypeStruct((3,), "float32"))


@pytest.mark.parametrize("zeros", [[0.0, -0.0] * 3, [-0.0] * 6], ids=str)
def test_arrays_of_zeros_below_zero_stay_arrays(zeros: list[float]) -> None:
    """Whether or not there are zeros above among them, they are no single number."""
    held = jnp.asarray(zeros)
    assert len(captured(lambda x: jnp.maximum(x, held)).inputs) == 2


def test_a_random_key_that_is_closed_over_is_refused() -> None:
    key = jax.random.key(0)
    with pytest.raises(CaptureError, match="a constant stands in the way: no element type key"):
        captured(lambda x: x + jax.random.uniform(key))


def test_whole_exponents_are_those_of_floats() -> None:
    count = jax.ShapeDtypeStruct((6,), "int32")
    (found,) = captured(lambda n: jnp.float32(2.0) ** -n, count).outputs
    given = tensor("n", DType.I32, (6,))
    assert found is apply("exponential", apply("cast", -given, dtype=DType.F32), base=2)


def test_a_branch_that_python_takes_by_value_is_refused() -> None:
    with pytest.raises(CaptureError, match="depends on what its arguments hold"):
        captured(lambda x: x if x[0, 0] > 0 else -x)


def test_element_types_that_the_language_lacks_are_refused() -> None:
    with pytest.raises(CaptureError, match="no element type int16"):
        captured(lambda x: x, jax.ShapeDtypeStruct((3,), "int16"))


@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_eight_bits_are_cast_and_moved_and_nothing_is_computed_in_them(name: str) -> None:
    """What wraps around in so few bits has no meaning that could be proved equal to another."""
    given = jax.ShapeDtypeStruct((3,), name)
    q = tensor("q", "i8" if name == "int8" else "u8", (3,))
    assert output(lambda q: q.astype("float32"), given) is apply("cast", q, dtype="f32")
    assert output(lambda q: q[::-1], given).dtype is q.dtype
    few = jnp.asarray(100, name)
    computed: list[Callable[[Any], Any]] = [
        lambda q: q + q,
        lambda q: q.max(),
        lambda q: (q > 1).astype(name),
        lambda q: jnp.arange(300, dtype=name)[: q.size].astype("float32"),
        lambda q: q.astype("float32") - (few + few).astype("float32"),
        lambda q: q.astype("float32") - (-few).astype("float32"),
    ]
    for one in computed:
        with pytest.raises(CaptureError):
            captured(one, given)


def test_a_dead_primitive_does_not_stand_in_the_way() -> None:
    assert output(lambda x: (jnp.sort(x), jnp.exp(x))[1]) is apply("exp", X)


# What programs look like


def test_a_softmax_is_written_as_one_would_by_hand() -> None:
    grown = apply("exp", X - apply("max", X, axes=[1], keep=True))
    assert output(jax.nn.softmax) is grown / apply("sum", grown, axes=[1], keep=True)


def test_a_sum_divided_by_its_count_is_a_mean() -> None:
    expected = apply("mean", X, axes=[1], keep=True)
    assert output(lambda x: x.mean(1, keepdims=True)) is expected
    assert output(lambda x: x.sum(1)[:, None] / 6) is expected
    assert "mean" not in operators(captured(lambda x: x.sum(1) / 5))


def test_diagonals_are_found_in_every_spelling() -> None:
    diagonal = apply("diagonal", X)
    assert output(lambda x: x[np.arange(6), np.arange(6)]) is diagonal
    assert output(lambda x: jnp.einsum("ii->i", x)) is diagonal
    assert output(lambda x: jnp.trace(x)) is apply("sum", diagonal, axes=[0])
    assert output(lambda x: jnp.where(jnp.eye(6, dtype=bool), x, 0).sum(1)) is diagonal


def test_repeated_arrays_stay_small_until_they_are_needed_whole() -> None:
    row = jax.ShapeDtypeStruct((6,), "float32")
    program = captured(lambda x, r: x + jnp.broadcast_to(r, (6, 6)), SQUARE, row)
    assert operators(program) == ["input", "input", "reshape", "add"]
    assert output(lambda r: jnp.broadcast_to(r, (4, 6)), row).shape == (4, 6)


def test_what_is_transposed_and_reshaped_twice_is_so_once() -> None:
    assert output(lambda x: x.T.T) is X
    assert output(lambda x: x.reshape(2, 3, 6).reshape(6, 6)) is X


def test_an_output_that_needs_no_input_has_its_type_and_shape() -> None:
    found = output(lambda x: jnp.full((2, 3), 0.5, jnp.float16))
    assert (found.dtype, found.shape) == ("f16", (2, 3))


# Literals and element types


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_literals_mean_what_was_written_in_every_element_type(dtype: str) -> None:
    x = jax.ShapeDtypeStruct((6,), dtype)
    with jax.enable_x64(True):
        for number in (0.1, 1 / 3, -0.3, 0.7, 0.01, 0.044715, 3.0, 1e-6, 0.125):
            found = output(lambda x, number=number: x * number, x).arguments[1]
            assert found.parameter("value") == pytest.approx(number, rel=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_literal_that_is_a_root_is_read_as_one(dtype: str) -> None:
    x = jax.ShapeDtypeStruct((6,), dtype)
    half = output(lambda x: x * float(1 / np.sqrt(2)), x)
    assert half.arguments[1] is apply("rsqrt", literal(2))
    minus = output(lambda x: x * float(-1 / np.sqrt(80)), x)
    assert minus.arguments[1] is apply("neg", apply("rsqrt", literal(80)))
    assert output(lambda x: x * float(np.sqrt(2 / 3)), x).arguments[1].operator.name == "sqrt"


def test_powers_of_a_number_are_no_products_with_its_logarithm() -> None:
    """Which would be rounded, and is not where jax computes a power."""
    assert output(lambda x: 2.0**x) is apply("exponential", X, base=2.0)
    assert output(lambda x: jnp.power(0.3, x)).operator.name == "exponential"
    assert output(lambda x: jnp.power(-2.0, x)).operator.name == "pow"


def test_numbers_count_to_the_last_digit_where_there_are_floats() -> None:
    """In an exponent, and below one: what is simpler by half a unit of f32 is another number."""
    base = 0.9976543210123

    def f(x: Any) -> Any:
        return base**x, x**base, jnp.clip(x, base, 2000)

    with jax.enable_x64(True):
        program = captured(f, jax.ShapeDtypeStruct((3,), "float64"))
        x = np.array([0.5, 800.0, 8000.0])
        for found, wanted in zip(run(program, [x]), f(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-15)
        for found, wanted in zip(interpret(lower(program), [x]), f(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_the_base_of_a_power_is_the_number_that_the_array_has() -> None:
    """What it lacks of the number that was written counts with the exponent."""
    terms = captured(lambda x: 0.99**x, jax.ShapeDtypeStruct((6,), "bfloat16")).terms()
    powers = [one for one in terms if one.operator.name == "exponential"]
    assert [one.parameter("base") for one in powers] == [0.98828125]


def test_powers_of_two_with_a_literal_logarithm_are_exponentials() -> None:
    rate = apply("log", literal(2))
    halved = apply("mul", X, apply("reciprocal", rate))
    expected = apply("exp", apply("mul", halved, rate))
    assert output(lambda x: jnp.exp2(x * 1.4426950408889634)) is expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_rounded_where_jax_rounds(dtype: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return jnp.mean(x @ y, axis=-1) + jax.nn.gelu(x).sum(-1)

    random = np.random.default_rng(3)
    inputs = [jnp.asarray(random.standard_normal((5, 5)), dtype) for _ in range(2)]
    program = captured(f, *inputs)
    assert program.outputs[0].dtype == {"float16": "f16", "bfloat16": "bf16"}[dtype]
    assert "cast" in operators(program)
    (found,) = run(program, [np.asarray(one, np.float64) for one in inputs])
    np.testing.assert_allclose(found, np.asarray(f(*inputs), np.float64), rtol=0.05, atol=0.05)


def test_double_precision_stays_double() -> None:
    with jax.enable_x64(True):
        x = np.linspace(0.0, 1.0, 6)
        program = captured(lambda x: x * jnp.arange(6) / 3, x)
        assert program.outputs[0].dtype == "f64"
        np.testing.assert_allclose(run(program, [x])[0], x * np.arange(6) / 3)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda: jnp.full(6, 2**30) * 4, 0),
        (lambda: jnp.full(6, 2**31 - 1) + 1, -(2**31)),
        (lambda: jnp.full(6, -(2**31)) - jnp.ones(6, int), 2**31 - 1),
        (lambda: -jnp.full(6, -(2**31)), -(2**31)),
        (lambda: jnp.abs(jnp.full(6, -(2**31))), -(2**31)),
        (lambda: jnp.square(jnp.full(6, 2**16)), 0),
        (lambda: (jnp.full(6, 2**30) * 2).astype(float), -(2.0**31)),
    ],
)
def test_whole_numbers_that_are_known_wrap_as_they_do_when_it_runs(
    function: Callable[[], Any], wanted: int
) -> None:
    (found,) = run(captured(lambda x: x * 0 + function()), [np.ones((6, 6))])
    np.testing.assert_array_equal(found, np.full((6, 6), wanted))


def test_whole_numbers_that_are_chosen_have_their_type_where_they_may_wrap() -> None:
    """Others stay literals, which meet floats and whole numbers alike."""
    x = jax.ShapeDtypeStruct((6,), "int32")
    for most, wanted in ((2**29, "weak"), (2**30, "i32")):
        found = output(lambda x, most=most: jnp.where(x > 0, most, 3) * 2 > x, x)
        assert found.arguments[1].dtype == wanted


def test_longer_whole_numbers_that_are_known_have_room() -> None:
    with jax.enable_x64(True):
        program = captured(lambda x: x + (jnp.full(6, 2**30) * 4).astype(float))
    np.testing.assert_array_equal(run(program, [np.ones((6, 6))])[0], np.full((6, 6), 2.0**32 + 1))


def test_a_wide_product_of_narrow_tensors_is_done_in_the_wide_type() -> None:
    half = jax.ShapeDtypeStruct((6, 6), "bfloat16")
    found = output(lambda x: jnp.matmul(x, x, preferred_element_type=jnp.float32), half)
    assert [term.dtype for term in (found, *found.arguments)] == ["f32"] * 3


def test_empty_axes_are_carried_along() -> None:
    program = captured(lambda x: jnp.concatenate([x[:, :0], x], 1) + x[:, 3:3].sum(1))
    (found,) = run(program, [np.ones((6, 6))])
    np.testing.assert_array_equal(found, np.ones((6, 6)))


def test_the_package_loads_no_jax_before_something_is_captured() -> None:
    code = "import sys, aiosearch.capture; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_object_that_is_called_has_the_name_of_its_class() -> None:
    class Layer:
        def __call__(self, x: Any) -> Any:
            return x + 1

    assert captured(Layer()).name == "Layer"
