"""Angles of any size are reduced with as many bits of π as it takes."""

from __future__ import annotations

import numpy as np
import pytest
from testkit.kernels.scalar_functions import Scalar
from testkit.kernels.ulps import worst

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.llvm.scalars import ERRORS
from aiosearch.tensor.types import DType

WORST = 6381956970095103.0 * 2.0**797
"""Of all numbers of 64 bits the one that is nearest to a multiple of π/2."""


def test_the_angle_nearest_to_a_quarter_turn() -> None:
    """Its cosine, by Kahan's program, is -4.68716592425462761112e-19."""
    x = np.array([WORST, -WORST])
    assert Scalar(Operation.COS, 2, DType.F64)(x).tolist() == [-4.687165924254628e-19] * 2


@pytest.mark.parametrize("operation", [Operation.SIN, Operation.COS])
def test_far_and_near_angles_in_one_vector(operation: Operation) -> None:
    """Those that are near are as exact beside a far one as elsewhere."""
    x = np.arange(1, 65, dtype=np.float32)
    alone = Scalar(operation, 16, DType.F32)(x)
    x[::16] = 1e9
    together = Scalar(operation, 16, DType.F32)(x)
    assert np.delete(together, np.s_[::16]).tobytes() == np.delete(alone, np.s_[::16]).tobytes()


@pytest.mark.parametrize("wave", [np.sin, np.cos])
def test_multiples_of_quarter_turns(wave: np.ufunc) -> None:
    """Where a sine is nearly zero, its own few bits are right."""
    operation = Operation(wave.__name__)
    x = np.arange(1 << 12) * (np.pi / 2)
    assert worst(Scalar(operation, 8, DType.F64), wave, x) <= ERRORS[operation, DType.F64].fused
