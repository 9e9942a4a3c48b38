"""Calls of cuBLAS and cuDNN in host code give what the libraries document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch import cuda

BLOCK = Path(__file__).parents[1] / "support" / "block.cu"

GEMM = """
#include <cublas_v2.h>
void gemm(int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
          int ldb, float beta, float *c, int ldc) {
  cublasHandle_t handle;
  cublasCreate(&handle);
  cublasSgemm(handle, (cublasOperation_t)ta, (cublasOperation_t)tb, m, n, k, &alpha, a, lda, b, ldb,
              &beta, c, ldc);
  cublasDestroy(handle);
}
void batched(int n, int count, const double *a, const double *b, double *c) {
  cublasHandle_t handle;
  double one = 1, zero = 0;
  cublasCreate(&handle);
  cublasDgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, n * n, b, n,
                            n * n, &zero, c, n, n * n, count);
}
"""


@pytest.mark.parametrize("ta", [0, 1])
@pytest.mark.parametrize("tb", [0, 1])
def test_a_product_of_matrices_in_columns(ta: int, tb: int) -> None:
    draw = np.random.default_rng(0)
    a, b = (draw.random(shape).astype(np.float32) for shape in ((4, 6), (6, 5)))
    c = draw.random((4, 5)).astype(np.float32)
    expected = 2 * a @ b + 0.5 * c
    # By columns and with a gap behind each, as leading dimensions allow.
    left, right = (np.pad(x if t else x.T, ((0, 0), (0, 2))) for x, t in ((a, ta), (b, tb)))
    target = np.pad(c.T, ((0, 0), (0, 3))).copy()
    module = cuda.load(GEMM)
    shapes = (left.copy(), left.shape[1], right.copy(), right.shape[1])
    module.gemm(ta, tb, 4, 5, 6, 2.0, *shapes, 0.5, target, target.shape[1])
    np.testing.assert_allclose(target[:, :4].T, expected, rtol=1e-5)
    np.testing.assert_array_equal(target[:, 4:], 0)


def test_a_batch_of_products_in_double_precision_overwrites_what_was_there() -> None:
    draw = np.random.default_rng(0)
    a, b = draw.random((3, 4, 4)), draw.random((3, 4, 4))
    c = np.full((3, 4, 4), np.nan)
    cuda.load(GEMM).batched(4, 3, a, b, c)
    np.testing.assert_allclose(c.swapaxes(1, 2), a.swapaxes(1, 2) @ b.swapaxes(1, 2), rtol=1e-12)


LAYERS = """
#include <cudnn.h>
void layers(int mode, const float *x, const float *dy, float *y, float *dx, float *soft,
            float *dsoft) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t large, small;
  cudnnPoolingDescriptor_t pool;
  float one = 1, zero = 0;
  cudnnCreate(&handle);
  cudnnCreateTensorDescriptor(&large);
  cudnnCreateTensorDescriptor(&small);
  cudnnCreatePoolingDescriptor(&pool);
  cudnnSetTensor4dDescriptor(large, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 6, 6);
  cudnnSetTensor4dDescriptor(small, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 3, 3);
  cudnnSetPooling2dDescriptor(pool, (cudnnPoolingMode_t)mode, CUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2,
                              2);
  cudnnPoolingForward(handle, pool, &one, large, x, &zero, small, y);
  cudnnPoolingBackward(handle, pool, &one, small, y, small, dy, large, x, &zero, large, dx);
  cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, small, y,
                      &zero, small, soft);
  cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, small,
                       soft, small, dy, &zero, small, dsoft);
}
void flipped(float *x) {
  cudnnConvolutionDescriptor_t window;
  cudnnTensorDescriptor_t data;
  cudnnFilterDescriptor_t filter;
  int n, c, h, w;
  cudnnCreateConvolutionDescriptor(&window);
  cudnnCreateTensorDescriptor(&data);
  cudnnCreateFilterDescriptor(&filter);
  cudnnSetConvolution2dDescriptor(window, 0, 0, 1, 1, 1, 1, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT);
  cudnnGetConvolution2dForwardOutputDim(window, data, filter, &n, &c, &h, &w);
}
"""


@pytest.mark.parametrize("mode", [0, 1])
def test_pooling_and_softmax_and_their_derivatives(mode: int) -> None:
    draw = np.random.default_rng(0)
    x, dy = (draw.random(s).astype(np.float32) for s in ((2, 3, 6, 6), (2, 3, 3, 3)))
    y, dx, soft, dsoft = np.zeros_like(dy), np.zeros_like(x), np.zeros_like(dy), np.zeros_like(dy)
    cuda.load(LAYERS).layers(mode, x, dy, y, dx, soft, dsoft)
    tiles = x.reshape(2, 3, 3, 2, 3, 2)
    expected = tiles.max((3, 5)) if mode == 0 else tiles.mean((3, 5))
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    spread = dy[:, :, :, None, :, None]
    parts = (tiles == expected[:, :, :, None, :, None]) * spread if mode == 0 else spread / 4
    full = np.broadcast_to(parts, tiles.shape).reshape(x.shape)
    np.testing.assert_allclose(dx, full, rtol=1e-6)
    pooled, pull = jax.vjp(lambda v: jax.nn.softmax(v, 1), jnp.asarray(y))
    np.testing.assert_allclose(soft, pooled, rtol=1e-5)
    np.testing.assert_allclose(dsoft, pull(jnp.asarray(dy))[0], rtol=1e-4, atol=1e-6)


def test_what_is_not_supported_is_refused_with_its_line() -> None:
    with pytest.raises(cuda.CudaError, match=r"text.*cu:\d+: only CUDNN_CROSS_CORRELATION"):
        cuda.load(LAYERS).flipped(np.zeros(1, np.float32))


def _reference(params: Any, x: Any, target: Any) -> Any:
    def layer(value: Any, w: Any, scale: Any, bias: Any) -> Any:
        value = jax.lax.conv(value, w, (1, 1), "SAME")
        mean = value.mean((0, 2, 3), keepdims=True)
        spread = value.var((0, 2, 3), keepdims=True)
        value = (value - mean) / jnp.sqrt(spread + 1e-5)
        return value * scale[:, None, None] + bias[:, None, None]

    first = jax.nn.relu(layer(x, *params[0]))
    return ((jax.nn.relu(layer(first, *params[1]) + x) - target) ** 2).mean()


def test_a_step_of_a_residual_block_has_the_gradients_of_jax_and_learns() -> None:
    count, c, side = 2, 4, 6
    draw = np.random.default_rng(0)
    x, target = (draw.standard_normal((count, c, side, side)).astype(np.float32) for _ in range(2))
    parts = []
    for _ in range(2):
        parts.append((0.3 * draw.standard_normal((c, c, 3, 3))).astype(np.float32))
        parts += [np.ones(c, np.float32), np.zeros(c, np.float32)]
    params = np.concatenate([item.reshape(-1) for item in parts])
    grads, work = np.zeros_like(params), np.zeros((8, x.size), np.float32)
    saved, running, loss = (np.zeros(size, np.float32) for size in (4 * c, 4 * c, 1))
    step = cuda.load(BLOCK).step
    nested = (tuple(map(jnp.asarray, parts[:3])), tuple(map(jnp.asarray, parts[3:])))
    expected, slopes = jax.value_and_grad(_reference)(nested, x, target)
    step(count, c, side, x, target, params, grads, work, saved, running, loss, 0.1)
    flat = np.concatenate([np.asarray(item).reshape(-1) for part in slopes for item in part])
    np.testing.assert_allclose(loss[0], expected, rtol=1e-5)
    np.testing.assert_allclose(grads, flat, rtol=1e-3, atol=1e-5)
    losses = [float(loss[0])]
    for _ in range(5):
        loss[0] = 0
        step(count, c, side, x, target, params, grads, work, saved, running, loss, 0.1)
        losses.append(float(loss[0]))
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[0]
