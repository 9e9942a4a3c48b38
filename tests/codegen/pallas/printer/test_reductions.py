"""Sums that run along with a maximum."""

from __future__ import annotations

import numpy as np
import pytest
from testkit.kernels.pallas_run import outputs

from aiosearch.codegen import ir
from aiosearch.codegen.ir import (
    Apply,
    Buffer,
    BufferLoad,
    KernelStage,
    LoopIndex,
    Module,
    Operation,
    ReductionKind,
    TileKernel,
)
from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.codegen.pallas import Tiling, write
from aiosearch.tensor import DType

I, K = LoopIndex("i", 8), LoopIndex("k", 21)  # noqa: E741
ROW, WHOLE = (ir.index(I),), (ir.index(I), ir.index(K))
X = Buffer("X", DType.F32, (8, 21))
E = Buffer("e", DType.F32, (8, 21))
MOST, SUM, SQUARES = (Buffer(name, DType.F32, (8,)) for name in ("most", "sum", "squares"))
TILING = {"k": Tiling({"i": 4, "k": 4})}


def _sums() -> Module:
    less = Apply(Operation.SUBTRACT, (BufferLoad(X, WHOLE), BufferLoad(MOST, ROW)))
    square = Apply(Operation.MULTIPLY, (BufferLoad(E, WHOLE), BufferLoad(E, WHOLE)))
    stages = (
        KernelStage(MOST, ROW, BufferLoad(X, WHOLE), (K,), ReductionKind.MAX),
        KernelStage(E, WHOLE, Apply(Operation.EXP, (less,))),
        KernelStage(SUM, ROW, BufferLoad(E, WHOLE), (K,), ReductionKind.SUM),
        KernelStage(SQUARES, ROW, square, (K,), ReductionKind.SUM),
    )
    outputs = (MOST, SUM, SQUARES)
    return Module("m", (X,), outputs, (TileKernel("k", (X,), outputs, stages),))


@pytest.fixture(scope="module")
def x() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Rows of numbers that grow, shrink, are far off, begin or end with nothing, or are special."""
    found = np.random.default_rng(0).normal(size=(8, 21)).astype(np.float32)
    found[0] += 30 * np.arange(21)
    found[1] -= 30 * np.arange(21)
    found[2] -= 1e4
    found[3, :9] = -np.inf
    found[4, 9:] = -np.inf
    found[5] = -np.inf
    found[6, 11] = np.inf
    found[7, 3] = np.nan
    return found


def test_a_maximum_and_what_scales_with_it_share_a_loop(
    x: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> None:
    """Infinities and what is no number come out as if the maximum were known before."""
    module = _sums()
    assert write(module, TILING).count("lax.fori_loop(") == 1
    wanted = interpret(module, [x])
    for found, right in zip(outputs(module, TILING, [x]), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5)


def test_what_is_needed_element_by_element_takes_the_whole_maximum() -> None:
    module = _sums()
    (kernel,) = module.kernels
    shown = Module("m", (X,), (E, SUM), (TileKernel("k", (X,), (E, SUM), kernel.stages),))
    assert write(shown, TILING).count("lax.fori_loop(") == 2
    given = [np.linspace(-9, 9, 168, dtype=np.float32).reshape(8, 21)]
    wanted = interpret(shown, given)
    for found, right in zip(outputs(shown, TILING, given), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5)
