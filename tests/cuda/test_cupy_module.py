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


def test_a_kernel_for_one_element_is_broadcast_and_takes_its_types_from_arrays() -> None:
    with cuda.patched():
        import cupy as cp

        squared = cp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared")
        for dtype in (cp.float32, cp.int64):
            x, y = cp.arange(12, dtype=dtype).reshape(3, 4), cp.arange(4, dtype=dtype)
            result = squared(x, y)
            assert isinstance(result, cp.ndarray)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, (x - y) ** 2)
        np.testing.assert_array_equal(squared(x, 5), (x - 5) ** 2)
        out = cp.empty((3, 4), cp.int64)
        assert squared(x, y, out) is out
        np.testing.assert_array_equal(out, (x - y) ** 2)
        with pytest.raises(cuda.LaunchError, match="y is float32, and T is int64"):
            squared(x, y.astype(cp.float32))


def test_a_raw_argument_is_an_array_of_which_any_element_is_read() -> None:
    with cuda.patched():
        import cupy as cp

        text = "y = x[n - 1 - i]; z = i"
        turned = cp.ElementwiseKernel("raw T x, int32 n", "T y, int32 z", text, "turned")
        x = cp.arange(5, dtype=cp.float64)
        y, z = turned(x, 5, size=5)
        np.testing.assert_array_equal(y, x[::-1])
        np.testing.assert_array_equal(z, np.arange(5))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
def test_a_reduction_maps_reduces_and_maps_again(axis: int | tuple[int, ...] | None) -> None:
    with cuda.patched():
        import cupy as cp

        norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
        x = cp.arange(3 * 4 * 300, dtype=cp.float64).reshape(3, 4, 300)
        np.testing.assert_allclose(norm(x, axis=axis), np.sqrt((x.get() ** 2).sum(axis)))
        kept = norm(x, axis=axis, keepdims=True)
        np.testing.assert_allclose(kept, np.sqrt((x.get() ** 2).sum(axis, keepdims=True)))


def test_a_reduction_that_is_no_sum() -> None:
    with cuda.patched():
        import cupy as cp

        text = ("T x, T y", "T z", "abs(x - y)", "max(a, b)", "z = a", "0", "farthest")
        farthest = cp.ReductionKernel(*text)
        x = cp.array([1.0, -5.0, 2.0], cp.float32)
        assert farthest(x, 1) == 6
