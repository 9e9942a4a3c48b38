"""Kernels inside of `jax.jit` give new arrays, and leave those that they are passed alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch import cuda
from aiosearch.cuda.numba import cuda as numba_cuda

TEXT = """
__constant__ float weights[2] = {2.0f, 3.0f};
__global__ void scale(float *a, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = a[i] * factor + weights[i & 1];
}
__global__ void sums(const float *in, float *out) {
  __shared__ float s[64];
  int t = threadIdx.x;
  s[t] = in[blockIdx.x * 64 + t];
  __syncthreads();
  for (int k = 32; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}
__global__ void both(unsigned *a, unsigned char *b) {
  a[threadIdx.x] += 0x80000000u; b[threadIdx.x] ^= 255;
}
__global__ void careful(int *a) { assert(a[0] == 0); a[0] = 1; }
"""


@pytest.fixture(scope="module")
def module() -> cuda.CudaModule:
    return cuda.load(TEXT)


def test_a_kernel_between_operations_of_jax_gives_a_new_array(module: cuda.CudaModule) -> None:
    scale = cuda.jit(module.scale)

    @jax.jit
    def f(x: Any) -> Any:
        return scale[4, 32](x + 1, 2.0, 100) - 1, x

    x = jnp.arange(100, dtype=jnp.float32)
    y, before = f(x)
    np.testing.assert_array_equal(y, (np.arange(100) + 1) * 2 + np.tile([2, 3], 50) - 1)
    np.testing.assert_array_equal(before, np.arange(100))


def test_an_array_that_is_still_used_is_not_written_to(module: cuda.CudaModule) -> None:
    x = jnp.ones(64, jnp.float32)
    y = cuda.jit(module.scale)[2, 32](x, 5.0, 64)
    assert float(x.sum()) == 64
    assert float(y[0]) == 7


def test_numbers_that_are_traced_are_passed_when_the_kernel_runs(module: cuda.CudaModule) -> None:
    f = jax.jit(lambda x, factor, n: cuda.jit(module.scale)[1, 8](x, factor, n))
    for factor, n in ((2.0, 8), (3.0, 4)):
        expected = np.where(np.arange(8) < n, factor + np.tile([2, 3], 4), 1)
        np.testing.assert_array_equal(f(jnp.ones(8), factor, n), expected)


def test_a_shape_stands_for_an_array_that_is_only_written(module: cuda.CudaModule) -> None:
    sums = cuda.jit(module.sums)
    data = np.arange(256, dtype=np.float32)
    out = jax.jit(lambda x: sums[4, 64](x, jax.ShapeDtypeStruct((4,), jnp.float32)))(data)
    np.testing.assert_array_equal(out, data.reshape(4, 64).sum(1))


def test_several_arrays_come_as_a_tuple_in_any_type_of_whole_numbers(
    module: cuda.CudaModule,
) -> None:
    a, b = jnp.arange(4, dtype=jnp.uint32), jnp.arange(4, dtype=jnp.uint8)
    first, second = cuda.jit(module.both)[1, 4](a, b)
    assert first.dtype == jnp.uint32
    np.testing.assert_array_equal(first, np.arange(4, dtype=np.uint32) + np.uint32(1 << 31))
    np.testing.assert_array_equal(second, 255 - np.arange(4))


def test_a_mapped_kernel_runs_for_each_element(module: cuda.CudaModule) -> None:
    scale = cuda.jit(module.scale)
    x = np.random.default_rng(0).random((3, 8)).astype(np.float32)
    mapped = jax.vmap(lambda row: scale[1, 8](row, 2.0, 8))(x)
    np.testing.assert_allclose(mapped, x * 2 + np.tile([2, 3], 4), rtol=1e-6)


@numba_cuda.jit
def halved(a: Any) -> None:
    i = numba_cuda.grid(1)
    if i < a.shape[0]:
        a[i] = a[i] / 2


def test_a_kernel_in_python_is_typed_from_traced_arrays() -> None:
    y = jax.jit(lambda x: cuda.jit(halved)[2, 32](x))(jnp.arange(50, dtype=jnp.float32))
    np.testing.assert_array_equal(y, np.arange(50) / 2)


def test_what_cannot_be_inside_of_jax_is_refused_with_the_reason(module: cuda.CudaModule) -> None:
    with pytest.raises(cuda.LaunchError, match="an assertion"):
        cuda.jit(module.careful)[1, 1](jnp.zeros(1, jnp.int32))
    with pytest.raises(cuda.LaunchError, match="points to f32, and the array is int32"):
        cuda.jit(module.scale)[1, 1](jnp.zeros(1, jnp.int32), 1.0, 1)
    with pytest.raises(cuda.LaunchError, match="only read"):
        cuda.jit(module.sums)[1, 64](jax.ShapeDtypeStruct((64,), jnp.float32), jnp.zeros(1))


def test_what_is_no_kernel_is_refused(module: cuda.CudaModule) -> None:
    with pytest.raises(cuda.LaunchError, match="jit takes a kernel"):
        cuda.jit(module)  # type: ignore[arg-type]  # as someone writes who forgot the kernel
