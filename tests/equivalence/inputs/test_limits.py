"""Values folded into the limits of an input."""

from __future__ import annotations

import numpy as np
import pytest

from aiosearch.equivalence.inputs.draws import FLOAT_DISTRIBUTIONS
from aiosearch.equivalence.inputs.limits import InputLimits, LimitedSide
from aiosearch.equivalence.runnables import ExecutedProgram
from aiosearch.tensor import Program, ShapeError, tensor


@pytest.mark.parametrize(
    ("limits", "values", "folded"),
    [
        (InputLimits(0, 15), [-3, 4, 18, 15, 0], [3, 4, 12, 15, 0]),
        (InputLimits(0), [-2.5, 1e6], [2.5, 1e6]),
        (InputLimits(high=1), [3.0, -7.0], [-1.0, -7.0]),
        (InputLimits(2, 2), [0.0, 5.0], [2.0, 2.0]),
        (InputLimits(), [-1.0, 9.0], [-1.0, 9.0]),
        (InputLimits(-1, 1), [np.inf, -np.inf, 1e30], [-1.0, -1.0, None]),
    ],
)
def test_values_beyond_an_end_are_reflected(
    limits: InputLimits, values: list[float], folded: list[float | None]
) -> None:
    """`None` stands for any value within the limits."""
    result = limits.folded(np.asarray(values, np.float64))
    for value, expected in zip(result, folded, strict=True):
        assert value == expected or (expected is None and limits.low <= value <= limits.high)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "i32", "u8"])
@pytest.mark.parametrize("distribution", FLOAT_DISTRIBUTIONS)
def test_every_distribution_stays_within_them(dtype: str, distribution: str) -> None:
    x = tensor("x", dtype, (40,))
    side = LimitedSide(ExecutedProgram(Program("same", (x,), (x,))), {0: InputLimits(0, 3)})
    (drawn,) = side.draw(distribution, 1)
    assert drawn.min() >= 0
    assert drawn.max() <= 3


def test_limits_that_cannot_be_are_refused() -> None:
    with pytest.raises(ShapeError, match="no value is from 3 to 1"):
        InputLimits(3, 1)
    x = tensor("x", "f32", (4,))
    with pytest.raises(ShapeError, match="there is no input 1"):
        LimitedSide(ExecutedProgram(Program("same", (x,), (x,))), {1: InputLimits(0)})
