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
