"""Where exponentials end."""

from __future__ import annotations

import numpy as np
import pytest
from testkit.kernels.scalar_functions import Scalar

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.native.machine import host, portable
from aiosearch.tensor.types import DType

FLOATS = [(DType.F32, np.float32), (DType.F64, np.float64)]


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize(("dtype", "kind"), FLOATS)
def test_exponentials_run_down_to_the_least_denormal_and_up_to_infinity(
    dtype: DType, kind: type, fused: bool
) -> None:
    """Each step of a logarithm of two doubles it; minus infinity gives zero."""
    limits = np.finfo(kind)
    machine = host() if fused else portable(host())
    exp = Scalar(Operation.EXP, 1, dtype, fused, machine)
    powers = np.arange(limits.minexp - limits.nmant, limits.maxexp)
    results = exp((powers * np.log(2)).astype(kind))
    assert np.allclose(results / np.ldexp(kind(1), powers), 1, rtol=2.0**-13, atol=0)
    ends = exp(np.array([-np.inf, limits.min, limits.max, np.inf], kind))
    assert ends.tolist() == [0, 0, np.inf, np.inf]


@pytest.mark.parametrize(("dtype", "kind"), FLOATS)
def test_wide_vectors_give_the_same_down_to_the_least_denormal(dtype: DType, kind: type) -> None:
    """Where one instruction scales them, and where two factors do."""
    limits = np.finfo(kind)
    ends = [np.nan, -np.inf, limits.min, limits.max, np.inf, 0, -0.0, 1]
    lowest, highest = (np.log(2) * one for one in (limits.minexp - limits.nmant, limits.maxexp))
    x = np.concatenate([np.linspace(lowest - 2, highest + 2, 4096 - len(ends)), ends]).astype(kind)
    wide = Scalar(Operation.EXP, 512 // np.dtype(kind).itemsize // 8, dtype)(x)
    assert wide.tobytes() == Scalar(Operation.EXP, 1, dtype)(x).tobytes()
    assert (wide[wide > 0] < limits.tiny).any()


@pytest.mark.parametrize("operation", [Operation.EXPM1, Operation.LOG1P])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize(("dtype", "kind"), FLOATS)
def test_what_is_least_is_what_it_was(
    dtype: DType, kind: type, fused: bool, operation: Operation
) -> None:
    """Zeros keep their sign, and denormals are themselves."""
    limits = np.finfo(kind)
    least = limits.smallest_subnormal
    x = np.array([0, least, 3 * least, limits.tiny - least, limits.tiny, limits.tiny + least], kind)
    machine = host() if fused else portable(host())
    for values in (x, -x):
        found = Scalar(operation, 1, dtype, fused, machine)(values)
        assert found.tobytes() == values.tobytes()


@pytest.mark.parametrize(("dtype", "kind"), FLOATS)
def test_one_is_exact(dtype: DType, kind: type) -> None:
    ones = Scalar(Operation.EXP, 1, dtype)(np.array([0.0, -0.0, np.finfo(kind).tiny], kind))
    assert ones.tolist() == [1, 1, 1]
