"""Programs run in their own types, and round what they write to memory."""

from __future__ import annotations

import weakref

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testkit.programs.float_pairs import over

from aiosearch.equivalence.rounding.machine import (
    LEAST,
    OWN,
    UNIT,
    RoundingMachine,
    execute,
    rounded,
)
from aiosearch.tensor import (
    Block,
    DType,
    Floats,
    Program,
    apply,
    literal,
    read,
    tensor,
    write,
)
from aiosearch.tensor.floats import Array


def run(program: Program, *inputs: Array) -> Array:
    return execute(program, OWN, [np.asarray(value) for value in inputs])[0]


@given(st.lists(st.floats(width=32), max_size=20))
def test_half_precision_rounds_as_numpy_does(numbers: list[float]) -> None:
    x = np.array(numbers, np.float32)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
        found = rounded(x, DType.F16)
    assert np.array_equal(found.astype(np.float16), expected, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(expected))
    assert found.dtype == np.float32


@given(st.floats(width=32, allow_nan=False))
def test_brain_floats_are_the_nearest_and_even_on_ties(number: float) -> None:
    x = np.array([number], np.float32)
    found = rounded(x, DType.BF16)
    bits = int(found.view(np.uint32)[0])
    assert bits & 0xFFFF == 0
    if not np.isfinite(found[0]):
        assert np.isinf(number) or abs(number) >= 2.0**127 * (2 - 2.0**-8)
        return
    own = abs(float(found[0]) - float(number))
    for other in (bits - 0x10000, bits + 0x10000):
        neighbour = np.array([other & 0xFFFFFFFF], np.uint32).view(np.float32)[0]
        if not np.isfinite(neighbour):
            continue
        away = abs(float(neighbour) - float(number))
        assert own < away or (own == away and bits & 0x10000 == 0) or bits & 0x7FFFFFFF == 0


def test_brain_floats_keep_nan_infinity_and_signed_zero() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 3.4e38], np.float32)
    x.view(np.uint32)[0] = 0x7F800001
    found = rounded(x, DType.BF16)
    assert np.isnan(found[0])
    assert found[1:3].tolist() == [np.inf, -np.inf]
    assert np.signbit(found[3])
    assert np.isinf(found[4])


@pytest.mark.parametrize("dtype", UNIT)
def test_units_and_least_numbers_are_those_of_the_type(dtype: DType) -> None:
    one = np.array([1.0])
    assert rounded(one + UNIT[dtype], dtype)[0] == 1
    assert rounded(one + 2 * UNIT[dtype], dtype)[0] > 1
    assert rounded(one * LEAST[dtype], dtype)[0] == LEAST[dtype]


def test_each_operator_of_a_half_program_rounds_its_result_to_memory() -> None:
    x = tensor("X", "f16", (100,))
    value = np.random.default_rng(0).standard_normal(100).astype(np.float16)
    found = run(over(x)(apply("exp", x * x) + x), value.astype(np.float32))
    wide = (value.astype(np.float32) ** 2).astype(np.float16)
    e = np.exp(wide.astype(np.float32)).astype(np.float16)
    expected = (e.astype(np.float32) + value.astype(np.float32)).astype(np.float16)
    assert np.array_equal(found, expected.astype(np.float32))


def test_tiles_and_registers_of_a_half_kernel_are_not_rounded() -> None:
    x = tensor("X", "f16", (4, 8))
    block = Block(grid=(2,))
    tile = read(block.accumulate(block.load(x, (0,))))
    (fused,) = block.results((write((tile * 30000) / 60000), (0,)))
    value = np.full((4, 8), 8.0, np.float32)
    assert np.all(run(over(x)(fused), value) == 4)
    assert np.all(np.isinf(run(over(x)((x * 30000) / 60000), value)))


def test_a_cast_within_a_kernel_rounds() -> None:
    x = tensor("X", "f32", (4,))
    block = Block(grid=(1,))
    tile = block.accumulate(block.load(x))
    narrow = apply("cast", apply("cast", tile, dtype="f16"), dtype="f32")
    (out,) = block.results((narrow, ()))
    value = np.float32([1 + 2**-13, 70000, 1, 2**-30])
    assert run(over(x)(out), value).tolist() == [1, np.inf, 1, 0]


def test_single_precision_stays_single_beside_literals_and_double_stays_double() -> None:
    for dtype, type_ in (("f32", np.float32), ("f64", np.float64)):
        x = tensor("X", dtype, (5,))
        value = np.linspace(1, 2, 5, dtype=type_)
        found = run(over(x)(apply("silu", x) / 3 + literal(0.1)), value)
        assert found.dtype == type_
    both = apply("cast", tensor("X", "f32", (5,)), dtype="f64") / 3
    found = run(over(tensor("X", "f32", (5,)))(both), np.linspace(1, 2, 5, dtype=np.float32))
    assert np.array_equal(found, np.linspace(1, 2, 5, dtype=np.float32).astype(np.float64) / 3)


def test_sums_are_as_accurate_along_each_axis() -> None:
    value = np.full((4096, 4), 0.1, np.float32)
    x = tensor("X", "f32", (4096, 4))
    found = run(over(x)(apply("sum", x, axes=(0,))), value)
    assert np.all(np.abs(found - 4096 * np.float64(np.float32(0.1))) < 1e-4)


def test_values_are_let_go_after_their_last_use() -> None:
    x = tensor("X", "f32", (1024,))
    chain = x
    for _ in range(20):
        chain = apply("exp", -chain)
    alive: list[weakref.ref[Array]] = []
    most = 0

    def store(value: Array, dtype: DType) -> Array:
        nonlocal most
        alive.append(weakref.ref(value))
        most = max(most, sum(one() is not None for one in alive))
        return value

    algebra = Floats(np.float64)
    machine = RoundingMachine(lambda _: algebra, lambda value, _: value, store)
    (found,) = execute(over(x)(chain), machine, [np.zeros(1024)])
    assert np.isfinite(found).all()
    assert most <= 3


def test_an_input_may_be_an_output() -> None:
    x = tensor("X", "f32", (2,))
    assert run(over(x)(x, x + 1), np.float32([1, 2])).tolist() == [1, 2]


def test_bfloat16_is_rounded_alike_in_every_block() -> None:
    """Ties to even, infinities and nans, across the edges of blocks and in any shape."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, 3 * (1 << 16) + 5, np.uint32)
    values = bits.view(np.float32)
    with np.errstate(all="ignore"):
        expected = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(rounded(values, "bf16"), expected)
    turned = values[:-5].reshape(3, -1).T
    np.testing.assert_array_equal(rounded(turned, "bf16"), expected[:-5].reshape(3, -1).T)
    assert rounded(np.asarray(np.float32(1.0039062)), "bf16").shape == ()
