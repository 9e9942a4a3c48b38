"""Code written for CuPy's raw kernels runs unchanged while it is patched."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from aiosearch import cuda

TEXT = r"""
extern "C" __global__ void axpy(const float *x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i] + SHIFT;
}
"""


def test_a_raw_kernel_runs_on_arrays_of_cupy() -> None:
    with cuda.patched():
        import cupy as cp

        kernel = cp.RawKernel(TEXT, "axpy", options=("-DSHIFT=1", "--std=c++14"))
        x, y = cp.arange(100, dtype=cp.float32), cp.ones(100, dtype=cp.float32)
        kernel((4,), (32,), (x, y, np.float32(2), 100))
        cp.cuda.Device().synchronize()
        cp.cuda.Stream.null.synchronize()
        assert isinstance(y, cp.ndarray)
        assert isinstance(x + y, cp.ndarray)
        np.testing.assert_array_equal(y.get(), np.arange(100) * 2 + 2)
        assert type(cp.asnumpy(y)) is np.ndarray
    assert "cupy" not in sys.modules


def test_a_module_has_templates_by_their_expressions_and_shared_memory() -> None:
    text = """
    template <typename T> __global__ void flip(T *a) {
      extern __shared__ T s[];
      s[threadIdx.x] = a[threadIdx.x];
      __syncthreads();
      a[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
    }"""
    with cuda.patched():
        import cupy as cp

        module = cp.RawModule(code=text, name_expressions=["flip<int>", "flip<double>"])
        for name, dtype in (("flip<int>", cp.int32), ("flip<double>", cp.float64)):
            a = cp.arange(32, dtype=dtype)
            module.get_function(name)((1,), (32,), (a,), shared_mem=32 * a.itemsize)
            np.testing.assert_array_equal(a.get(), np.arange(32)[::-1])


def test_an_option_that_would_change_the_result_is_refused() -> None:
    with cuda.patched():
        import cupy as cp

        with pytest.raises(cuda.LaunchError, match="-ftz=true is not supported"):
            cp.RawKernel(TEXT, "axpy", options=("-ftz=true",))
