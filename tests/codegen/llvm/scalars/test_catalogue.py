"""Functions go into modules by name, each once."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from testkit.kernels.scalar_functions import Scalar
from testkit.kernels.ulps import EXACT, drawn, off, wider

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.llvm.scalars import ERRORS, Conversion, Error, definition, library, symbol
from aiosearch.codegen.llvm.scalars.catalogue import (
    FUNCTIONS,
    ROUNDED,
    SHORT,
    FunctionRequest,
    Name,
)
from aiosearch.codegen.native.machine import CpuMachine, host, masked, portable
from aiosearch.tensor.types import DType

SEVERAL: list[FunctionRequest] = [
    (Operation.EXP, 16, DType.F32),
    (Operation.SIN, 8, DType.F32),
    (Operation.COS, 8, DType.F32),
    (Operation.SIN, 1, DType.F64),
    (Conversion.NARROW, 4, DType.BF16),
]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((Operation.EXP, 16, DType.F32), "@aio.exp.v16f32"),
        ((Operation.POW, 1, DType.F64), "@aio.pow.f64"),
        ((Conversion.WIDEN, 8, DType.BF16), "@aio.widen.v8bf16"),
    ],
)
def test_a_symbol_says_what_it_is(wanted: FunctionRequest, expected: str) -> None:
    name, text = definition(*wanted)
    assert name == symbol(*wanted) == expected
    assert f"{expected}(" in text


def test_a_library_has_everything_once() -> None:
    """What two functions call, too."""
    text = library([*SEVERAL, *SEVERAL])
    named = re.findall(r"^(?:define|declare).*?(@[\w.]+)\(", text, re.MULTILINE)
    assert len(named) == len(set(named))
    assert {symbol(*one) for one in SEVERAL} < set(named)
    assert text.count("@aio.two_over_pi =") == 1


def test_a_library_does_not_depend_on_the_order() -> None:
    assert library(SEVERAL) == library(reversed(SEVERAL))


def test_a_machine_without_extensions_gets_no_fused_instruction() -> None:
    """LLVM would call a library for it."""
    assert "llvm.fma" in library(SEVERAL)
    assert "llvm.fma" not in library(SEVERAL, fused=False)


FLOATS = (DType.F32, DType.F64)
SIZES = {DType.F32: 1 << 17, DType.F64: 1 << 14}
LANES = {DType.F32: (16, 8, 4, 1), DType.F64: (8, 4, 2, 1)}


def operands(operation: Operation, dtype: DType, size: int) -> list[Any]:
    """Two where the function takes two; the exponents of powers are whole now and then, and no
    number is below zero where errors are stated above it alone."""
    first, second = (drawn(dtype, size, seed) for seed in range(2))
    if operation in (Operation.DIGAMMA, Operation.LGAMMA):
        # Below zero they have zeros, near which no error in places is stated.
        return [np.abs(first)]
    if operation not in (Operation.MAXIMUM, Operation.MINIMUM, Operation.POW, Operation.REM):
        return [first]
    second[size // 2 : size // 2 + size // 8] = second[: size // 8].round()
    return [first, second[::-1].copy()]


def machine(fused: bool) -> CpuMachine:
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


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("operation", sorted(ROUNDED))
def test_what_is_for_rounded_numbers_is_as_if_they_were_rounded_once_more(
    operation: Operation, fused: bool
) -> None:
    """Half a place of the operand, and a sixth for a factor, beside the function's own error."""
    (values,) = operands(operation, DType.F32, SIZES[DType.F32])
    found = Scalar(ROUNDED[operation], 4, DType.F32, fused, machine(fused))(values)
    with np.errstate(all="ignore"):
        moved = np.where(np.isfinite(values), np.abs(values.astype(np.float64)), 0) * 2**-24 * 1.25
        least, exact, most = (EXACT[operation](values + way * moved) for way in (-1.0, 0.0, 1.0))
        near = exact.astype(np.float32)
        own = ERRORS[operation, DType.F32].of(fused=fused) * np.spacing(near)
    inside = (found >= least - own) & (found <= most + own)
    beyond = (found == near) | (np.isnan(found) & np.isnan(near))
    edge = np.abs(exact / np.finfo(np.float32).max - 1) < 1e-4
    assert (inside | beyond | edge).all()


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


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((one, DType.BF16) for one in SHORT), *((one, DType.F32) for one in ROUNDED.values())],
)
def test_nor_do_those_of_shorter_ways(name: Name, dtype: DType, fused: bool) -> None:
    """Down to the least denormal, and at infinities."""
    near = np.linspace(-110, 95, 1 << 11, dtype=np.float32)
    values = np.concatenate([drawn(DType.F32, 1 << 11, 0), near])
    wide = Scalar(name, 16 if fused else 4, dtype, fused, machine(fused))
    less = masked(host(), "avx512") if fused else masked(host(), "avx", "fma", "f16c")
    assert bits(Scalar(name, 1, dtype, fused, less)(values)) == bits(wide(values))
    ends = wide(np.repeat(np.array([-np.inf, -3e38, 3e38, np.inf], np.float32), 4))
    assert ends[::4].tolist() == [0, 0, np.inf, np.inf]


def bits(values: Any) -> bytes:
    """Of what is not a number, one."""
    return bytes(np.where(np.isnan(values), np.nan, values).tobytes())
