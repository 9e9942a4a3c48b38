"""The noise of a value is what rounding explains: not less, and not much more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from testkit.programs.float_pairs import RIGHT, elementwise, over, softmax
from testkit.programs.random_programs import random_program

from aiosearch.equivalence.float_differences import MARGIN, measured, real
from aiosearch.equivalence.inputs.distributions import draw_inputs
from aiosearch.equivalence.rounding.machine import MOST, execute
from aiosearch.equivalence.rounding.noise import (
    REAL,
    TYPED,
    Noise,
    NoisyArray,
    exactly,
    stored,
    stored_inputs,
)
from aiosearch.tensor import DType, Floats, Program, Term, apply, evaluate, literal, referee, tensor
from aiosearch.tensor.floats import Array


def measure(term: Term, *inputs: Sequence[float]) -> NoisyArray:
    names = [tensor("XYZ"[index], "f64", np.shape(value)) for index, value in enumerate(inputs)]
    program = Program("p", tuple(names), (term,))
    return execute(program, REAL, [exactly(np.asarray(value, np.float64)) for value in inputs])[0]


X = tensor("X", "f64", (4,))


@pytest.mark.parametrize("start", range(0, 200, 40))
def test_random_programs_have_the_values_of_the_referee_and_enough_noise(start: int) -> None:
    wide = Floats(np.longdouble)
    for seed in range(start, start + 40):
        program = random_program(seed)
        for name in ("normal", "zeros", "integers"):
            inputs = draw_inputs(program, name, seed)
            noisy_outputs = measured(program, inputs)
            plain = referee.run(program, inputs)
            with np.errstate(all="ignore"):
                exact = evaluate(program, wide, [_wide(value) for value in inputs])
            for noisy, value, precise in zip(noisy_outputs, plain, exact, strict=True):
                _check(noisy, value, np.asarray(precise, np.longdouble))


def _wide(value: Array) -> Array:
    return value if value.dtype == np.bool_ else value.astype(np.longdouble)


def _check(noisy: NoisyArray, plain: Array, exact: Array) -> None:
    assert noisy.value.shape == plain.shape
    certain = ~np.broadcast_to(noisy.unsure, plain.shape)
    with np.errstate(all="ignore"):
        for reference in (plain, exact):
            near = np.abs(noisy.value - reference) <= MARGIN * noisy.spread
            same = (np.isnan(noisy.value) & np.isnan(reference)) | (noisy.value == reference)
            assert np.all(near | same | ~certain)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_the_noise_of_a_sound_program_is_a_few_roundings(name: str, dtype: str) -> None:
    for program in RIGHT[name](dtype):
        inputs = draw_inputs(program, "normal", 0)
        (noisy,) = execute(program, TYPED, stored_inputs(program, inputs))
        (plain,) = real(program, inputs)
        assert np.array_equal(noisy.value, plain)
        size = np.sqrt(np.mean(plain**2))
        unit = 2.0**-11 if dtype == "f16" else 2.0**-24
        assert np.median(noisy.spread) < 128 * unit * size
        assert np.median(noisy.spread) > unit * size / 4


def test_cancellation_leaves_the_noise_of_what_was_cancelled() -> None:
    noisy = measure((X + 1e10) - 1e10, [1.0, 2.0, 3.0, 4.0])
    assert np.all(noisy.spread > 1e-7)
    assert np.all(noisy.spread < 1e-5)


def test_a_value_less_itself_is_exactly_zero() -> None:
    noisy = measure(1 / (X - X), [1.0, 2.0, 3.0, 4.0])
    assert np.all(np.isinf(noisy.value))
    assert not noisy.unsure.any()


@pytest.mark.parametrize(
    "term",
    [
        1 / (X * 3 - X - X * 2 + 1e-17),
        apply("log", X / 3 * 3 - X),
        apply("sqrt", X / 49 * 49 - X - 1e-18),
    ],
)
def test_where_noise_decides_whether_a_value_is_finite_it_is_unsure(term: Term) -> None:
    assert measure(term, [1.1, 2.3, 3.7, 5.9]).unsure.all()


def test_infinities_and_nans_of_exact_operands_are_certain() -> None:
    for term in (1 / X, apply("log", X), apply("sqrt", X - 1), apply("exp", X + 1e4)):
        noisy = measure(term, [0.0, 0.0, 0.0, 0.0])
        assert not np.isfinite(noisy.value).any()
        assert not noisy.unsure.any()


def test_a_masked_maximum_is_certain_in_spite_of_infinities() -> None:
    masked = X + apply("log", X * 0)
    noisy = measure(apply("exp", masked - apply("max", X, axes=(0,), keep=True)), [1.0] * 4)
    assert noisy.value.tolist() == [0] * 4
    assert not noisy.unsure.any()


def test_a_comparison_that_noise_decides_leaves_the_difference_open() -> None:
    chosen = apply("select", apply("less", X / 49 * 49, X), X, -X)
    assert np.all(measure(chosen, [1.0, 2.0, 3.0, 5.0]).spread >= 2)
    clear = apply("select", apply("less", X / 49 * 49, X + 1), X, -X)
    assert np.all(measure(clear, [1.0, 2.0, 3.0, 5.0]).spread < 1e-12)


def test_the_noise_of_what_vanishes_vanishes_with_it() -> None:
    """It grows beside the value; where that is zero, which it is not, the least number is left."""
    noisy = measure(apply("erfc", X / 3), [3.0, 15.0, 60.0, 90.0])
    share = noisy.spread[:3] / noisy.value[:3]
    assert (np.diff(share) > 0).all()
    assert (share < 2.0**-40).all()
    assert noisy.value[3] == 0 < noisy.spread[3]


def test_counting_functions_are_open_where_noise_decides_the_count() -> None:
    assert np.all(measure(apply("floor", X / 49 * 49), [1.0, 2.0, 3.0, 5.0]).spread >= 1)
    assert np.all(measure(apply("floor", X / 49 * 49), [1.5, 2.5, 3.5, 5.5]).spread < 1e-12)


def test_rounding_to_a_whole_number_keeps_the_noise_of_large_ones() -> None:
    noisy = measure(apply("round", apply("exp", X)), [60.0, 70.0, 80.0, 90.0])
    assert np.all(noisy.spread >= noisy.value * 2.0**-54)


def test_an_oscillating_function_of_noise_is_noise() -> None:
    noisy = measure(apply("sin", apply("exp", X)), [100.0, 200.0, 300.0, 400.0])
    assert np.all(noisy.spread > 0.01)


def test_whole_numbers_that_a_type_can_hold_are_exact_in_memory() -> None:
    index = apply("iota", shape=(8,), axis=0, dtype="f16")
    picked = execute(over(tensor("X", "f32", (1,)))(index), TYPED, [exactly(np.zeros(1))])[0]
    assert not picked.spread.any()


def test_what_is_not_finite_is_given_without_noise() -> None:
    value = stored(np.float32([np.nan, 1, np.inf]), DType.F32)
    assert not value.unsure.any()


def test_functions_of_two_arguments_take_the_noise_of_both() -> None:
    y = tensor("Y", "f64", (4,))
    noisy = measure(apply("pow", X / 3, y / 3), [1.0, 2.0, 3.0, 5.0], [30.0, 20.0, 10.0, 40.0])
    exact = np.power(np.longdouble([1, 2, 3, 5]) / 3, np.longdouble([30, 20, 10, 40]) / 3)
    off = np.abs(noisy.value - exact)
    assert np.all(off <= 4 * noisy.spread)
    assert np.all(noisy.spread <= np.abs(exact) * 1e-13)


def test_one_to_any_power_is_one_for_certain() -> None:
    """So that its whole number is 1, and its logarithm 0."""
    one = measure(apply("exponential", X / 3, base=1), [1.0, 2.0, 3.0, 5.0])
    assert one.certain
    assert np.all(one.value == 1)
    assert not measure(apply("pow", X / 3, X * 0), [1.0, 2.0, 3.0, 5.0]).spread.any()
    assert measure(apply("exponential", X / 3, base=2), [1.0, 2.0, 3.0, 5.0]).spread.all()


def test_a_transpose_that_moves_no_element_is_the_value_itself() -> None:
    """What is compared with it is equal for certain."""
    root = apply("sqrt", tensor("X", "f64", (3, 1, 1)))
    for axes, certain in (((0, 2, 1), True), ((1, 0, 2), False)):
        same = measure(apply("equal", root, apply("transpose", root, axes=axes)), [[[2.0]]] * 3)
        assert bool(np.all(~same.unsure)) is certain


def test_a_value_at_the_end_of_its_type_is_unsure() -> None:
    x = tensor("X", "f16", (4,))
    inputs = [np.float32([32752, 32736, 20000, 40000])]
    (noisy,) = execute(over(x)(x * 2 + 0), TYPED, stored_inputs(over(x)(x), inputs))
    assert noisy.unsure.tolist() == [True, True, False, False]


def test_empty_arrays_have_no_noise() -> None:
    a, _ = elementwise(lambda x: apply("exp", x) / 3, lambda x: x, shape=(0, 3))
    (noisy,) = measured(a, draw_inputs(a, "normal", 0))
    assert noisy.value.shape == (0, 3)


def test_a_maximum_has_the_noise_of_what_may_be_the_largest_alone() -> None:
    """What is far below says nothing, however little is known of it; what is near does."""
    sizes = [1.0, 3.0, 1e9, 2.0]
    for highest in (
        lambda x: apply("max", x, axes=(0,)),
        lambda x: apply("maximum", apply("min", x, axes=(0,)), literal(0)),
    ):
        assert measure(highest(-(X / 49 * 49)), sizes).spread < 1e-14
    near = measure(apply("max", X / 49 * 49 - 1e9, axes=(0,)), [1.0, 1.0, 1.0, 1.0])
    assert near.spread > 1e-8


def test_what_is_far_below_is_nothing_to_exp_whatever_its_noise() -> None:
    """The noise of the largest of these is so large that its own exponential overflows."""
    noisy = measure(apply("exp", X / 49 * 49), [-1e25, -1e20, -1e300, -1e22])
    assert noisy.value.tolist() == [0] * 4
    assert np.all(noisy.spread < 1e-300)


def scores(dtype: str, mask: Callable[[Term], Term]) -> Program:
    """The weights of masked scores."""
    q, k = (tensor(name, dtype, (16, 8)) for name in "QK")
    masked = mask(q @ apply("transpose", k, axes=(1, 0)))
    return Program("weights", (q, k), (softmax(masked),))


def causal() -> Term:
    row, column = (apply("iota", shape=(16, 16), axis=axis, dtype="i32") for axis in (0, 1))
    return apply("less_equal", column, row)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("way", ["chosen", "added"])
@pytest.mark.parametrize("low", [-1e4, -1e9, -np.inf, "the least"])
def test_what_a_mask_takes_out_leaves_the_rest_determined(
    dtype: str, way: str, low: float | str
) -> None:
    """Also where it is the least number of the type, beside which rounding decides overflows."""
    number = literal(-MOST[DType(dtype)] if isinstance(low, str) else low)

    def mask(x: Term) -> Term:
        out = apply("cast", apply("select", causal(), literal(0), number), dtype=dtype)
        return x + out if way == "added" else apply("select", causal(), x, number)

    program = scores(dtype, mask)
    inputs = draw_inputs(program, "small", 0)
    (noisy,) = execute(program, TYPED, stored_inputs(program, inputs))
    assert not noisy.unsure.any()
    assert np.all(noisy.spread < 2.0**-5)


def test_a_pole_that_rounding_decides_is_open() -> None:
    """A logarithm of one more than what is about minus one."""
    x = tensor("X", "f32", (2,))
    program = Program("p", (x,), (apply("log1p", apply("mul", x, x) * -1),))
    (result,) = execute(program, TYPED, stored_inputs(program, [np.array([1.0, 0.5], np.float32)]))
    assert result.spread[0] == np.inf
    assert 0 < result.spread[1] < 1e-6


def test_an_overflow_that_rounding_decides_is_open_where_it_is_not_masked() -> None:
    """A large negative number is known to be low, and a large one is not."""
    end = -float(MOST[DType.F32])
    x = tensor("X", "f32", (4,))
    low, high = x * 0.3 + end, x * 0.3 - end
    program = Program("p", (x,), (apply("exp", low), low, apply("exp", high), 1 / low))
    inputs = [np.float32([1, 2, 3, 4])]
    results = execute(program, TYPED, stored_inputs(program, inputs))
    assert [noisy.unsure.all() for noisy in results[:3]] == [False, True, True]


@pytest.mark.parametrize("meet", ["maximum", "minimum", "equal", "not_equal"])
def test_truth_values_that_noise_decides_are_met_as_numbers_are(meet: str) -> None:
    """`(u < 0) | (u > 1)` is a maximum of truth values, which NumPy cannot subtract."""
    low = apply("less", X, literal(0.0))
    high = apply("less", literal(1.0), X)
    program = Program("p", (X,), (apply("select", apply(meet, low, high), X, -X),))
    noisy = NoisyArray(np.asarray([-1.0, 0.5, 1.0, 2.0]), np.full(4, 1e-9))
    (chosen,) = execute(program, REAL, [noisy])
    assert np.isfinite(chosen.spread[[0, 1, 3]]).all()
    assert chosen.spread[2] > 1


def test_numbers_that_every_program_has_are_compared_for_certain() -> None:
    """Inputs that are equal, and sums of few digits; not what is rounded on the way."""
    x = stored(np.asarray([1.0, 2.5]), DType.F32)
    algebra = Noise(2.0**-24, 2.0**-149)
    half = algebra.constant(Fraction(1, 2))
    assert not algebra.compare("<", x, algebra.absolute(x)).unsure.any()
    total, difference = algebra.add(x, half), algebra.subtract(x, algebra.negative(half))
    assert not algebra.compare("<", total, difference).unsure.any()
    third = algebra.multiply(x, algebra.constant(Fraction(1, 3)))
    assert algebra.compare("<", third, algebra.negative(algebra.negative(third))).unsure.all()


def test_a_zero_that_every_program_has_divides_for_certain() -> None:
    x = stored(np.asarray([1.0, 2.0]), DType.F32)
    algebra = Noise(2.0**-24, 2.0**-149)
    numerator = algebra.constant(Fraction(1))
    with np.errstate(divide="ignore"):
        quotient = algebra.divide(numerator, algebra.subtract(x, numerator))
    assert np.isinf(quotient.value[0])
    assert not quotient.unsure.any()


def test_small_whole_numbers_are_counted_without_rounding() -> None:
    algebra = Noise(2.0**-24, 2.0**-149)
    places = algebra.iota((4, 8), 1)
    assert algebra.sum(algebra.multiply(places, places), (1,)).certain
    assert not algebra.add(places, algebra.constant(Fraction(2**20))).certain


def test_a_running_sum_beyond_all_numbers_is_certain_to_be_so() -> None:
    x = stored(np.full((2, 3), 1e308), DType.F64)
    with np.errstate(all="ignore"):
        total = Noise(2.0**-53, 2.0**-1074).cumulative(x, 1, "sum", reverse=False)
    assert np.isinf(total.value[:, 1:]).all()
    assert not total.unsure[:, 1:].any()
