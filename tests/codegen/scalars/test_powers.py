"""The special cases of powers are those of C99, which NumPy has."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ulps import AWKWARD, worst
from vectorly import Scalar

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.scalars import ERRORS
from aiosearch.tensor.types import DType


@pytest.mark.parametrize(("dtype", "kind"), [(DType.F32, np.float32), (DType.F64, np.float64)])
def test_awkward_powers(dtype: DType, kind: type) -> None:
    """Zeros, infinities, ones and what is no number, to the power of each other."""
    pairs = np.array([*itertools.product(AWKWARD, repeat=2)], kind)
    x, y = np.ascontiguousarray(pairs.T)
    results = Scalar(Operation.POW, 4, dtype)(x, y)
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    assert np.allclose(results, expected, rtol=1e-6, atol=0, equal_nan=True)
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.signbit(results)[numbers], np.signbit(expected)[numbers])


def test_powers_near_one_to_large_ones_keep_their_bits() -> None:
    """There, an error of the logarithm is multiplied by hundreds."""
    random = np.random.default_rng(0)
    x, y = 1 + random.uniform(-0.05, 0.05, 1 << 14), random.uniform(-9000, 9000, 1 << 14)
    found = worst(Scalar(Operation.POW, 8, DType.F64), np.power, x, y)
    assert found <= ERRORS[Operation.POW, DType.F64].fused
