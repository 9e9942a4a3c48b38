"""The logarithm of gamma and its slope at their zeros, their poles, and below zero."""

from __future__ import annotations

import math

import numpy as np
import pytest
from testkit.kernels.scalar_functions import Scalar
from testkit.kernels.ulps import digamma as exact_digamma
from testkit.kernels.ulps import lgamma

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.native.machine import host, portable
from aiosearch.tensor.types import DType

FLOATS = [(DType.F32, np.float32), (DType.F64, np.float64)]

each = pytest.mark.parametrize(("dtype", "kind"), FLOATS)


@each
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
def test_zeros_and_poles_are_exact(dtype: DType, kind: type, fused: bool) -> None:
    x = np.array([1, 2, 0, -0.0, -1, -7, -1e30, np.inf, -np.inf], kind)
    computed = Scalar(Operation.LGAMMA, 1, dtype, fused, host() if fused else portable(host()))
    assert computed(x).tolist() == [0, 0, *[np.inf] * 7]
    assert np.isnan(computed(np.array([np.nan], kind))).all()


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
    x = np.array([0.25, 0.75, 1.5, 3.25, 9.0, 40.5])
    known = [math.lgamma(value) for value in x.tolist()]
    assert np.allclose(lgamma(x.astype(np.longdouble)).astype(float), known, rtol=1e-15)


@each
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
def test_the_slope_has_no_number_at_poles_and_its_zero_where_it_is(
    dtype: DType, kind: type, fused: bool
) -> None:
    digamma = Scalar(Operation.DIGAMMA, 1, dtype, fused, host() if fused else portable(host()))
    poles = np.array([0, -0.0, -1, -7, -1e30, -np.inf, np.nan], kind)
    assert np.isnan(digamma(poles)).all()
    assert digamma(np.array([np.inf], kind)).tolist() == [np.inf]
    near = np.array([1.4616321449683622], kind)
    lacks = kind(float(near[0]) - 1.4616321449683622) - kind(9.549995e-17)  # type: ignore[operator]
    slope = 0.9676720454  # of digamma there
    assert np.allclose(digamma(near), slope * lacks, rtol=1e-3)


@each
def test_the_slope_below_zero_is_off_by_units_of_what_is_added(dtype: DType, kind: type) -> None:
    """ψ(1 - x) and π cot πx cancel between each two poles."""
    x = -np.random.default_rng(0).uniform(0.001, 30, 4096).astype(kind)
    wide = x.astype(np.longdouble)
    rest = np.pi * (wide - np.rint(wide))
    mirrored = exact_digamma(1 - wide)
    exact = mirrored - np.pi / np.tan(rest)
    added = np.maximum(np.abs(mirrored), np.abs(np.pi / np.tan(rest)))
    allowed = 8 * np.finfo(kind).eps * np.maximum(added, 1)
    off = np.abs(Scalar(Operation.DIGAMMA, 4, dtype)(x) - exact)
    assert (off <= allowed).all()


def test_the_slope_it_is_held_to_is_that_of_the_logarithm() -> None:
    x = np.array([0.25, 1.5, 3.25, 9.0, 19.9, 20.1, 40.5], np.longdouble)
    step = np.longdouble(1e-4)
    slope = (lgamma(x + step) - lgamma(x - step)) / (2 * step)
    assert np.allclose(exact_digamma(x).astype(float), slope.astype(float), rtol=1e-6)
