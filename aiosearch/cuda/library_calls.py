"""Calls of cuBLAS and cuDNN in host code, done by XLA.

A handle or a descriptor is a number that stands for what was set. A call reads its arrays where
they lie, runs a function that XLA has compiled for these shapes, and writes
`alpha * result + beta * old` over the output. Matrices of cuBLAS go down their columns.

What has a formula is written down once, forwards; the backward calls take its derivative from JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from .errors import CudaError
from .interpreter.arithmetic import Array

JaxArray: TypeAlias = Any
"""An array of JAX, or a tracer of one."""
ElementType: TypeAlias = np.dtype[Any]
Argument: TypeAlias = Any
"""An argument of a call: an address, a size, an enumerator, a number."""
Bytes: TypeAlias = Callable[[int, int], Array]
"""The bytes at an address, which can be written to."""

_DTYPES: dict[int, ElementType] = {
    0: np.dtype(np.float32),
    1: np.dtype(np.float64),
    2: np.dtype(np.float16),
}
_NCHW, _SPATIAL, _TRANSPOSED = 0, (1, 2), (1, 2)


@dataclass(slots=True)
class LibraryDescriptor:
    """What a descriptor says: of a tensor type and sizes, of an operation its numbers."""

    dtype: ElementType = field(default_factory=lambda: _DTYPES[0])
    shape: tuple[int, ...] = ()
    numbers: tuple[float, ...] = ()
    groups: int = 1


@dataclass(slots=True)
class LibraryCalls:
    """The libraries as one call of a host function sees them."""

    memory: Bytes
    _descriptors: dict[int, LibraryDescriptor] = field(default_factory=dict)

    def call(self, name: str, values: Sequence[Argument]) -> None:
        """Does a call; raises CudaError for one that is not supported."""
        action = _ACTIONS.get(name)
        if name.startswith(("cudnnCreate", "cublasCreate")):
            self._create(values[0])
        elif name.startswith(("cudnnDestroy", "cublasDestroy")):
            self._descriptors.pop(values[0], None)
        elif action is not None:
            action(self, *values)
        elif not name.endswith("SetStream"):
            raise CudaError(f"{name} is not supported")

    # --- descriptors

    def _create(self, target: int) -> None:
        number = max(self._descriptors, default=0) + 1
        self._descriptors[number] = LibraryDescriptor()
        self.memory(target, 8)[:] = np.array([number], np.int64).view(np.uint8)

    def _descriptor(self, number: int) -> LibraryDescriptor:
        if number not in self._descriptors:
            raise CudaError("a descriptor or handle is used that was not created")
        return self._descriptors[number]

    def set_tensor(self, number: int, format: int, dtype: int, *shape: int) -> None:
        if format != _NCHW:
            raise CudaError("tensors have to be NCHW")
        described = self._descriptor(number)
        described.dtype, described.shape = _DTYPES[dtype], shape

    def set_filter(self, number: int, dtype: int, format: int, *shape: int) -> None:
        self.set_tensor(number, format, dtype, *shape)

    def set_numbers(self, number: int, *numbers: float) -> None:
        self._descriptor(number).numbers = numbers

    def set_groups(self, number: int, groups: int) -> None:
        self._descriptor(number).groups = groups

    # --- memory

    def _number(self, address: int, dtype: ElementType) -> float:
        wide = np.dtype(np.float64) if dtype.itemsize == 8 else np.dtype(np.float32)
        return float(self.memory(address, wide.itemsize).view(wide)[0])

    def _array(self, number: int, address: int) -> Array:
        described = self._descriptor(number)
        return self._elements(address, described.dtype, described.shape)

    def _elements(self, address: int, dtype: ElementType, shape: tuple[int, ...]) -> Array:
        size = int(np.prod(shape)) * dtype.itemsize
        return self.memory(address, size).view(dtype).reshape(shape)

    def _write(self, target: Array, result: JaxArray, alpha: int, beta: int) -> None:
        new = np.asarray(result).reshape(target.shape)
        first, second = self._number(alpha, target.dtype), self._number(beta, target.dtype)
        # With beta = 0 what was there is not read: it may be anything, a NaN even.
        old = 0 if second == 0 else target.dtype.type(second) * target
        target[...] = target.dtype.type(first) * new + old

    # --- cuBLAS

    def sgemm(self, *values: Argument) -> None:
        self._gemm(np.dtype(np.float32), *values)

    def dgemm(self, *values: Argument) -> None:
        self._gemm(np.dtype(np.float64), *values)

    def sgemm_batched(self, *values: Argument) -> None:
        self._gemm_batched(np.dtype(np.float32), *values)

    def dgemm_batched(self, *values: Argument) -> None:
        self._gemm_batched(np.dtype(np.float64), *values)

    def _gemm(self, dtype: ElementType, handle: int, *values: Argument) -> None:
        ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = values
        batched = (ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1)
        self._gemm_batched(dtype, handle, *batched)

    def _gemm_batched(self, dtype: ElementType, handle: int, *values: Argument) -> None:
        ta, tb, m, n, k, alpha, a, lda, step_a, b, ldb, step_b, beta, c, ldc, step_c, count = values
        self._descriptor(handle)
        left = self._matrices(dtype, a, (m, k) if ta == 0 else (k, m), lda, step_a, count)
        right = self._matrices(dtype, b, (k, n) if tb == 0 else (n, k), ldb, step_b, count)
        target = self._matrices(dtype, c, (m, n), ldc, step_c, count)
        with jax.enable_x64(dtype.itemsize == 8):
            result = _product(left, right, ta in _TRANSPOSED, tb in _TRANSPOSED)
        self._write(target, result, alpha, beta)

    def _matrices(
        self,
        dtype: ElementType,
        address: int,
        shape: tuple[int, int],
        leading: int,
        step: int,
        count: int,
    ) -> Array:
        """A view of matrices that lie column by column, `step` elements apart."""
        rows, columns = shape
        size = step * (count - 1) + leading * (columns - 1) + rows
        flat = self.memory(address, size * dtype.itemsize).view(dtype)
        strides = tuple(dtype.itemsize * item for item in (step, 1, leading))
        return np.lib.stride_tricks.as_strided(flat, (count, rows, columns), strides)

    # --- cuDNN

    def output_size(self, conv: int, x: int, w: int, *targets: int) -> None:
        first, second = self._descriptor(x), self._descriptor(w)
        shapes = [
            jax.ShapeDtypeStruct(item.shape, np.float32)  # type: ignore[no-untyped-call]  # jax's
            for item in (first, second)
        ]
        result = jax.eval_shape(functools.partial(_convolution, *self._window(conv)), *shapes)
        for target, size in zip(targets, result.shape, strict=True):
            self.memory(target, 4)[:] = np.array([size], np.int32).view(np.uint8)

    def workspace_size(self, *values: int) -> None:
        self.memory(values[-1], 8)[:] = 0

    def _window(self, number: int) -> tuple[tuple[int, ...], int]:
        described = self._descriptor(number)
        if described.numbers[6] != 1:
            raise CudaError("only CUDNN_CROSS_CORRELATION is supported, which flips no filter")
        return tuple(map(int, described.numbers[:6])), described.groups

    def convolution(self, handle: int, alpha: int, *values: Argument) -> None:
        xd, x, wd, w, conv, _, _, _, beta, yd, y = values
        run = _compiled(_convolution, self._window(conv))
        self._done(run, (self._array(xd, x), self._array(wd, w)), (yd, y, alpha, beta))

    def convolution_data(self, handle: int, alpha: int, *values: Argument) -> None:
        wd, w, dyd, dy, conv, _, _, _, beta, dxd, dx = values
        run = _transposed(_convolution, self._window(conv), 0)
        like, filters = np.zeros_like(self._array(dxd, dx)), self._array(wd, w)
        self._done(run, (like, filters, self._array(dyd, dy)), (dxd, dx, alpha, beta))

    def convolution_filter(self, handle: int, alpha: int, *values: Argument) -> None:
        xd, x, dyd, dy, conv, _, _, _, beta, dwd, dw = values
        run = _transposed(_convolution, self._window(conv), 1)
        like = np.zeros_like(self._array(dwd, dw))
        self._done(run, (self._array(xd, x), like, self._array(dyd, dy)), (dwd, dw, alpha, beta))

    def normalized(self, handle: int, mode: int, alpha: int, beta: int, *values: Argument) -> None:
        xd, x, yd, y, bd, scale, bias, factor, mean, variance, epsilon, saved, inverse = values
        _require_spatial(mode)
        data = self._array(xd, x)
        parameters = [self._array(bd, item) for item in (scale, bias)]
        with jax.enable_x64(data.dtype.itemsize == 8):
            result, average, spread = _compiled(_batch_norm, (epsilon,))(data, *parameters)
        self._write(self._array(yd, y), result, alpha, beta)
        count = data.size // data.shape[1]
        unbiased = np.asarray(spread) * (count / max(count - 1, 1))
        for address, new in ((mean, average), (variance, unbiased)):
            if address:
                running = self._array(bd, address)
                running[...] = (1 - factor) * running + factor * np.asarray(new)
        if saved:
            self._array(bd, saved)[...] = average
        if inverse:
            self._array(bd, inverse)[...] = 1 / np.sqrt(np.asarray(spread) + epsilon)

    def normalized_by(
        self, handle: int, mode: int, alpha: int, beta: int, *values: Argument
    ) -> None:
        xd, x, yd, y, bd, scale, bias, mean, variance, epsilon = values
        _require_spatial(mode)
        parameters = [self._array(bd, item) for item in (scale, bias, mean, variance)]
        run = _compiled(_scaled, (epsilon,))
        self._done(run, (self._array(xd, x), *parameters), (yd, y, alpha, beta))

    def normalization_back(self, handle: int, mode: int, *values: Argument) -> None:
        alpha, beta, alpha_p, beta_p, xd, x, dyd, dy, dxd, dx, bd, scale, ds, db, epsilon, _, _ = (
            values
        )
        _require_spatial(mode)
        data, factors = self._array(xd, x), self._array(bd, scale)
        inputs = (data, factors, np.zeros_like(factors), self._array(dyd, dy))
        for place, target in enumerate(((dxd, dx), (bd, ds), (bd, db))):
            scales = (alpha, beta) if place == 0 else (alpha_p, beta_p)
            self._done(_transposed(_normalized, (epsilon,), place), inputs, (*target, *scales))

    def pooled(self, handle: int, pool: int, alpha: int, *values: Argument) -> None:
        xd, x, beta, yd, y = values
        run = _compiled(_pooled, self._descriptor(pool).numbers)
        self._done(run, (self._array(xd, x),), (yd, y, alpha, beta))

    def pooled_back(self, handle: int, pool: int, alpha: int, *values: Argument) -> None:
        _, _, dyd, dy, xd, x, beta, dxd, dx = values
        run = _transposed(_pooled, self._descriptor(pool).numbers, 0)
        self._done(run, (self._array(xd, x), self._array(dyd, dy)), (dxd, dx, alpha, beta))

    def activated(self, handle: int, act: int, alpha: int, *values: Argument) -> None:
        xd, x, beta, yd, y = values
        run = _compiled(_activated, self._descriptor(act).numbers)
        self._done(run, (self._array(xd, x),), (yd, y, alpha, beta))

    def activated_back(self, handle: int, act: int, alpha: int, *values: Argument) -> None:
        _, _, dyd, dy, xd, x, beta, dxd, dx = values
        run = _transposed(_activated, self._descriptor(act).numbers, 0)
        self._done(run, (self._array(xd, x), self._array(dyd, dy)), (dxd, dx, alpha, beta))

    def softmax(
        self, handle: int, algorithm: int, mode: int, alpha: int, *values: Argument
    ) -> None:
        xd, x, beta, yd, y = values
        run = _compiled(_softmax, (algorithm, mode))
        self._done(run, (self._array(xd, x),), (yd, y, alpha, beta))

    def softmax_back(
        self, handle: int, algorithm: int, mode: int, alpha: int, *values: Argument
    ) -> None:
        yd, y, dyd, dy, beta, dxd, dx = values
        run = _compiled(_softmax_back, (algorithm, mode))
        self._done(run, (self._array(yd, y), self._array(dyd, dy)), (dxd, dx, alpha, beta))

    def _done(
        self, run: Callable[..., JaxArray], inputs: Sequence[Array], target: tuple[Argument, ...]
    ) -> None:
        number, address, alpha, beta = target
        output = self._array(number, address)
        with jax.enable_x64(output.dtype.itemsize == 8):
            result = run(*inputs)
        if tuple(result.shape) != output.shape and result.size != output.size:
            raise CudaError(
                f"the output is of shape {output.shape}, and the result of {tuple(result.shape)}"
            )
        self._write(output, result, alpha, beta)


def _require_spatial(mode: int) -> None:
    if mode not in _SPATIAL:
        raise CudaError("only CUDNN_BATCHNORM_SPATIAL is supported")


@functools.cache
def _compiled(
    function: Callable[..., JaxArray], numbers: tuple[Argument, ...]
) -> Callable[..., JaxArray]:
    return jax.jit(functools.partial(function, *numbers))


@functools.cache
def _transposed(
    function: Callable[..., JaxArray], numbers: tuple[Argument, ...], place: int
) -> Callable[..., JaxArray]:
    """What a change of the output means for one input: the last argument is that of the output."""

    @jax.jit
    def back(*arguments: JaxArray) -> JaxArray:
        *inputs, change = arguments

        def of_input(value: JaxArray) -> JaxArray:
            return function(*numbers, *inputs[:place], value, *inputs[place + 1 :])

        _, pull = jax.vjp(of_input, inputs[place])
        return pull(change)[0]

    return back


@functools.partial(jax.jit, static_argnums=(2, 3))
def _product(left: JaxArray, right: JaxArray, first: bool, second: bool) -> JaxArray:
    left = left.swapaxes(1, 2) if first else left
    right = right.swapaxes(1, 2) if second else right
    return jnp.matmul(left, right)


def _convolution(window: tuple[int, ...], groups: int, x: JaxArray, w: JaxArray) -> JaxArray:
    pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w = window
    return jax.lax.conv_general_dilated(
        x,
        w,
        (stride_h, stride_w),
        ((pad_h, pad_h), (pad_w, pad_w)),
        rhs_dilation=(dilation_h, dilation_w),
        feature_group_count=groups,
    )


def _batch_norm(
    epsilon: float, x: JaxArray, scale: JaxArray, bias: JaxArray
) -> tuple[JaxArray, JaxArray, JaxArray]:
    mean = x.mean((0, 2, 3), keepdims=True)
    variance = x.var((0, 2, 3), keepdims=True)
    return _scaled(epsilon, x, scale, bias, mean, variance), mean, variance


def _normalized(epsilon: float, x: JaxArray, scale: JaxArray, bias: JaxArray) -> JaxArray:
    return _batch_norm(epsilon, x, scale, bias)[0]


def _scaled(
    epsilon: float,
    x: JaxArray,
    scale: JaxArray,
    bias: JaxArray,
    mean: JaxArray,
    variance: JaxArray,
) -> JaxArray:
    return (x - mean) * jax.lax.rsqrt(variance + epsilon) * scale + bias


def _pooled(*arguments: Argument) -> JaxArray:
    mode, _, high, wide, pad_h, pad_w, stride_h, stride_w, x = arguments
    window, strides = (1, 1, high, wide), (1, 1, stride_h, stride_w)
    padding = ((0, 0), (0, 0), (pad_h, pad_h), (pad_w, pad_w))
    if mode == 0:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, strides, padding)
    total = jax.lax.reduce_window(x, 0.0, jax.lax.add, window, strides, padding)
    if mode == 1:
        return total / (high * wide)
    ones = jnp.ones_like(x)
    return total / jax.lax.reduce_window(ones, 0.0, jax.lax.add, window, strides, padding)


def _activated(mode: int, nan: int, coefficient: float, x: JaxArray) -> JaxArray:
    match mode:
        case 0:
            return jax.nn.sigmoid(x)
        case 1:
            return jax.nn.relu(x)
        case 2:
            return jnp.tanh(x)
        case 3:
            return jnp.clip(x, 0, coefficient)
    raise CudaError(f"the activation {mode} is not supported")


def _softmax(algorithm: int, mode: int, x: JaxArray) -> JaxArray:
    axes = 1 if mode == 1 else (1, 2, 3)
    function = jax.nn.log_softmax if algorithm == 2 else jax.nn.softmax
    return function(x, axis=axes)


def _softmax_back(algorithm: int, mode: int, y: JaxArray, dy: JaxArray) -> JaxArray:
    axes = 1 if mode == 1 else (1, 2, 3)
    if algorithm == 2:
        return dy - jnp.exp(y) * dy.sum(axes, keepdims=True)
    return y * (dy - (y * dy).sum(axes, keepdims=True))


_ACTIONS: dict[str, Callable[..., None]] = {
    "cublasSgemm": LibraryCalls.sgemm,
    "cublasDgemm": LibraryCalls.dgemm,
    "cublasSgemmStridedBatched": LibraryCalls.sgemm_batched,
    "cublasDgemmStridedBatched": LibraryCalls.dgemm_batched,
    "cudnnSetTensor4dDescriptor": LibraryCalls.set_tensor,
    "cudnnSetFilter4dDescriptor": LibraryCalls.set_filter,
    "cudnnSetConvolution2dDescriptor": LibraryCalls.set_numbers,
    "cudnnSetConvolutionGroupCount": LibraryCalls.set_groups,
    "cudnnSetPooling2dDescriptor": LibraryCalls.set_numbers,
    "cudnnSetActivationDescriptor": LibraryCalls.set_numbers,
    "cudnnGetConvolution2dForwardOutputDim": LibraryCalls.output_size,
    "cudnnGetConvolutionForwardWorkspaceSize": LibraryCalls.workspace_size,
    "cudnnConvolutionForward": LibraryCalls.convolution,
    "cudnnConvolutionBackwardData": LibraryCalls.convolution_data,
    "cudnnConvolutionBackwardFilter": LibraryCalls.convolution_filter,
    "cudnnBatchNormalizationForwardTraining": LibraryCalls.normalized,
    "cudnnBatchNormalizationForwardInference": LibraryCalls.normalized_by,
    "cudnnBatchNormalizationBackward": LibraryCalls.normalization_back,
    "cudnnPoolingForward": LibraryCalls.pooled,
    "cudnnPoolingBackward": LibraryCalls.pooled_back,
    "cudnnActivationForward": LibraryCalls.activated,
    "cudnnActivationBackward": LibraryCalls.activated_back,
    "cudnnSoftmaxForward": LibraryCalls.softmax,
    "cudnnSoftmaxBackward": LibraryCalls.softmax_back,
}
