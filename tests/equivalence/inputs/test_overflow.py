"""Inputs near the ends of their range, on which the original is finite yet."""

from __future__ import annotations

import numpy as np
import pytest

from aiosearch.equivalence.floats import compare_on
from aiosearch.equivalence.inputs.overflow import overflow_inputs
from aiosearch.equivalence.rounding.machine import OWN, execute
from aiosearch.equivalence.runnables import ExecutedProgram
from aiosearch.tensor import Program, Term, apply, tensor
from aiosearch.tensor.programs import BUILTINS, builtin
from aiosearch.tensor.text import parse


def normed(dtype: str, rows: int = 4, size: int = 512) -> tuple[Program, Program]:
    """Rows that are divided before a product, and behind it."""
    x, w = tensor("X", dtype, (rows, size)), tensor("W", dtype, (size, 32))
    root = apply("sqrt", apply("mean", apply("square", x), axes=(1,), keep=True))
    return Program("first", (x, w), ((x / root) @ w,)), Program("late", (x, w), ((x @ w) / root,))


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_what_is_divided_behind_its_product_overflows(dtype: str) -> None:
    first, late = normed(dtype)
    sides = [ExecutedProgram(one) for one in (first, late)]
    found = [one.inputs(first, 0) for one in overflow_inputs(first, 0)]
    assert any(compare_on(one, *sides, "vast", False).overflows for one in found)
    for inputs in found:
        assert compare_on(inputs, sides[0], sides[0], "vast", False).status == "passed"


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f16"])
def test_what_is_made_small_only_behind_all_products_overflows(dtype: str) -> None:
    """Each input alone may be as large as it likes."""
    x, w, v = (tensor(name, dtype, (16, 16)) for name in "XWV")
    small = 64 if dtype == "f16" else 1000
    first = Program("first", (x, w, v), ((x / small) @ (w / small) @ (v / small),))
    late = Program("late", (x, w, v), ((x @ (w @ v)) / small**3,))
    sides = [ExecutedProgram(one) for one in (first, late)]
    found = [one.inputs(first, 0) for one in overflow_inputs(first, 0)]
    assert any(compare_on(one, *sides, "vast", False).overflows for one in found)
    assert all(compare_on(one, *sides[:1] * 2, "vast", False).status == "passed" for one in found)


def test_high_powers_of_an_input_are_let_down_by_as_much_as_a_single_one() -> None:
    x = tensor("X", "f32", (16, 16))
    first, late = x / 8, x
    for _ in range(4):
        first, late = first @ (x / 8), late @ x
    made = [Program("first", (x,), (first,)), Program("late", (x,), (late / 8**5,))]
    found = [one.inputs(made[0], 0) for one in overflow_inputs(made[0], 0)]
    assert any(
        compare_on(one, *map(ExecutedProgram, made), "vast", False).overflows for one in found
    )


@pytest.mark.parametrize("name", BUILTINS)
def test_built_in_programs_are_finite_on_vast_inputs(name: str) -> None:
    program = builtin(name, "f32", **dict.fromkeys(BUILTINS[name].sizes, 16))
    for one in overflow_inputs(program, 0):
        (found,) = execute(program, OWN, one.inputs(program, 0))
        assert np.isfinite(found).all()


def test_each_input_is_as_large_as_those_before_it_let_it_be() -> None:
    """Once from the first on, and once from the last."""
    x, y = (tensor(name, "f32", (4, 4)) for name in "XY")
    one, other, alike = overflow_inputs(Program("product", (x, y), (x * y,)), 0)
    assert one.powers[0] > 100 > one.powers[1]
    assert other.powers == one.powers[::-1]
    assert 40 < alike.powers[0] == alike.powers[1] < 64
    (alone,) = overflow_inputs(Program("square", (x,), (x * x,)), 0)
    assert 40 < alone.powers[0] < 64


def test_inputs_are_no_larger_than_lets_the_original_say_something() -> None:
    """Where one score is far above all others, rounding decides which."""
    program = builtin("attention", "f32", head=1, row=4, feature=16, key=16, value=16)
    for one in overflow_inputs(program, 0):
        query, key, value = one.powers
        assert value > 100 > query + key
        side = ExecutedProgram(program)
        assert compare_on(one.inputs(program, 0), side, side, "vast", False).status == "passed"


def test_what_needs_positive_numbers_gets_them() -> None:
    program = parse("program root(X: f32[4]) { return sqrt(X) }")
    (found,) = overflow_inputs(program, 0)
    assert np.all(found.inputs(program, 0)[0] > 2.0**80)


@pytest.mark.parametrize(
    "text",
    [
        "program whole(N: i32[4]) { return add(N, 1) }",
        "program wide(X: f64[4]) { return mul(X, 2) }",
        "program far(X: f32[4]) { return log(sub(X, 1000)) }",
        "program bounded(X: f16[4]) { return exp(mul(X, 3)) }",
        "program known() { return iota(shape=[4], axis=0, dtype=f32) }",
    ],
)
def test_where_nothing_can_be_large_there_is_nothing_to_draw(text: str) -> None:
    assert overflow_inputs(parse(text), 0) == []


def test_large_programs_are_looked_at_in_small() -> None:
    x = tensor("X", "bf16", (1 << 15, 1 << 15))
    rows: Term = apply("sum", x, axes=(1,), keep=True)
    (found,) = overflow_inputs(Program("sums", (x,), (rows,)), 0)
    assert found.powers[0] > 90
