"""Every function keeps within the error that is stated for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ulps import EXACT, drawn, off, wider
from vectorly import Scalar

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.native.machine import Machine, host, masked, portable
from aiosearch.codegen.scalars import ERRORS, Error
from aiosearch.codegen.scalars.catalogue import FUNCTIONS, SHORT
from aiosearch.tensor.types import DType

FLOATS = (DType.F32, DType.F64)
SIZES = {DType.F32: 1 << 17, DType.F64: 1 << 14}
LANES = {DType.F32: (16, 8, 4, 1), DType.F64: (8, 4, 2, 1)}


def operands(operation: Operation, dtype: DType, size: int) -> list[Any]:
    """Two where the function takes two; the exponents of powers are whole now and then."""
    first, second = (drawn(dtype, size, seed) for seed in range(2))
    if operation not in (Operation.MAXIMUM, Operation.MINIMUM, Operation.POW):
        return [first]
    second[size // 2 : size // 2 + size // 8] = second[: size // 8].round()
    return [first, second[::-1].copy()]


def machine(fused: bool) -> Machine:
    return host() if fused else portable(host())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operation", sorted(FUNCTIONS))
def test_stated_errors_hold(operation: Operation, dtype: DType) -> None:
    """Of numbers of every kind, of zeros, infinities, and what is no number."""
    values = operands(operation, dtype, SIZES[dtype])
    exact = wider(EXACT[operation], *values)
    for fused in (True, False):
        lanes = LANES[dtype][0 if fused else 2]
        found = Scalar(operation, lanes, dtype, fused, machine(fused))(*values)
        assert off(found, exact).max() <= ERRORS[operation, dtype].of(fused=fused)


def test_every_function_has_its_error_stated() -> None:
    whole = {(operation, dtype) for operation in FUNCTIONS for dtype in FLOATS}
    assert set(ERRORS) == whole | {(operation, DType.BF16) for operation in SHORT}


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("operation", sorted(SHORT))
def test_what_is_for_a_bf16_is_off_by_less_than_its_rounding(
    operation: Operation, fused: bool
) -> None:
    """In places of a bf16, of which a normal one has 2^16 of those of a float."""
    (values,) = operands(operation, DType.F32, SIZES[DType.F32])
    short = Scalar(operation, 4, DType.BF16, fused, machine(fused))(values)
    with np.errstate(all="ignore"):
        exact = EXACT[operation](values.astype(np.float64))
    least, most = (float(one) for one in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))
    normal = (exact >= least) & (exact <= 0.999 * most)
    stated = ERRORS[operation, DType.BF16].of(fused=fused) * 2**16
    assert off(short[normal], exact[normal]).max() <= stated
    beyond = ~normal & ~((exact > 0.999 * most) & (exact < 1.001 * most))
    same = Scalar(operation, 4, DType.F32, fused, machine(fused))(values)
    assert np.allclose(short[beyond], same[beyond], rtol=2**-12, atol=2**-148, equal_nan=True)


def test_an_error_depends_on_how_it_is_computed() -> None:
    assert (Error(1, 2).of(fused=True), Error(1, 2).of(fused=False)) == (1, 2)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operation", sorted(FUNCTIONS))
def test_results_depend_neither_on_lanes_nor_on_the_machine(
    operation: Operation, dtype: DType, fused: bool
) -> None:
    """The same text gives the same bits wherever it runs; nowhere does it call a library."""
    values = operands(operation, dtype, 1 << 11)
    widest, _, quarter, one = LANES[dtype]
    first = Scalar(operation, widest if fused else quarter, dtype, fused, machine(fused))
    less = masked(host(), "avx512") if fused else masked(host(), "avx", "fma", "f16c")
    other = Scalar(operation, one if fused else widest, dtype, fused, less)
    assert bits(other(*values)) == bits(first(*values))


def bits(values: Any) -> bytes:
    """Of what is not a number, one."""
    return bytes(np.where(np.isnan(values), np.nan, values).tobytes())
