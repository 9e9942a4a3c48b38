"""What the values of inputs are drawn from."""

from __future__ import annotations

import numpy as np
import pytest

from aiosearch.measure import ArrayType, Draw
from aiosearch.measure.random_inputs import NORMAL, draw

FLOATS = ArrayType("float32", (64, 64))
WHOLE = ArrayType("int32", (64, 64))


def test_unless_something_else_is_wanted_floats_are_normal_and_whole_numbers_small() -> None:
    floats, whole = draw(FLOATS, 0, 0), draw(WHOLE, 0, 0)
    assert abs(floats.mean()) < 0.1
    assert floats.std() == pytest.approx(1, abs=0.1)
    assert (whole.min(), whole.max()) == (-8, 7)
    assert np.array_equal(floats, draw(FLOATS, 0, 0, NORMAL))


def test_numbers_lie_between_their_ends() -> None:
    floats, whole = draw(FLOATS, 0, 0, Draw(0.5, 2.0)), draw(WHOLE, 0, 0, Draw(0, 10))
    assert 0.5 <= floats.min() < 0.51
    assert 1.99 < floats.max() < 2
    assert set(np.unique(whole)) == set(range(10))


def test_normal_numbers_have_their_mean_and_deviation() -> None:
    drawn = draw(FLOATS, 0, 0, Draw(2.0, 6.0, normal=True))
    assert drawn.mean() == pytest.approx(4, abs=0.2)
    assert drawn.std() == pytest.approx(2, abs=0.2)


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    drawn = [draw(FLOATS, seed, at).tobytes() for seed, at in ((0, 0), (0, 1), (1, 0), (0, 0))]
    assert drawn[0] == drawn[3]
    assert len(set(drawn)) == 3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "complex64", "uint8", "bool"])
def test_every_type_is_drawn_in_its_own_shape(dtype: str) -> None:
    drawn = draw(ArrayType(dtype, (3, 0, 2)), 0, 0)
    assert (drawn.dtype.name, drawn.shape) == (dtype, (3, 0, 2))
    assert draw(ArrayType(dtype, ()), 0, 0).shape == ()


def test_numbers_without_a_sign_are_not_negative() -> None:
    assert draw(ArrayType("uint8", (100,)), 0, 0).max() < 8


def test_a_draw_is_told_in_words() -> None:
    assert str(NORMAL) == "normal"
    assert str(Draw(0.125, 2.0)) == "between 0.125 and 2"
    assert str(Draw(-0.125, 0.125, normal=True)) == "normal around 0 by 0.125"
