"""Distributions are what their names say, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from aiosearch.equivalence.inputs.distributions import (
    ADVERSARIAL,
    DISTRIBUTIONS,
    EVERY,
    PERIOD,
    SPECIAL,
    draw,
    draw_inputs,
    special,
)
from aiosearch.equivalence.rounding.machine import rounded
from aiosearch.tensor import DType, Program, ShapeError, Size, TensorType, tensor
from aiosearch.tensor.floats import Array

FLOATS = (DType.F16, DType.BF16, DType.F32, DType.F64)


def one(
    name: str, dtype: DType = DType.F32, shape: tuple[int, ...] = (32, 64), seed: int = 0
) -> Array:
    return draw([TensorType(dtype, shape)], name, seed)[0]


@pytest.mark.parametrize("name", [*EVERY, *SPECIAL])
@pytest.mark.parametrize("dtype", DType)
def test_every_value_is_one_of_its_element_type(name: str, dtype: DType) -> None:
    if dtype is DType.WEAK:
        return
    value = one(name, dtype)
    assert value.shape == (32, 64)
    assert np.array_equal(rounded(value, dtype), value, equal_nan=dtype in FLOATS)
    if name not in SPECIAL:
        assert np.isfinite(value).all()


@pytest.mark.parametrize("name", [*EVERY, *SPECIAL])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (1, 1), (3, 0), (2, 3, 5)])
def test_every_shape_is_drawn(name: str, shape: tuple[int, ...]) -> None:
    assert one(name, shape=shape).shape == shape


@pytest.mark.parametrize("name", EVERY)
def test_a_draw_depends_on_seed_name_and_position_alone(name: str) -> None:
    type_ = TensorType(DType.F32, (16,))
    first, second = draw([type_, type_], name, 5)
    assert np.array_equal(draw([type_], name, 5)[0], first)
    assert not np.array_equal(first, second)
    assert not np.array_equal(draw([type_], name, 6)[0], first)


def test_a_large_input_repeats_numbers_at_no_ordinary_distance() -> None:
    """A kernel that reads a wrong row, or a wrong tile, reads other numbers."""
    value = draw([TensorType(DType.F32, (1025, 2048))], "normal", 0)[0]
    assert np.array_equal(value.reshape(-1)[PERIOD:], value.reshape(-1)[: value.size - PERIOD])
    for rows in (1, 16, 64, 512, 1024):
        assert np.mean(value[rows:] == value[:-rows]) < 0.001
    for columns in (1, 16, 512, 1024):
        assert np.mean(value[:, columns:] == value[:, :-columns]) < 0.001
    assert abs(float(value.mean())) < 0.01
    assert abs(float(value.std()) - 1) < 0.01


def test_the_draws_of_a_seed_never_change() -> None:
    """Recorded evidence must replay with later versions."""
    found = one("normal", shape=(3,), seed=1)
    assert found.tolist() == [-0.5510677695274353, 0.8609126210212708, -1.1972657442092896]


def test_large_and_tiny_inputs_suit_their_type() -> None:
    for dtype in FLOATS:
        large, normal, tiny = (
            np.abs(one(name, dtype)).max() for name in ("large", "normal", "tiny")
        )
        assert large > 4 * normal > 16 * tiny > 0


def test_zero_containing_inputs_hold_both_zeros_and_rows_of_them() -> None:
    value = one("zeros")
    zero = value == 0
    assert zero.all(axis=1).any()
    assert not zero.all(axis=1).all()
    assert np.signbit(value[zero]).any()
    assert not np.signbit(value[zero]).all()


def test_patterns_are_what_they_are_called() -> None:
    assert len(np.unique(one("equal"))) == 1
    assert np.all(np.exp2(np.round(np.log2(np.abs(one("powers"))))) == np.abs(one("powers")))
    assert np.all(one("cancelling").sum(axis=1) == 0)
    assert np.all(np.sort(np.abs(one("huge")), axis=1)[:, -1] > 8 * np.median(np.abs(one("huge"))))
    assert np.all(np.diff(one("sorted"), axis=1) >= 0)
    assert np.all(one("integers") == np.round(one("integers")))
    assert np.all(one("positive") > 0)
    mixed = np.abs(one("mixed"))
    assert mixed.max() > 1e3 * np.median(mixed) > 1e3 * np.quantile(mixed, 0.05)


@pytest.mark.parametrize("dtype", FLOATS)
def test_level_rows_are_near_one_number_that_all_inputs_share(dtype: DType) -> None:
    """Some are just that; the others are apart by less than a twentieth, which the type tells."""
    first, second = draw([TensorType(dtype, (32, 65))] * 2, "level", 0)
    (middle,) = {float(np.median(value)) for value in (first, second)}
    assert not np.array_equal(first, second)
    for value in (first, second):
        off = np.abs(value - middle)
        assert 0 < off[off > 0].min() < off.max() < middle / 20
        assert 0 < np.mean(np.all(off == 0, axis=1)) < 0.5


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_in_half_precision_the_means_of_level_rows_are_not_rounded(dtype: DType) -> None:
    value = one("level", dtype)
    assert len(np.unique(value.mean(axis=1))) == 1


def test_adversarial_deals_the_patterns_out_to_the_inputs() -> None:
    types = [TensorType(DType.F32, (8, 8))] * len(ADVERSARIAL)
    values = draw(types, "adversarial", 0)
    assert len(np.unique(values[0])) == 1
    assert len({value.tobytes() for value in values}) == len(ADVERSARIAL)


def test_special_inputs_hold_what_is_not_finite_and_much_that_is() -> None:
    for shape in ((1,), (32, 64)):
        assert np.isnan(one("nans", shape=shape)).any()
        assert np.isinf(one("infinities", shape=shape)).any()
    infinities = one("infinities")
    assert np.isposinf(infinities).any()
    assert np.isneginf(infinities).any()
    assert np.isfinite(infinities).mean() > 0.8


def test_integers_and_truth_values_are_drawn() -> None:
    whole = one("normal", DType.I32)
    assert np.all(whole == np.round(whole))
    assert whole.min() == -8
    assert np.all(one("positive", DType.I32) >= 1)
    assert one("normal", DType.BOOL).dtype == np.bool_
    assert one("equal", DType.BOOL).all()


def test_inputs_of_a_program_are_drawn_in_order() -> None:
    x, y = tensor("X", "f16", (2, 3)), tensor("Y", "f64", (4,))
    values = draw_inputs(Program("p", (x, y), (x,)), "normal", 0)
    assert [(value.shape, value.dtype) for value in values] == [
        ((2, 3), np.float32),
        ((4,), np.float64),
    ]


def test_an_unknown_distribution_or_size_is_named() -> None:
    with pytest.raises(ValueError, match="no distribution 'uniform': there are normal"):
        one("uniform")
    with pytest.raises(ShapeError, match="n is no number"):
        draw([TensorType(DType.F32, (Size.named("n"),))], "normal", 0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_element_of_one_input_alone(dtype: DType) -> None:
    """Of each input of floats in turn; whole numbers have nothing like it."""
    types = [TensorType(dtype, (3, 40)), TensorType(DType.I32, (40,)), TensorType(dtype, ())]
    names = special(types)
    assert names == (
        "nans", "infinities", "nan-at-0", "nan-at-2", "infinity-at-0", "infinity-at-2",
    )  # fmt: skip
    for name in names[2:]:
        odd = [one[~np.isfinite(one)] for one in draw(types, name, 3)]
        assert [len(one) for one in odd] == [name.endswith("0"), 0, name.endswith("2")]
        assert np.isnan(np.concatenate(odd)).all() == name.startswith("nan")


def test_no_distribution_is_named_twice() -> None:
    names = (*EVERY, *special([TensorType(DType.F32, (2,))] * 3))
    assert len(set(names)) == len(names)
    assert set(DISTRIBUTIONS) < set(EVERY)


@pytest.mark.parametrize("dtype", FLOATS)
def test_ties_are_halves_and_each_row_has_its_largest_twice(dtype: DType) -> None:
    (values,) = draw([TensorType(dtype, (50, 6))], "ties", 0)
    assert set(np.unique(values)) <= set(np.arange(-16, 17) / 8)
    largest = values == values.max(axis=1, keepdims=True)
    assert np.mean(largest.sum(axis=1) >= 2) > 0.8


@pytest.mark.parametrize(
    ("dtype", "ends"),
    [(DType.I32, (-(2**31), 2**31 - 1)), (DType.I8, (-128, 127)), (DType.U8, (0, 255))],
)
def test_limits_reach_the_ends_of_a_type_of_whole_numbers(
    dtype: DType, ends: tuple[int, int]
) -> None:
    (values,) = draw([TensorType(dtype, (2000,))], "limits", 0)
    assert (values.min(), values.max()) == ends
    assert np.all(values == np.round(values))
