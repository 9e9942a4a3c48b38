"""Numbers of 16 bits become floats and come back as IEEE 754 says."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from testkit.kernels.scalar_functions import Scalar
from testkit.kernels.ulps import drawn

from aiosearch.codegen.llvm.scalars import Conversion
from aiosearch.codegen.native.machine import host, portable
from aiosearch.tensor.types import DType

KINDS: dict[DType, Any] = {DType.BF16: ml_dtypes.bfloat16, DType.F16: np.float16}
EVERY = np.arange(1 << 16, dtype=np.uint16)

everywhere = pytest.mark.parametrize(
    ("lanes", "fused"), [(16, True), (8, True), (1, True), (8, False), (1, False)]
)
either = pytest.mark.parametrize("dtype", sorted(KINDS))


def conversion(name: Conversion, lanes: int, dtype: DType, fused: bool) -> Scalar:
    return Scalar(name, lanes, dtype, fused, host() if fused else portable(host()))


@everywhere
@either
def test_every_number_of_16_bits_is_widened_exactly(dtype: DType, lanes: int, fused: bool) -> None:
    results = conversion(Conversion.WIDEN, lanes, dtype, fused)(EVERY)
    expected = EVERY.view(KINDS[dtype]).astype(np.float32)
    assert np.array_equal(results, expected, equal_nan=True)
    assert np.array_equal(np.signbit(results), EVERY >> 15)


@everywhere
@either
def test_floats_are_rounded_to_the_nearest_number_of_16_bits(
    dtype: DType, lanes: int, fused: bool
) -> None:
    """Halves go to even; what is no number stays none; too large ones become infinite."""
    values = np.concatenate([drawn(DType.F32, 1 << 16), beside(dtype)])
    results = conversion(Conversion.NARROW, lanes, dtype, fused)(values)
    with np.errstate(all="ignore"):
        expected = values.astype(KINDS[dtype])
    numbers = ~np.isnan(values)
    assert np.array_equal(results[numbers], expected.view(np.uint16)[numbers])
    assert np.isnan(results.view(KINDS[dtype])[~numbers]).all()


def beside(dtype: DType) -> Any:
    """All numbers of 16 bits, those halfway to the next, and the floats around these."""
    with np.errstate(all="ignore"):
        numbers = np.sort(EVERY.view(KINDS[dtype]).astype(np.float64))
        numbers = np.concatenate([numbers, (numbers[:-1] + numbers[1:]) / 2, [0.0]])
        numbers = numbers.astype(np.float32)
        around = [np.nextafter(numbers, np.float32(to)) for to in (-np.inf, np.inf)]
    return np.concatenate([numbers, *around])
