"""The special cases of powers are those of C99, which NumPy has."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.kernels.native_run import program, run
from testkit.kernels.scalar_functions import Scalar
from testkit.kernels.ulps import AWKWARD, worst

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.ir import Operation
from aiosearch.codegen.llvm.scalars import ERRORS
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.jax_call import jax_function
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import apply, tensor
from aiosearch.tensor.types import DType


@pytest.mark.parametrize(("dtype", "kind"), [(DType.F32, np.float32), (DType.F64, np.float64)])
def test_awkward_powers(dtype: DType, kind: type) -> None:
    """Zeros, infinities, ones and what is no number, to the power of each other."""
    pairs = np.array([*itertools.product(AWKWARD, repeat=2)], kind)
    x, y = np.ascontiguousarray(pairs.T)
    results = Scalar(Operation.POW, 4, dtype)(x, y)
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    assert np.allclose(results, expected, rtol=1e-6, atol=0, equal_nan=True)
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.signbit(results)[numbers], np.signbit(expected)[numbers])


def test_powers_near_one_to_large_ones_keep_their_bits() -> None:
    """There, an error of the logarithm is multiplied by hundreds."""
    random = np.random.default_rng(0)
    x, y = 1 + random.uniform(-0.05, 0.05, 1 << 14), random.uniform(-9000, 9000, 1 << 14)
    found = worst(Scalar(Operation.POW, 8, DType.F64), np.power, x, y)
    assert found <= ERRORS[Operation.POW, DType.F64].fused


@pytest.mark.parametrize(("dtype", "kind"), [(DType.F32, np.float32), (DType.F64, np.float64)])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "taken for zero"])
def test_powers_of_denormals(dtype: DType, kind: type, kept: bool) -> None:
    """Right where a thread keeps them, and where it takes them for zero, as XLA's do."""
    made = program(apply("pow", tensor("X", dtype, (40,)), tensor("Y", dtype, (40,))))
    random, limits = np.random.default_rng(0), np.finfo(kind)
    x = np.resize(limits.smallest_subnormal * kind([1, 2, 3, 1000, 12345, 2**20]), 40)
    y = np.asarray(random.uniform(-0.8, 0.8, 40), kind)
    with jax.enable_x64(True):
        if kept:
            (found,) = run(lower(made), [x, y])
        else:
            (found,) = jax_function(print_module(lower(made), {}, host()))(
                jnp.asarray(x), jnp.asarray(y)
            )
    exact = np.exp2(np.log2(x.astype(np.longdouble)) * y)
    np.testing.assert_allclose(found, exact.astype(kind), rtol=4 * limits.eps)


@pytest.mark.parametrize(("dtype", "kind"), [(DType.F32, np.float32), (DType.F64, np.float64)])
def test_powers_of_denormals_below_zero(dtype: DType, kind: type) -> None:
    """As of other negative numbers: none but to whole powers, and below zero to odd ones."""
    made = program(apply("pow", tensor("X", dtype, (8,)), tensor("Y", dtype, (8,))))
    x = np.full(8, -np.finfo(kind).smallest_subnormal * kind(1000))
    y = np.asarray([0.5, -0.5, 5.5, -1e30, -3.0, -1.0, 3.0, -2.0], kind)
    with np.errstate(all="ignore"), jax.enable_x64(True):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble)).astype(kind)
        (kept,) = run(lower(made), [x, y])
        (taken,) = jax_function(print_module(lower(made), {}, host()))(
            jnp.asarray(x), jnp.asarray(y)
        )
    np.testing.assert_allclose(kept, exact, rtol=4 * np.finfo(kind).eps)
    np.testing.assert_array_equal(taken, kept)
