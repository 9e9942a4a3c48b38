"""Cutting functions: what becomes a region, what is found once, what is left alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from testkit.programs.opaque import unread

from aiosearch.capture import capture
from aiosearch.optimizer.trace import CutFunction, SpliceError, Subject, cut
from aiosearch.optimizer.trace.equations import classify_equations
from aiosearch.optimizer.trace.flat_jaxpr import inline_calls
from aiosearch.optimizer.trace.traced import trace

SQUARE = jax.ShapeDtypeStruct((6, 6), "float32")


def sizes(made: CutFunction) -> list[int]:
    """The steps of each region."""
    return [len(piece.jaxpr.eqns) for piece in made.regions]


def names_of(subject: Subject) -> set[str]:
    return {term.operator.name for term in subject.program.terms()}


def operators(made: CutFunction) -> list[set[str]]:
    return [names_of(one) for one in made.subjects]


def test_a_function_of_the_language_is_one_region_and_the_program_that_is_captured() -> None:
    def f(x: Any, y: Any) -> Any:
        return jax.nn.softmax(x @ y) @ x, jnp.sum(x * y)

    (subject,) = cut(f, SQUARE, SQUARE).subjects
    assert subject.program == capture(f, SQUARE, SQUARE).program
    assert subject.program.name == "f"


def test_equal_layers_are_one_program() -> None:
    def mlp(params: Any, x: Any) -> Any:
        for weight, bias in params:
            x = jnp.tanh(x @ weight + bias)
        return x

    made = cut(mlp, [(SQUARE, jax.ShapeDtypeStruct((6,), "float32"))] * 4, SQUARE)
    assert len(made.regions) == 4
    assert len(made.subjects) == 1


def test_layers_between_other_steps_are_found_too() -> None:
    def net(params: Any, x: Any) -> Any:
        x = jnp.log1p(x) * 2
        for weight in params:
            x = x + jax.nn.gelu(jax.nn.softmax(x @ x.T) @ x @ weight)
        return jnp.mean(x)

    made = cut(net, [SQUARE] * 5, SQUARE)
    assert len(made.regions) > 4
    assert len(made.subjects) <= 3


def test_layers_that_need_the_same_array_are_found_too() -> None:
    def net(params: Any, x: Any, mask: Any) -> Any:
        shown = jnp.where(mask > 0, 0.0, -1e9)
        for weight in params:
            x = jax.nn.softmax(x @ x.T + shown) @ x @ weight
        return x

    made = cut(net, [SQUARE] * 3, SQUARE, SQUARE)
    assert len(made.subjects) < len(made.regions)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x @ x @ x @ x @ x @ x,
        lambda x: jnp.stack([jnp.tanh(x[i] @ x) for i in range(6)]),
        lambda x: functools.reduce(lambda y, c: y * x + c, [1.0, 2.0, 3.0, 4.0], x),
        lambda x: jnp.exp(jnp.exp(jnp.exp(jnp.exp(x)))),
    ],
    ids=["products", "rows", "polynomial", "exponentials"],
)
def test_what_is_no_layer_stays_together(f: Callable[..., Any]) -> None:
    assert len(cut(f, SQUARE).regions) == 1


def test_a_region_that_is_too_large_is_cut_where_it_is_narrow() -> None:
    def f(x: Any) -> Any:
        for count in range(20):
            x = jnp.sin(x) * jnp.cos(x) + count
        return x

    made = cut(f, SQUARE, largest=16)
    assert sizes(made) == [16, 16, 16, 16, 16]


def test_a_region_without_a_narrow_place_stays_whole() -> None:
    made = cut(lambda x: jnp.stack([jnp.sin(x[i]) for i in range(6)]), SQUARE, largest=4)
    assert len(made.regions) == 1


def test_what_cannot_be_read_parts_regions_and_is_named_with_its_place() -> None:
    def f(x: Any) -> Any:
        y = unread(jnp.exp(x) / 2)
        return jnp.sin(y) * y

    made = cut(f, SQUARE)
    assert [piece.program is not None for piece in made.pieces] == [True, False, True]
    (sentence,) = made.left_alone
    assert sentence.startswith("reduce_precision at ")
    assert Path(__file__).name in sentence


def printed(at: Any, x: Any) -> Any:
    jax.debug.print("{}", at)
    return jnp.sin(x) * x


LEFT_ALONE: dict[str, Callable[..., Any]] = {
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(y), x),
    "while": lambda x: lax.while_loop(lambda y: y[0, 0] < 9, lambda y: y + 1, x),
    "branch": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
    "printing loop": lambda x: lax.fori_loop(0, 3, printed, x),
    "effect": lambda x: jax.debug.print("{}", x),
    "random": lambda x: jax.random.normal(jax.random.key(0), (6, 6)),
    "raw key": lambda x: jax.random.uniform(jax.random.PRNGKey(0), (6, 6)),
    "unread": lambda x: unread(x),
    "whole": lambda x: jnp.arange(6) + jnp.sum(x > 0, axis=0),
    "barrier": lambda x: lax.optimization_barrier(x),
    "precise": lambda x: jnp.matmul(x, x, precision="BF16_BF16_F32"),
    "moved": lambda x: x.T.reshape(-1)[3:],
    "one": lambda x: jnp.sin(x),
    "nothing": lambda x: jnp.ones((6, 6)) / 3,
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_loops_effects_random_numbers_and_what_is_cheap_are_no_regions(name: str) -> None:
    assert not cut(LEFT_ALONE[name], SQUARE).regions


LOOPS: dict[str, Callable[..., Any]] = {
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) * y, x),
    "while": lambda x: lax.while_loop(lambda y: y[0, 0] < 9, lambda y: jnp.sin(y) * y, x),
    "branch": lambda x: lax.cond(x[0, 0] > 0, lambda x: jnp.sin(x) * x, jnp.cos, x),
    "scan": lambda x: lax.scan(lambda c, r: (jnp.sin(r) * r, c), x[0], x),
    "scan in a scan": lambda x: lax.scan(
        lambda c, r: lax.scan(lambda c, s: (jnp.sin(c) * c, s), c, r), x[0], x
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_loop_or_a_branch_runs_is_cut_into_regions(name: str) -> None:
    made = cut(LOOPS[name], SQUARE)
    (piece,) = made.regions
    assert [one.primitive.name for one in piece.jaxpr.eqns] == ["sin", "mul"]
    assert not made.left_alone


def test_what_is_left_alone_in_a_loop_is_named_with_its_place() -> None:
    made = cut(lambda x: lax.fori_loop(0, 3, lambda i, y: unread(y @ x), x), SQUARE)
    (sentence,) = made.left_alone
    assert sentence.startswith("reduce_precision at ")
    assert Path(__file__).name in sentence


def test_a_region_in_a_loop_and_its_equal_outside_of_it_are_one_subject() -> None:
    made = cut(lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) * y, jnp.sin(x) * x), SQUARE)
    assert len(made.regions) == 2
    assert len(made.subjects) == 1


def test_what_a_loop_takes_unchanged_stays_the_same_in_it() -> None:
    def steps(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 3, lambda at, y: y @ w, x)

    (piece,) = cut(steps, SQUARE, SQUARE, constant_argnums=1).regions
    assert len(piece.constant) == 1


def test_labels_are_chosen_within_a_region_and_rows_of_a_large_table_are_not() -> None:
    def loss(x: Any, labels: Any) -> Any:
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1))

    def by_row(x: Any, labels: Any) -> Any:
        return -jnp.mean(jax.nn.log_softmax(x)[jnp.arange(6), labels])

    labels = jnp.arange(6)
    for function in (loss, by_row, jax.value_and_grad(loss), jax.value_and_grad(by_row)):
        made = cut(function, SQUARE, labels)
        assert len(made.regions) == 1
        assert not made.left_alone
    made = cut(lambda table, rows: jnp.tanh(table[rows] * 2), jnp.ones((64, 6)), labels)
    assert len(made.regions) == 1
    (sentence,) = made.left_alone
    assert sentence.startswith("gather (along an axis of 64, which XLA does best) at ")


def test_a_router_of_few_experts_is_a_region() -> None:
    def router(x: Any) -> Any:
        weights, experts = jax.lax.top_k(jax.nn.softmax(x @ x), 2)
        return weights / weights.sum(-1, keepdims=True), experts

    made = cut(router, SQUARE)
    assert len(made.regions) == 1
    assert not made.left_alone


def test_what_no_result_depends_on_is_no_part() -> None:
    def function(x: Any) -> Any:
        unread(x)
        return jnp.tanh(x @ x)

    made = cut(function, SQUARE)
    assert len(made.regions) == 1
    assert not made.left_alone


def test_halves_multiplied_as_halves_are_is_no_precision_of_their_own() -> None:
    half = jax.ShapeDtypeStruct((2, 5, 2, 4), "bfloat16")
    assert len(cut(jax.nn.dot_product_attention, half, half, half).regions) == 1


def test_rows_taken_by_number_are_read_in_double_precision_too() -> None:
    with jax.enable_x64(True):
        made = cut(lambda x: jnp.stack([jnp.sin(x[at]) * at for at in range(3)]), SQUARE)
    assert len(made.regions) == 1
    assert not made.left_alone


def test_calls_are_looked_into() -> None:
    half = jax.jit(lambda x: unread(jax.jit(jnp.tanh)(x) @ x))
    made = cut(jax.jit(lambda x: half(x @ x)), SQUARE)
    (found,) = operators(made)
    assert {"tanh", "matmul"} <= found
    assert sizes(made) == [3]


def test_a_call_with_derivatives_of_its_own_is_whole_in_a_region() -> None:
    made = cut(lambda x: jax.nn.relu(x @ x), SQUARE)
    (piece,) = made.regions
    assert "custom_jvp_call" in [one.primitive.name for one in piece.jaxpr.eqns]
    assert operators(made) == [{"input", "matmul", "literal", "maximum"}]


WAYS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=10
)


@settings(max_examples=40)
@given(WAYS)
def test_every_piece_comes_after_those_that_it_needs(ways: list[tuple[bool, int, int]]) -> None:
    """Whatever depends on whatever, by ways that can be read and by others."""

    def f(x: Any) -> Any:
        values = [x]
        for is_read, one, other in ways:
            both = values[one % len(values)] * values[other % len(values)]
            values.append(both + 1 if is_read else unread(both))
        return values[1:]

    made = cut(f, SQUARE)
    done: set[Any] = set(made.flat.inputs)
    for piece in made.pieces:
        assert done.issuperset(piece.inputs)
        done.update(piece.outputs)
    assert done.issuperset(made.flat.outputs)


def test_regions_that_would_wait_for_each_other_stay_apart() -> None:
    def f(x: Any) -> Any:
        y = jnp.sin(x) * x
        z = unread(y)
        return jnp.cos(z) * y + z, y @ y

    assert len(cut(f, SQUARE).regions) == 2


def test_what_no_argument_has_a_say_in_belongs_to_every_region_that_needs_it() -> None:
    def f(x: Any) -> Any:
        mask = jnp.tril(jnp.ones((6, 6)))
        y = unread(x * mask + mask)
        return y * mask + mask

    made = cut(f, SQUARE)
    assert [len(one.program.inputs) for one in made.subjects] == [1]
    assert len(made.regions) == 2


def test_arrays_that_were_closed_over_are_inputs_and_numbers_are_none() -> None:
    weight = jnp.arange(36.0).reshape(6, 6) ** 2
    made = cut(lambda x: x @ weight + np.full((6, 6), 2.0, np.float32), SQUARE)
    (piece,) = made.regions
    assert len(piece.inputs) == 2
    assert piece.constant == (1,)
    assert piece.program is not None
    assert len(piece.program.inputs) == 2


def test_layers_with_weights_that_were_closed_over_are_one_program() -> None:
    weights = [jnp.arange(36.0).reshape(6, 6) + at for at in range(3)]

    def mlp(x: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x

    made = cut(mlp, SQUARE)
    assert len(made.regions) == 3
    assert len(made.subjects) == 1


def test_constant_arguments_are_known_to_the_regions_that_take_them() -> None:
    made = cut(lambda x, w: jnp.sum(x @ w["a"]), SQUARE, {"a": SQUARE}, constant_argnums=1)
    (piece,) = made.regions
    assert piece.constant == (1,)
    assert [one.parameter("name") for one in piece.program.inputs] == ["x", "w_a"]  # type: ignore[union-attr]


def test_a_program_with_other_constants_is_another_subject() -> None:
    weight = jnp.arange(36.0).reshape(6, 6)

    def f(x: Any, w: Any) -> Any:
        return jnp.tanh(unread(jnp.tanh(x @ w)) @ weight)

    first, second = cut(f, SQUARE, SQUARE).subjects
    assert first.program == second.program
    assert (first.constant, second.constant) == ((), (1,))


def test_a_function_that_cannot_be_traced_is_named_in_a_sentence() -> None:
    def f(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(SpliceError, match="cannot trace f: TracerBoolConversionError: Attempted"):
        cut(f, SQUARE)


def test_what_gives_something_else_than_arrays_is_told_what_that_is() -> None:
    with pytest.raises(SpliceError, match="TypeError: it gives 'text', which is no array"):
        cut(lambda x: [x, "text"], SQUARE)


@pytest.mark.parametrize(
    "error", [AttributeError("shapes"), RuntimeError("no\nmore"), KeyError("w"), AssertionError()]
)
def test_whatever_a_function_raises_on_a_tracer_is_a_sentence(error: Exception) -> None:
    def f(x: Any) -> Any:
        raise error

    with pytest.raises(SpliceError) as found:
        cut(f, SQUARE)
    told = str(found.value)
    assert told.startswith(f"cannot trace f: {type(error).__name__}")
    assert "\n" not in told
    assert not told.endswith(": ")


def test_static_arguments_that_are_left_to_their_defaults_are_none() -> None:
    def f(x: Any, n: int = 2, *, m: int = 3) -> Any:
        return jnp.tanh(x @ x.T) * n * m

    options: dict[str, Any] = {"static_argnums": (1,), "static_argnames": "m"}
    assert cut(f, SQUARE, **options).call.static == {}
    assert cut(f, SQUARE, 4, m=5, **options).call.static == {1: 4, "m": 5}


def test_a_static_argument_has_to_be_hashed() -> None:
    with pytest.raises(SpliceError, match="argument 1 cannot be hashed: it is of the type list"):
        cut(lambda x, n: x, SQUARE, [1], static_argnums=1)


def test_a_region_takes_the_functions_arguments_in_their_order() -> None:
    """Layers that are alike are one program all the same."""

    def f(x: Any, params: Any) -> Any:
        for weight, bias in params:
            x = jnp.tanh(bias + weight.T @ x)
        return x

    (subject,) = cut(lambda a, b: jnp.trace(jnp.exp(b) @ a), SQUARE, SQUARE).subjects
    assert [one.parameter("name") for one in subject.program.inputs] == ["a", "b"]
    made = cut(f, SQUARE, [(SQUARE, SQUARE)] * 3)
    assert len(made.regions) == 3
    (subject,) = made.subjects
    names = [one.parameter("name") for one in subject.program.inputs]
    assert names == ["x", "params_0_0", "params_0_1"]


def test_a_cut_tells_the_settings_under_which_it_was_traced() -> None:
    with jax.enable_x64(True):
        traced = trace(jnp.tanh, SQUARE)
    assert traced.cut().settings.enable_x64


def test_what_was_traced_is_cut_the_same_in_any_thread() -> None:
    """Settings of jax are a thread's own; cutting asks for none."""

    def f(x: Any) -> Any:
        return jnp.tanh(x @ x.T) @ jnp.arange(6.0)

    wide = jax.ShapeDtypeStruct((6, 6), "float64")
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        traced, here = trace(f, wide), cut(f, wide)
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(traced.cut).result()
    assert there.subjects == here.subjects
    assert there.left_alone == here.left_alone
    assert [str(one.jaxpr) for one in there.pieces] == [str(one.jaxpr) for one in here.pieces]
    assert len(here.subjects) == 1


def products(**options: Any) -> CutFunction:
    """A function of two products, of which these options are for the first."""
    return cut(lambda x: jnp.tanh(jnp.matmul(x, x, **options)) @ x, SQUARE)


@pytest.mark.parametrize("setting", ["highest", "float32", "tensorfloat32", "BF16_BF16_F32"])
def test_the_precision_that_every_product_has_is_none_of_their_own(setting: str) -> None:
    """What stands in their place has it as well, where it runs."""
    with jax.default_matmul_precision(setting):
        assert sizes(products()) == [3]
        asks_for_less = setting == "BF16_BF16_F32"
        assert sizes(products(precision="default")) == [2 if asks_for_less else 3]
    assert not products().left_alone


def test_a_precision_of_its_own_leaves_a_product_alone() -> None:
    made = products(precision="BF16_BF16_F32")
    assert made.left_alone[0].startswith("dot_general (it asks for a precision)")
    assert sizes(made) == [2]


@pytest.mark.parametrize("level", ["highest", "high", "default"])
def test_a_cpu_has_one_level_of_precision_for_products_of_single_precision(level: str) -> None:
    def f(a: Any, b: Any) -> Any:
        return jnp.diag(jnp.dot(a, b, precision=level))

    assert len(cut(f, SQUARE, SQUARE).regions) == 1
    assert not products(precision=level).left_alone


def test_a_level_of_precision_counts_where_no_cpu_runs_the_product() -> None:
    flat = inline_calls(jax.make_jaxpr(lambda x: jnp.matmul(x, x, precision="highest"))(SQUARE))
    refusals = {cpu: classify_equations(flat, on_cpu=cpu)[0].refusal for cpu in (False, True)}
    assert "it asks for a precision" in refusals[False]
    assert not refusals[True]


@pytest.mark.parametrize(
    ("function", "dtype", "told"),
    [
        (lambda x: (x * x + x) @ x, "int32", "what computes with whole numbers alone"),
        (lambda x: (x * x + x) @ x, "complex64", "mul (no element type complex64"),
        (lambda x: x + 1, "float32", "operations that stand alone"),
        (lambda x: x.T.reshape(-1), "float32", "what only moves, repeats or converts elements"),
        (lambda x: x, "float32", "it computes nothing"),
    ],
)
def test_where_nothing_is_searched_there_is_a_reason(function: Any, dtype: str, told: str) -> None:
    made = cut(function, jnp.ones((4, 4), dtype))
    assert not made.regions
    assert made.left_alone[0].startswith(told)


def test_what_is_static_for_jit_has_to_be_for_optimize() -> None:
    """A jitted function does not tell; what to do is said."""
    jitted = jax.jit(lambda x, n: x**n, static_argnums=1)
    with pytest.raises(SpliceError, match=r"give it the same static_argnums"):
        cut(jitted, jnp.ones(3), 5)
    assert cut(jitted, jnp.ones(3), 5, static_argnums=1)


@pytest.mark.parametrize(("rows", "programs"), [(131_072, 1), (1024, 2)])
def test_layers_that_rows_stream_through_are_one_program(rows: int, programs: int) -> None:
    """Blocks of rows run through all of them, where what lies between does not fit a cache."""

    def net(x: Any, w: Any, v: Any) -> Any:
        return jnp.tanh(jnp.tanh(jnp.tanh(x @ w) @ w) @ v)

    shapes = ((rows, 64), (64, 64), (64, 16))
    found = cut(net, *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes))
    assert len({piece.subject for piece in found.regions}) == programs
