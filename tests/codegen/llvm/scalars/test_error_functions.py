"""Where what the error function lacks ends, and what it is between."""

from __future__ import annotations

import numpy as np
import pytest
from testkit.kernels.scalar_functions import Scalar
from testkit.kernels.ulps import erfc

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.native.machine import host, portable
from aiosearch.tensor.types import DType

FLOATS = [(DType.F32, np.float32), (DType.F64, np.float64)]
ENDS = {np.float32: 10.1, np.float64: 27.3}

each = pytest.mark.parametrize(("dtype", "kind"), FLOATS)


@each
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
def test_ends_are_exact(dtype: DType, kind: type, fused: bool) -> None:
    """And so is what is between them; what is no number stays so."""
    limits = np.finfo(kind)
    given = np.array([-np.inf, limits.min, -0.0, 0.0, limits.tiny, limits.max, np.inf], kind)
    found = Scalar(Operation.ERFC, 1, dtype, fused, host() if fused else portable(host()))
    assert found(given).tolist() == [2, 2, 1, 1, 1, 0, 0]
    assert np.isnan(found(np.array([np.nan], kind))).all()


@each
def test_wide_vectors_give_the_same_down_to_the_least_denormal(dtype: DType, kind: type) -> None:
    """Where one instruction scales them, and where two factors do."""
    x = np.linspace(-1, ENDS[kind] + 1, 4096).astype(kind)
    wide = Scalar(Operation.ERFC, 64 // np.dtype(kind).itemsize, dtype)(x)
    assert wide.tobytes() == Scalar(Operation.ERFC, 1, dtype)(x).tobytes()
    assert (wide[wide > 0] < np.finfo(kind).tiny).any()


@each
def test_what_is_below_zero_is_two_less_its_opposite(dtype: DType, kind: type) -> None:
    x = np.linspace(0.01, ENDS[kind], 1024).astype(kind)
    found = Scalar(Operation.ERFC, 4, dtype)
    assert (found(-x) == 2 - found(x)).all()


def test_what_it_is_held_to_keeps_its_digits() -> None:
    """To what is known of it: at one and at five, to seventeen digits."""
    known = [0.15729920705028513, 1.5374597944280349e-12]
    assert np.allclose(erfc(np.array([1, 5], np.longdouble)).astype(float), known, rtol=4e-16)
