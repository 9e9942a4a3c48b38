"""Zeros keep their sign, and what is no number comes through."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from testkit.kernels.scalar_functions import Scalar
from testkit.kernels.ulps import AWKWARD

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.native.machine import host, portable
from aiosearch.tensor.types import DType

ODD = (
    Operation.ERF, Operation.FLOOR, Operation.ROUND, Operation.SIN, Operation.SQRT, Operation.TANH,
)  # fmt: skip
FLOATS = [(DType.F32, np.float32), (DType.F64, np.float64)]

fused = pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])


@fused
@pytest.mark.parametrize(("dtype", "kind"), FLOATS)
@pytest.mark.parametrize("operation", ODD)
def test_zeros_keep_their_sign(operation: Operation, dtype: DType, kind: type, fused: bool) -> None:
    zeros = np.array([0.0, -0.0], kind)
    machine = host() if fused else portable(host())
    results = Scalar(operation, 2, dtype, fused, machine)(zeros)
    assert results.tobytes() == zeros.tobytes()


@pytest.mark.parametrize(("dtype", "kind"), FLOATS)
@pytest.mark.parametrize("operation", [Operation.MAXIMUM, Operation.MINIMUM])
def test_the_extreme_of_something_that_is_no_number_is_none(
    operation: Operation, dtype: DType, kind: type
) -> None:
    """In either place, as NumPy has it."""
    x, y = np.ascontiguousarray(np.array([*itertools.product(AWKWARD, repeat=2)], kind).T)
    expected = getattr(np, operation)(x, y)
    assert np.array_equal(Scalar(operation, 4, dtype)(x, y), expected, equal_nan=True)


@fused
@pytest.mark.parametrize(("dtype", "kind"), FLOATS)
def test_remainders_of_far_quotients_and_of_the_least_numbers_are_exact(
    dtype: DType, kind: type, fused: bool
) -> None:
    """Up to the largest number by the smallest, as NumPy has them, with the sign of the first."""
    limits = np.finfo(kind)
    ends = [limits.max, limits.tiny, limits.smallest_subnormal, 3 * limits.smallest_subnormal]
    numbers = [*AWKWARD, *ends, *(-end for end in ends), 0.1, 1e25, 5e-20]
    x, y = np.ascontiguousarray(np.array([*itertools.product(numbers, repeat=2)], kind).T)
    x, y = (np.resize(each, -(-each.size // 4) * 4) for each in (x, y))
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    results = Scalar(Operation.REM, 4, dtype, fused, host() if fused else portable(host()))(x, y)
    assert np.array_equal(results, expected, equal_nan=True)
    there = ~np.isnan(expected)
    assert np.array_equal(np.signbit(results[there]), np.signbit(expected[there]))
