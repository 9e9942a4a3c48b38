"""The logarithm of gamma at its zeros, its poles, and below zero."""

from __future__ import annotations

import math

import numpy as np
import pytest
from testkit.kernels.scalar_functions import Scalar

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.native.machine import host, portable
from aiosearch.tensor.types import DType

FLOATS = [(DType.F32, np.float32), (DType.F64, np.float64)]

each = pytest.mark.parametrize(("dtype", "kind"), FLOATS)


@each
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
def test_zeros_and_poles_are_exact(dtype: DType, kind: type, fused: bool) -> None:
    x = np.array([1, 2, 0, -0.0, -1, -7, -1e30, np.inf, -np.inf], kind)
    lgamma = Scalar(Operation.LGAMMA, 1, dtype, fused, host() if fused else portable(host()))
    assert lgamma(x).tolist() == [0, 0, *[np.inf] * 7]
    assert np.isnan(lgamma(np.array([np.nan], kind))).all()


@each
def test_below_zero_the_error_is_that_of_what_is_added(dtype: DType, kind: type) -> None:
    """A few units of the last place of the largest summand, ln Γ(1 - x), or of one."""
    x = -np.random.default_rng(0).uniform(0.001, 30, 4096).astype(kind)
    exact = np.array([math.lgamma(value) for value in x.tolist()])
    summand = np.array([math.lgamma(1 - value) for value in x.tolist()])
    allowed = 6 * np.finfo(kind).eps * np.maximum(np.maximum(np.abs(exact), summand), 1)
    off = np.abs(Scalar(Operation.LGAMMA, 4, dtype)(x).astype(np.float64) - exact)
    assert (off <= allowed).all()


def test_what_it_is_held_to_keeps_its_digits() -> None:
    from testkit.kernels.ulps import lgamma

    x = np.array([0.25, 0.75, 1.5, 3.25, 9.0, 40.5])
    known = [math.lgamma(value) for value in x.tolist()]
    assert np.allclose(lgamma(x.astype(np.longdouble)).astype(float), known, rtol=1e-15)
