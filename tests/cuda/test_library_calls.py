"""Calls of cuBLAS and cuDNN in host code give what the libraries document."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch import cuda
from aiosearch.cuda import LibraryChoice, LibraryPolicy

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from resnetnetworks import ResNet, drawn, flat, jax_loss, jax_step, last_channels, layout, parts

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


@pytest.mark.parametrize("server", list(LibraryPolicy))
@pytest.mark.parametrize("ta", [0, 1])
@pytest.mark.parametrize("tb", [0, 1])
def test_a_product_of_matrices_in_columns(ta: int, tb: int, server: LibraryPolicy) -> None:
    draw = np.random.default_rng(0)
    a, b = (draw.random(shape).astype(np.float32) for shape in ((4, 6), (6, 5)))
    c = draw.random((4, 5)).astype(np.float32)
    expected = 2 * a @ b + 0.5 * c
    # By columns and with a gap behind each, as leading dimensions allow.
    left, right = (np.pad(x if t else x.T, ((0, 0), (0, 2))) for x, t in ((a, ta), (b, tb)))
    target = np.pad(c.T, ((0, 0), (0, 3))).copy()
    module = cuda.load(GEMM, choices=cuda.Choices(libraries=server))
    shapes = (left.copy(), left.shape[1], right.copy(), right.shape[1])
    module.gemm(ta, tb, 4, 5, 6, 2.0, *shapes, 0.5, target, target.shape[1])
    np.testing.assert_allclose(target[:, :4].T, expected, rtol=1e-5)
    np.testing.assert_array_equal(target[:, 4:], 0)


@pytest.mark.parametrize("server", list(LibraryPolicy))
def test_a_batch_of_products_in_double_precision_overwrites_what_was_there(
    server: LibraryPolicy,
) -> None:
    draw = np.random.default_rng(0)
    a, b = draw.random((3, 4, 4)), draw.random((3, 4, 4))
    c = np.full((3, 4, 4), np.nan)
    module = cuda.load(GEMM, choices=cuda.Choices(libraries=server))
    module.batched(4, 3, a, b, c)
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


CALLS = Path(__file__).parents[1] / "support" / "calls.cu"
SERVERS = [LibraryPolicy.OURS, LibraryPolicy.XLA]
WINDOWS = {
    "3 by 3": ((2, 3, 9, 7), (5, 3, 3, 3), (1, 1, 1, 1, 1, 1), 1),
    "3 by 3, every second pixel": ((2, 4, 9, 9), (20, 4, 3, 3), (1, 1, 2, 2, 1, 1), 1),
    "1 by 1": ((2, 8, 9, 9), (6, 8, 1, 1), (0, 0, 1, 1, 1, 1), 1),
    "1 by 1 of few pixels": ((3, 8, 2, 2), (70, 8, 1, 1), (0, 0, 1, 1, 1, 1), 1),
    "1 by 1 of an image": ((1, 8, 6, 6), (6, 8, 1, 1), (0, 0, 1, 1, 1, 1), 1),
    "1 by 1, every second pixel": ((2, 8, 9, 9), (6, 8, 1, 1), (0, 0, 2, 2, 1, 1), 1),
    "5 by 3, dilated": ((2, 3, 20, 12), (4, 3, 5, 3), (3, 1, 2, 1, 2, 3), 1),
    "groups": ((2, 4, 6, 6), (8, 2, 3, 3), (1, 1, 1, 1, 1, 1), 2),
}


def _calls(server: LibraryPolicy, dtype: str = "float32") -> Any:
    defines = [] if dtype == "float32" else ["REAL=double", "TYPE=CUDNN_DATA_DOUBLE"]
    return cuda.load(CALLS, defines=defines, choices=cuda.Choices(libraries=server))


def _drawn(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape).astype(np.dtype(dtype)) for shape in shapes]


def _ints(*values: Any) -> Any:
    return np.array([number for value in values for number in value], np.int32)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", WINDOWS)
def test_convolutions_and_their_derivatives(name: str, server: LibraryPolicy) -> None:
    shape, filters, window, groups = WINDOWS[name]

    def convolved(x: Any, w: Any) -> Any:
        padding = [(window[0],) * 2, (window[1],) * 2]
        return jax.lax.conv_general_dilated(
            x, w, window[2:4], padding, rhs_dilation=window[4:], feature_group_count=groups
        )

    x, w = _drawn(shape, filters)
    y, pull = jax.vjp(convolved, x, w)
    (dy,) = _drawn(y.shape)
    module, sizes = _calls(server), _ints(shape, filters, y.shape, window, (groups,))
    for which, (inputs, expected) in enumerate(
        [((x, w), y), ((w, dy), pull(jnp.asarray(dy))[0]), ((x, dy), pull(jnp.asarray(dy))[1])]
    ):
        out = np.full(expected.shape, np.nan, np.float32)
        module.convolve(which, sizes, 1.0, 0.0, *inputs, out)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
        module.convolve(which, sizes, 2.0, 0.5, *inputs, out)
        np.testing.assert_allclose(out, 2.5 * expected, rtol=1e-4, atol=3e-4)
    servers = {choice.server for choice in module.library_choices}
    assert servers == {"XLA" if groups > 1 else server.value}


@pytest.mark.parametrize("server", SERVERS)
def test_a_convolution_in_double_precision(server: LibraryPolicy) -> None:
    x, w = _drawn((2, 3, 5, 5), (4, 3, 2, 2), dtype="float64")
    out = np.zeros((2, 4, 4, 4))
    sizes = _ints(x.shape, w.shape, out.shape, (0, 0, 1, 1, 1, 1, 1))
    _calls(server, "float64").convolve(0, sizes, 1.0, 0.0, x, w, out)
    views = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    np.testing.assert_allclose(out, np.einsum("nchwrs,kcrs->nkhw", views, w), rtol=1e-11)


def test_a_bias_is_added_and_its_derivative_is_the_sum() -> None:
    y, b = _drawn((2, 3, 4, 5), (3,))
    before, back = y.copy(), np.zeros(3, np.float32)
    _calls(LibraryPolicy.XLA).bias(_ints(y.shape, (1, 3, 1, 1)), b, y, back)
    np.testing.assert_allclose(y, before + b[:, None, None], rtol=1e-6)
    np.testing.assert_allclose(back, before.sum((0, 2, 3)), rtol=1e-5)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("side", [2, 9])
def test_batch_norm_in_training_in_use_and_backward(server: LibraryPolicy, side: int) -> None:
    shape, c = (3, 5, side, side), 5
    x, dy, scale, bias = _drawn(shape, shape, (c,), (c,))
    running, saved, slopes = (np.zeros((2, c), np.float32) for _ in range(3))
    running[1] = 1
    y, inferred, dx = (np.zeros(shape, np.float32) for _ in range(3))
    arrays = (x, dy, scale, bias, running, saved, y, inferred, dx, slopes)
    _calls(server).normalize(_ints(shape, (1, c, 1, 1)), *arrays)

    def normalized(x: Any, scale: Any, bias: Any) -> Any:
        mean, spread = (f((0, 2, 3), keepdims=True) for f in (x.mean, x.var))
        return (x - mean) / jnp.sqrt(spread + 1e-3) * scale[:, None, None] + bias[:, None, None]

    expected, pull = jax.vjp(normalized, *map(jnp.asarray, (x, scale, bias)))
    mean, spread, count = x.mean((0, 2, 3)), x.var((0, 2, 3)), x.size // c
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(saved, [mean, 1 / np.sqrt(spread + 1e-3)], rtol=1e-4, atol=1e-6)
    moved = [0.25 * mean, 0.75 + 0.25 * spread * count / (count - 1)]
    np.testing.assert_allclose(running, moved, rtol=1e-4, atol=1e-6)
    used = (x - moved[0][:, None, None]) / np.sqrt(moved[1] + 1e-3)[:, None, None]
    used = used * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(inferred, used, rtol=1e-4, atol=1e-5)
    for actual, slope in zip((dx, *slopes), pull(jnp.asarray(dy)), strict=True):
        np.testing.assert_allclose(actual, slope, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_pooling_of_windows_that_overlap_and_are_padded(server: LibraryPolicy, mode: int) -> None:
    (x,) = _drawn((2, 3, 9, 8))
    x = np.maximum(x, 0)  # with equal maxima, of which the first has the derivative
    padding = ((0, 0), (0, 0), (1, 1), (1, 1))

    def pooled(x: Any) -> Any:
        shape = (1, 1, 3, 3), (1, 1, 2, 2), padding
        if mode == 0:
            return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, *shape)
        total = jax.lax.reduce_window(x, 0.0, jax.lax.add, *shape)
        ones = jax.lax.reduce_window(jnp.ones_like(x), 0.0, jax.lax.add, *shape)
        return total / (9 if mode == 1 else ones)

    expected, pull = jax.vjp(pooled, jnp.asarray(x))
    (dy,) = _drawn(expected.shape)
    y, dx = np.zeros_like(dy), np.zeros_like(x)
    sizes, numbers = _ints(x.shape, y.shape), _ints((mode, 3, 3, 1, 1, 2, 2))
    _calls(server).pool(sizes, numbers, x, dy, y, dx)
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    np.testing.assert_allclose(dx, pull(jnp.asarray(dy))[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("mode", range(4))
def test_activations_and_their_derivatives(server: LibraryPolicy, mode: int) -> None:
    x, dy = _drawn((2, 3, 4, 5), (2, 3, 4, 5))
    functions = [jax.nn.sigmoid, jax.nn.relu, jnp.tanh, lambda v: jnp.clip(v, 0, 0.5)]
    expected, pull = jax.vjp(functions[mode], jnp.asarray(x))
    y, dx = np.zeros_like(x), np.zeros_like(x)
    _calls(server).activate(_ints(x.shape), mode, 0.5, x, dy, y, dx)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, pull(jnp.asarray(dy))[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("algorithm", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1])
def test_softmax_and_its_derivative(server: LibraryPolicy, algorithm: int, mode: int) -> None:
    x, dy = _drawn((2, 5, 3, 2), (2, 5, 3, 2))
    function = jax.nn.log_softmax if algorithm == 2 else jax.nn.softmax
    axes = 1 if mode == 1 else (1, 2, 3)
    expected, pull = jax.vjp(lambda v: function(v, axis=axes), jnp.asarray(x))
    y, dx = np.zeros_like(x), np.zeros_like(x)
    _calls(server).soften(_ints(x.shape), algorithm, mode, x, dy, y, dx)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, pull(jnp.asarray(dy))[0], rtol=1e-4, atol=1e-6)


def test_products_whose_matrices_lie_anywhere() -> None:
    a, b = _drawn((2, 4, 4), (2, 4, 4))
    c = np.zeros((2, 4, 4), np.float32)
    _calls(LibraryPolicy.XLA).products(4, a, b, c)
    expected = a.swapaxes(1, 2) @ b[::-1].swapaxes(1, 2)
    np.testing.assert_allclose(c.swapaxes(1, 2), expected, rtol=1e-5, atol=1e-6)


def _is_served_by_whoever_is_faster(choice: LibraryChoice) -> bool:
    assert choice.ours_seconds is not None
    assert choice.xla_seconds is not None
    return f"XLA {choice.xla_seconds * 1e3:.3f} ms" in choice.reason


def test_a_kind_of_call_is_measured_once_and_what_was_faster_is_remembered() -> None:
    x, dy = _drawn((2, 3, 4, 5), (2, 3, 4, 5))
    choices = []
    for _ in range(2):
        y, dx = np.zeros_like(x), np.zeros_like(x)
        module = _calls(LibraryPolicy.MEASURED)
        for _ in range(2):
            module.activate(_ints(x.shape), 1, 0.5, x, dy, y, dx)
        np.testing.assert_array_equal(y, np.maximum(x, 0))
        np.testing.assert_array_equal(dx, np.where(x > 0, dy, 0))
        choices.append(module.library_choices)
    first, second = choices
    assert [item.call for item in first] == ["cudnnActivationForward", "cudnnActivationBackward"]
    assert all(map(_is_served_by_whoever_is_faster, first))
    assert all(item.reason.endswith("measured now") for item in first)
    assert all(item.reason.endswith("measured before") for item in second)
    assert [item.server for item in first] == [item.server for item in second]
    assert "cudnnActivationForward(float32[2,3,4,5], 1, 1, 0.5): " in str(first[0])


def test_what_is_measured_changes_nothing_that_is_added_to() -> None:
    x, w = _drawn((1, 2, 4, 4), (3, 2, 1, 1))
    out = np.ones((1, 3, 4, 4), np.float32)
    sizes = _ints(x.shape, w.shape, out.shape, (0, 0, 1, 1, 1, 1, 1))
    _calls(LibraryPolicy.MEASURED).convolve(0, sizes, 1.0, 1.0, x, w, out)
    expected = 1 + np.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0])
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


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


@pytest.mark.parametrize("server", list(LibraryPolicy))
def test_a_residual_network_has_the_gradients_of_jax_and_learns(server: LibraryPolicy) -> None:
    """ResNet-50's layers, three blocks of them: of fifty over few numbers, rounding is large."""
    laid = layout(4, 32, 10, (1, 2), 8)
    network = ResNet(laid, choices=cuda.Choices(libraries=server))
    images, labels = drawn(laid)
    layers = [jnp.array(item) for item in parts(laid, network.params)]
    loss = network.step(images, labels)
    expected, slopes = jax.value_and_grad(jax_loss, 1)(laid, layers, images, labels)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    turned = jax_loss(laid, last_channels(layers), images, labels, last=True)
    np.testing.assert_allclose(turned, expected, rtol=1e-5)
    for place, (actual, slope) in enumerate(zip(parts(laid, network.slopes), slopes, strict=True)):
        largest = float(jnp.abs(slope).max())
        np.testing.assert_allclose(actual, slope, atol=1e-4 * largest, err_msg=f"layer {place}")
    losses = [loss, *(network.step(images, labels) for _ in range(5))]
    assert losses == sorted(losses, reverse=True)
    served = {item.server for item in network.module.library_choices}
    assert server is LibraryPolicy.MEASURED or served == {server.value}


def test_a_step_of_the_network_is_that_of_jax() -> None:
    laid = layout(2, 32, 5, (1,), 4)
    network = ResNet(laid, choices=cuda.Choices(libraries=LibraryPolicy.OURS))
    images, labels = drawn(laid)
    layers = [jnp.array(item) for item in parts(laid, network.params)]
    velocity = [jnp.zeros_like(item) for item in layers]
    step = jax_step(laid, 0.05, 0.9)
    for _ in range(2):
        network.step(images, labels, 0.05, 0.9)
        layers, velocity, _ = step(layers, velocity, images, labels)
    np.testing.assert_allclose(network.params, flat(layers), atol=1e-4)


MIXED = """
#include <cublas_v2.h>
void mixed(int ta, int type, int result, int compute, int m, int n, int k,
           const void *alpha, const void *a, const void *b, const void *beta, void *c) {
  cublasHandle_t handle;
  cublasCreate(&handle);
  cublasSetMathMode(handle, CUBLAS_TENSOR_OP_MATH);
  cublasGemmEx(handle, (cublasOperation_t)ta, CUBLAS_OP_N, m, n, k, alpha, a, (cudaDataType)type,
               ta ? k : m, b, (cudaDataType)type, k, beta, c, (cudaDataType)result, m,
               (cublasComputeType_t)compute, CUBLAS_GEMM_DEFAULT);
}
"""


@pytest.mark.parametrize(
    ("dtype", "number"), [("float16", 2), ("bfloat16", 14), ("float32", 0), ("float64", 1)]
)
@pytest.mark.parametrize("ta", [0, 1])
def test_products_of_types_that_are_summed_in_wider_ones(dtype: str, number: int, ta: int) -> None:
    m, n, k, kind = 4, 5, 70, np.dtype(getattr(jnp, dtype))
    draw = np.random.default_rng(0)
    a, b, c = (draw.standard_normal(size).astype(kind) for size in ((m, k), (k, n), (m, n)))
    double = dtype == "float64"
    wide, compute = (np.float64, 70) if double else (np.float32, 68)
    expected = 2 * (a.astype(wide) @ b.astype(wide)) + 0.5 * c.astype(wide)
    target = np.ascontiguousarray(c.T)
    left = np.ascontiguousarray(a if ta else a.T)
    scales = np.array([2, 0.5], wide)
    cuda.load(MIXED).mixed(
        ta, number, number, compute, m, n, k, scales[:1], left, np.ascontiguousarray(b.T),
        scales[1:], target,
    )  # fmt: skip
    exact = 1e-12 if double else 1e-5
    rounding = exact if kind.itemsize > 2 else float(jnp.finfo(kind).eps)
    np.testing.assert_allclose(target.T.astype(wide), expected, rtol=rounding, atol=rounding)


def test_a_product_of_halves_with_scales_of_halves_is_kept_in_float32() -> None:
    a = np.full((2, 2), 100, np.float16)
    c, scales = np.zeros((2, 2), np.float32), np.array([1, 0], np.float16)
    cuda.load(MIXED).mixed(0, 2, 0, 64, 2, 2, 2, scales[:1], a, a, scales[1:], c)
    np.testing.assert_array_equal(c, 20_000)


CHOSEN = """
#include <cudnn.h>
void chosen(const int *s, const float *x, const float *w, float *y, int *said) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t xd, yd;
  cudnnFilterDescriptor_t wd;
  cudnnConvolutionDescriptor_t window;
  cudnnConvolutionFwdAlgoPerf_t perf[4];
  cudnnConvolutionBwdDataAlgo_t data;
  cudnnConvolutionBwdFilterAlgoPerf_t filter;
  size_t bytes = 7;
  int count = 0;
  float one = 1, zero = 0;
  cudnnCreate(&handle);
  cudnnCreateTensorDescriptor(&xd);
  cudnnCreateTensorDescriptor(&yd);
  cudnnCreateFilterDescriptor(&wd);
  cudnnCreateConvolutionDescriptor(&window);
  cudnnSetTensor4dDescriptor(xd, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, s[0], s[1], s[2], s[3]);
  cudnnSetFilter4dDescriptor(wd, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, s[4], s[5], s[6], s[7]);
  cudnnSetTensor4dDescriptor(yd, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, s[8], s[9], s[10], s[11]);
  cudnnSetConvolution2dDescriptor(window, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                  CUDNN_DATA_FLOAT);
  cudnnSetConvolutionMathType(window, CUDNN_TENSOR_OP_MATH);
  cudnnGetConvolutionForwardAlgorithm_v7(handle, xd, wd, window, yd, 4, &count, perf);
  cudnnGetConvolutionBackwardDataAlgorithm(handle, wd, yd, window, xd,
                                           CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST, 0, &data);
  cudnnGetConvolutionForwardWorkspaceSize(handle, xd, wd, window, yd, perf[0].algo, &bytes);
  said[0] = count;
  said[1] = perf[0].algo;
  said[2] = data;
  said[3] = bytes + perf[0].memory;
  said[4] = perf[0].status;
  cudnnFindConvolutionBackwardFilterAlgorithm(handle, xd, yd, window, wd, 1, &count, &filter);
  said[5] = filter.algo;
  cudnnConvolutionForward(handle, &one, xd, x, wd, w, window, perf[0].algo, 0, bytes, &zero, yd,
                          y);
}
"""


@pytest.mark.parametrize("server", list(LibraryPolicy))
def test_tensors_with_the_channels_last_and_an_algorithm_that_is_asked_for(
    server: LibraryPolicy,
) -> None:
    x, w = _drawn((2, 6, 5, 3), (4, 2, 2, 3))
    y, said = np.zeros((2, 5, 4, 4), np.float32), np.full(6, -1, np.int32)
    sizes = _ints((2, 3, 6, 5), (4, 3, 2, 2), (2, 4, 5, 4))
    cuda.load(CHOSEN, choices=cuda.Choices(libraries=server)).chosen(sizes, x, w, y, said)
    views = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (1, 2))
    np.testing.assert_allclose(y, np.einsum("nhwcrs,krsc->nhwk", views, w), rtol=1e-4, atol=1e-5)
    assert said.tolist() == [1, 1, 1, 0, 0, 1]
