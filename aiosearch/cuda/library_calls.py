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
from .library_kernels import (
    Convolution,
    LibraryServers,
    Program,
    Routine,
    activate,
    activate_back,
    batch_norm,
    batch_norm_back,
    batch_norm_by,
    can_serve,
    gemm,
    pool,
    pool_back,
    softmax,
    softmax_back,
)

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
    9: np.dtype(jnp.bfloat16),
}
_CUDA_DTYPES: dict[int, ElementType] = {**_DTYPES, 14: np.dtype(jnp.bfloat16)}
"""`CUDA_R_32F` and its like have the numbers of cuDNN's types, but for the last."""
_IN_HALF, _IN_DOUBLE = (64, 65), (1, 70, 71)
"""Of `cublasGemmEx`, the types of computation whose scales are not float32."""
_NCHW, _NHWC, _SPATIAL, _TRANSPOSED = 0, 1, (1, 2), (1, 2)
_ALGORITHM = 1
"""`IMPLICIT_PRECOMP_GEMM` forwards, and `ALGO_1` of both derivatives."""
NumberedRoutine: TypeAlias = Callable[[Sequence[float], Sequence[Array], Sequence[Array]], None]
"""A routine of ours that takes the numbers of a descriptor."""


@dataclass(slots=True)
class LibraryDescriptor:
    """What a descriptor says: of a tensor type and sizes, of an operation its numbers."""

    dtype: ElementType = field(default_factory=lambda: _DTYPES[0])
    shape: tuple[int, ...] = ()
    numbers: tuple[float, ...] = ()
    groups: int = 1
    channels_last: bool = False


@dataclass(frozen=True, slots=True)
class _Target:
    """An array that a call writes to: `alpha * result + beta * old`."""

    array: Array
    alpha: float = 1
    beta: float = 0

    @property
    def is_overwritten(self) -> bool:
        return self.alpha == 1 and self.beta == 0

    def blend(self, result: Array) -> None:
        """Writes a result."""
        number = self.array.dtype.type
        # With beta = 0 what was there is not read: it may be anything, a NaN even.
        old = 0 if self.beta == 0 else number(self.beta) * self.array
        self.array[...] = number(self.alpha) * result.reshape(self.array.shape) + old


@dataclass(slots=True)
class LibraryCalls:
    """The libraries as one call of a host function sees them."""

    memory: Bytes
    servers: LibraryServers
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
        # How fast a call is wanted, and where its scratch memory lies, changes no result here.
        elif not name.endswith(("SetStream", "SetMathMode", "SetWorkspace", "MathType")):
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
        if format not in (_NCHW, _NHWC) or dtype not in _DTYPES:
            raise CudaError("tensors have to be NCHW or NHWC, of float, double, half or bfloat16")
        described = self._descriptor(number)
        described.dtype, described.shape = _DTYPES[dtype], shape
        described.channels_last = format == _NHWC

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
        if not described.channels_last:
            return self._elements(address, described.dtype, described.shape)
        # Sizes are set in the order N, C, H, W either way; here memory has the channels last.
        count, channels, *image = described.shape
        array = self._elements(address, described.dtype, (count, *image, channels))
        return np.moveaxis(array, -1, 1)

    def _elements(self, address: int, dtype: ElementType, shape: tuple[int, ...]) -> Array:
        size = int(np.prod(shape)) * dtype.itemsize
        return self.memory(address, size).view(dtype).reshape(shape)

    def _serve(
        self,
        call: str,
        numbers: tuple[float, ...],
        inputs: Sequence[Array],
        targets: Sequence[_Target],
        xla: Program,
        ours: Routine | None,
    ) -> None:
        """Does a call by whoever is faster, and writes the results over the targets."""
        outputs = [
            item.array if item.is_overwritten else np.empty_like(item.array) for item in targets
        ]
        dtype = outputs[0].dtype
        # Matrices may lie in any way; our other kernels read and write tensors row by row.
        in_order = call.startswith("cublas") or all(
            item.flags.c_contiguous for item in (*inputs, *outputs)
        )
        served = ours if in_order and can_serve(*inputs, *outputs) else None
        numbers = numbers if in_order else (*numbers, _NHWC)
        with jax.enable_x64(dtype.itemsize == 8):
            self.servers.serve(call, numbers, inputs, outputs, xla, served)
        for target, output in zip(targets, outputs, strict=True):
            if not target.is_overwritten:
                target.blend(output)

    def _target(self, number: int, address: int, alpha: int, beta: int) -> _Target:
        array = self._array(number, address)
        return self._blended(array, alpha, beta)

    def _blended(self, array: Array, alpha: int, beta: int) -> _Target:
        first, second = self._number(alpha, array.dtype), self._number(beta, array.dtype)
        # Scales are read now: host code may change them as soon as the call is back.
        return _Target(array, first, second)

    # --- cuBLAS

    def sgemm(self, *values: Argument) -> None:
        self._gemm("cublasSgemm", np.dtype(np.float32), *values)

    def dgemm(self, *values: Argument) -> None:
        self._gemm("cublasDgemm", np.dtype(np.float64), *values)

    def sgemm_strided(self, *values: Argument) -> None:
        self._gemm_strided("cublasSgemm", np.dtype(np.float32), *values)

    def dgemm_strided(self, *values: Argument) -> None:
        self._gemm_strided("cublasDgemm", np.dtype(np.float64), *values)

    def sgemm_batched(self, *values: Argument) -> None:
        self._gemm_batched("cublasSgemm", np.dtype(np.float32), *values)

    def dgemm_batched(self, *values: Argument) -> None:
        self._gemm_batched("cublasDgemm", np.dtype(np.float64), *values)

    def _gemm(self, call: str, dtype: ElementType, handle: int, *values: Argument) -> None:
        ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = values
        strided = (ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1)
        self._gemm_strided(call, dtype, handle, *strided)

    def _gemm_batched(self, call: str, dtype: ElementType, handle: int, *values: Argument) -> None:
        """Products whose matrices lie anywhere: their addresses are in arrays."""
        ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, count = values
        listed = (self.memory(item, 8 * count).view(np.int64) for item in (a, b, c))
        for left, right, target in zip(*listed, strict=True):
            places = (int(left), lda, int(right), ldb, beta, int(target), ldc)
            self._gemm(call, dtype, handle, ta, tb, m, n, k, alpha, *places)

    def _gemm_strided(self, call: str, dtype: ElementType, handle: int, *values: Argument) -> None:
        ta, tb, m, n, k, alpha, a, lda, step_a, b, ldb, step_b, beta, c, ldc, step_c, count = values
        self._descriptor(handle)
        left = self._matrices(dtype, a, (m, k) if ta == 0 else (k, m), lda, step_a, count)
        right = self._matrices(dtype, b, (k, n) if tb == 0 else (n, k), ldb, step_b, count)
        inputs = [
            side.swapaxes(1, 2) if way in _TRANSPOSED else side
            for side, way in ((left, ta), (right, tb))
        ]
        target = self._matrices(dtype, c, (m, n), ldc, step_c, count)
        targets = [self._blended(target, alpha, beta)]
        numbers = (ta in _TRANSPOSED, tb in _TRANSPOSED)
        self._serve(call, numbers, inputs, targets, _product, gemm)

    def gemm_ex(self, handle: int, *values: Argument) -> None:
        ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, compute, _ = values
        left, right, target = (a, at, lda, 0), (b, bt, ldb, 0), (c, ct, ldc, 0)
        strided = (*left, *right, beta, *target, 1, compute, 0)
        self.gemm_strided_ex(handle, ta, tb, m, n, k, alpha, *strided)

    def gemm_strided_ex(self, handle: int, *values: Argument) -> None:
        """Products of matrices of any types, summed in float32 or, where asked for, float64."""
        ta, tb, m, n, k, alpha, *rest = values
        (a, at, lda, sa, b, bt, ldb, sb, beta, c, ct, ldc, sc, count, compute, _) = rest
        self._descriptor(handle)
        if not {at, bt, ct} <= _CUDA_DTYPES.keys():
            raise CudaError("cublasGemmEx multiplies float, double, half and bfloat16 only")
        types = [_CUDA_DTYPES[item] for item in (at, bt, ct)]
        wide = np.dtype(np.float64 if compute in _IN_DOUBLE else np.float32)
        scale = np.dtype(np.float16) if compute in _IN_HALF else wide
        first, second = (
            float(self.memory(item, scale.itemsize).view(scale)[0]) for item in (alpha, beta)
        )
        left = self._matrices(types[0], a, (m, k) if ta == 0 else (k, m), lda, sa, count)
        right = self._matrices(types[1], b, (k, n) if tb == 0 else (n, k), ldb, sb, count)
        target = self._matrices(types[2], c, (m, n), ldc, sc, count)
        inputs = [
            (side.swapaxes(1, 2) if way in _TRANSPOSED else side).astype(wide)
            for side, way in ((left, ta), (right, tb))
        ]
        product = np.empty(target.shape, wide)
        self._serve("cublasGemmEx", (), inputs, [_Target(product)], _product, None)
        # Scaled and added before it is rounded to the type of the output, as the library does.
        old = 0 if second == 0 else second * target.astype(wide)
        target[...] = (first * product + old).astype(types[2])

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

    def algorithm(self, *values: int) -> None:
        """The one algorithm that there is, by the name of one that every GPU has."""
        self.memory(values[-1], 4).view(np.int32)[0] = _ALGORITHM

    def algorithms(self, *values: int) -> None:
        """The same as a list of one, as it would be measured: without any workspace."""
        requested, returned, results = values[-3:]
        self.memory(returned, 4).view(np.int32)[0] = min(requested, 1)
        if requested > 0:
            # Algorithm, status, time, padding, bytes of workspace, and what is not said.
            self.memory(results, 48)[:] = 0
            self.memory(results, 4).view(np.int32)[0] = _ALGORITHM

    def _window(self, number: int) -> tuple[tuple[int, ...], int]:
        described = self._descriptor(number)
        if described.numbers[6] != 1:
            raise CudaError("only CUDNN_CROSS_CORRELATION is supported, which flips no filter")
        return tuple(map(int, described.numbers[:6])), described.groups

    def convolution(self, handle: int, alpha: int, *values: Argument) -> None:
        xd, x, wd, w, conv, _, _, _, beta, yd, y = values
        inputs = (self._array(xd, x), self._array(wd, w))
        self._convolve(
            "cudnnConvolutionForward", conv, inputs, (yd, y, alpha, beta), Convolution.forward
        )

    def convolution_data(self, handle: int, alpha: int, *values: Argument) -> None:
        wd, w, dyd, dy, conv, _, _, _, beta, dxd, dx = values
        inputs, target = (self._array(wd, w), self._array(dyd, dy)), (dxd, dx, alpha, beta)
        call = "cudnnConvolutionBackwardData"
        self._convolve(call, conv, inputs, target, Convolution.data, 0)

    def convolution_filter(self, handle: int, alpha: int, *values: Argument) -> None:
        xd, x, dyd, dy, conv, _, _, _, beta, dwd, dw = values
        inputs, target = (self._array(xd, x), self._array(dyd, dy)), (dwd, dw, alpha, beta)
        call = "cudnnConvolutionBackwardFilter"
        self._convolve(call, conv, inputs, target, Convolution.filter, 1)

    def _convolve(
        self,
        call: str,
        conv: int,
        inputs: tuple[Array, Array],
        target: tuple[int, int, int, int],
        method: Callable[[Convolution, Sequence[Array], Sequence[Array]], None],
        place: int | None = None,
    ) -> None:
        """A convolution, or its derivative by what is in a `place` of it."""
        window, groups = self._window(conv)
        output = self._target(*target)
        shape = output.array.shape
        program = _convolution_program(window, groups, place, shape)
        ours = functools.partial(method, Convolution(window)) if groups == 1 else None
        self._serve(call, (*window, groups, *shape), inputs, [output], program, ours)

    def add_tensor(self, handle: int, alpha: int, *values: Argument) -> None:
        """Adds a tensor to another, repeated along axes in which it has one element."""
        bd, bias, beta, yd, y = values
        target = self._target(yd, y, alpha, beta)
        target.blend(np.broadcast_to(self._array(bd, bias), target.array.shape))

    def bias_back(self, handle: int, alpha: int, *values: Argument) -> None:
        dyd, dy, beta, bd, bias = values
        # One pass over memory either way, so there is nobody to choose.
        sums = self._array(dyd, dy).sum((0, 2, 3), keepdims=True)
        self._target(bd, bias, alpha, beta).blend(sums)

    def normalized(self, handle: int, mode: int, alpha: int, beta: int, *values: Argument) -> None:
        xd, x, yd, y, bd, scale, bias, factor, mean, variance, epsilon, saved, inverse = values
        _require_spatial(mode)
        data = self._array(xd, x)
        parameters = [self._array(bd, item) for item in (scale, bias)]
        # What nobody asks for is computed all the same, and forgotten.
        average, spread, deviation = (
            self._array(bd, address) if address else np.empty_like(parameters[0])
            for address in (saved, 0, inverse)
        )
        targets = [self._target(yd, y, alpha, beta), *map(_Target, (average, spread, deviation))]
        self._serve(
            "cudnnBatchNormalizationForwardTraining",
            (epsilon,),
            (data, *parameters),
            targets,
            _compiled(_batch_norm, (epsilon,)),
            functools.partial(batch_norm, epsilon),
        )
        count = data.size // data.shape[1]
        unbiased = spread * (count / max(count - 1, 1))
        for address, new in ((mean, average), (variance, unbiased)):
            if address:
                running = self._array(bd, address)
                running[...] = (1 - factor) * running + factor * new

    def normalized_by(
        self, handle: int, mode: int, alpha: int, beta: int, *values: Argument
    ) -> None:
        xd, x, yd, y, bd, scale, bias, mean, variance, epsilon = values
        _require_spatial(mode)
        parameters = [self._array(bd, item) for item in (scale, bias, mean, variance)]
        self._serve(
            "cudnnBatchNormalizationForwardInference",
            (epsilon,),
            (self._array(xd, x), *parameters),
            [self._target(yd, y, alpha, beta)],
            _compiled(_scaled, (epsilon,)),
            functools.partial(batch_norm_by, epsilon),
        )

    def normalization_back(self, handle: int, mode: int, *values: Argument) -> None:
        alpha, beta, alpha_p, beta_p, xd, x, dyd, dy, dxd, dx, bd, scale, ds, db, epsilon, _, _ = (
            values
        )
        _require_spatial(mode)
        inputs = (self._array(xd, x), self._array(bd, scale), self._array(dyd, dy))
        targets = [
            self._target(dxd, dx, alpha, beta),
            self._target(bd, ds, alpha_p, beta_p),
            self._target(bd, db, alpha_p, beta_p),
        ]
        self._serve(
            "cudnnBatchNormalizationBackward",
            (epsilon,),
            inputs,
            targets,
            _compiled(_batch_norm_back, (epsilon,)),
            functools.partial(batch_norm_back, epsilon),
        )

    def pooled(self, handle: int, pooling: int, alpha: int, *values: Argument) -> None:
        xd, x, beta, yd, y = values
        target = (yd, y, alpha, beta)
        inputs = (self._array(xd, x),)
        self._by_descriptor("cudnnPoolingForward", pooling, inputs, target, (_pooled, pool))

    def pooled_back(self, handle: int, pooling: int, alpha: int, *values: Argument) -> None:
        _, _, dyd, dy, xd, x, beta, dxd, dx = values
        inputs, target = (self._array(xd, x), self._array(dyd, dy)), (dxd, dx, alpha, beta)
        functions = (_pooled, pool_back)
        self._by_descriptor("cudnnPoolingBackward", pooling, inputs, target, functions)

    def activated(self, handle: int, act: int, alpha: int, *values: Argument) -> None:
        xd, x, beta, yd, y = values
        target = (yd, y, alpha, beta)
        inputs = (self._array(xd, x),)
        self._by_descriptor("cudnnActivationForward", act, inputs, target, (_activated, activate))

    def activated_back(self, handle: int, act: int, alpha: int, *values: Argument) -> None:
        _, _, dyd, dy, xd, x, beta, dxd, dx = values
        inputs, target = (self._array(xd, x), self._array(dyd, dy)), (dxd, dx, alpha, beta)
        functions = (_activated, activate_back)
        self._by_descriptor("cudnnActivationBackward", act, inputs, target, functions)

    def _by_descriptor(
        self,
        call: str,
        number: int,
        inputs: Sequence[Array],
        target: tuple[int, int, int, int],
        functions: tuple[Callable[..., JaxArray], NumberedRoutine],
    ) -> None:
        """A call whose formula takes the descriptor's numbers; with two inputs, its derivative."""
        numbers = self._descriptor(number).numbers
        formula, routine = functions
        build = _compiled if len(inputs) == 1 else _transposed
        ours = functools.partial(routine, numbers)
        output = [self._target(*target)]
        self._serve(call, numbers, inputs, output, build(formula, numbers), ours)

    def softmax(
        self, handle: int, algorithm: int, mode: int, alpha: int, *values: Argument
    ) -> None:
        xd, x, beta, yd, y = values
        numbers = (algorithm, mode)
        self._serve(
            "cudnnSoftmaxForward",
            numbers,
            (self._array(xd, x),),
            [self._target(yd, y, alpha, beta)],
            _compiled(_softmax, numbers),
            functools.partial(softmax, numbers),
        )

    def softmax_back(
        self, handle: int, algorithm: int, mode: int, alpha: int, *values: Argument
    ) -> None:
        yd, y, dyd, dy, beta, dxd, dx = values
        numbers = (algorithm, mode)
        self._serve(
            "cudnnSoftmaxBackward",
            numbers,
            (self._array(yd, y), self._array(dyd, dy)),
            [self._target(dxd, dx, alpha, beta)],
            _compiled(_softmax_back, numbers),
            functools.partial(softmax_back, numbers),
        )


def _require_spatial(mode: int) -> None:
    if mode not in _SPATIAL:
        raise CudaError("only CUDNN_BATCHNORM_SPATIAL is supported")


@functools.cache
def _compiled(
    function: Callable[..., JaxArray], numbers: tuple[Argument, ...]
) -> Callable[..., JaxArray]:
    return jax.jit(functools.partial(function, *numbers))


@functools.cache
def _transposed(formula: Callable[..., JaxArray], numbers: tuple[Argument, ...]) -> Program:
    """What a change of the output, the second argument, means for the input."""

    @jax.jit
    def back(x: JaxArray, change: JaxArray) -> JaxArray:
        _, pull = jax.vjp(functools.partial(formula, *numbers), x)
        return pull(change)[0]

    return back


@functools.cache
def _convolution_program(
    window: tuple[int, ...], groups: int, place: int | None, shape: tuple[int, ...]
) -> Program:
    """A convolution, or its derivative by image or filter, whose `shape` no argument has."""
    if place is None:
        return _compiled(_convolution, (window, groups))

    def of_input(value: JaxArray, fixed: JaxArray) -> JaxArray:
        pair = (value, fixed) if place == 0 else (fixed, value)
        return _convolution(window, groups, *pair)

    @jax.jit
    def back(fixed: JaxArray, change: JaxArray) -> JaxArray:
        like = jnp.zeros(shape, change.dtype)
        _, pull = jax.vjp(lambda value: of_input(value, fixed), like)
        return pull(change)[0]

    return back


@jax.jit
def _product(left: JaxArray, right: JaxArray) -> JaxArray:
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
) -> tuple[JaxArray, JaxArray, JaxArray, JaxArray]:
    mean = x.mean((0, 2, 3), keepdims=True)
    variance = x.var((0, 2, 3), keepdims=True)
    inverse = jax.lax.rsqrt(variance + epsilon)
    return _scaled(epsilon, x, scale, bias, mean, variance), mean, variance, inverse


def _batch_norm_back(
    epsilon: float, x: JaxArray, scale: JaxArray, change: JaxArray
) -> tuple[JaxArray, ...]:
    def of_inputs(x: JaxArray, scale: JaxArray, bias: JaxArray) -> JaxArray:
        return _batch_norm(epsilon, x, scale, bias)[0]

    _, pull = jax.vjp(of_inputs, x, scale, jnp.zeros_like(scale))
    return tuple(pull(change))


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
    "cublasGemmEx": LibraryCalls.gemm_ex,
    "cublasGemmStridedBatchedEx": LibraryCalls.gemm_strided_ex,
    "cublasSgemmBatched": LibraryCalls.sgemm_batched,
    "cublasDgemmBatched": LibraryCalls.dgemm_batched,
    "cublasSgemmStridedBatched": LibraryCalls.sgemm_strided,
    "cublasDgemmStridedBatched": LibraryCalls.dgemm_strided,
    "cudnnSetTensor4dDescriptor": LibraryCalls.set_tensor,
    "cudnnSetFilter4dDescriptor": LibraryCalls.set_filter,
    "cudnnSetConvolution2dDescriptor": LibraryCalls.set_numbers,
    "cudnnSetConvolutionGroupCount": LibraryCalls.set_groups,
    "cudnnSetPooling2dDescriptor": LibraryCalls.set_numbers,
    "cudnnSetActivationDescriptor": LibraryCalls.set_numbers,
    "cudnnGetConvolution2dForwardOutputDim": LibraryCalls.output_size,
    "cudnnGetConvolutionForwardWorkspaceSize": LibraryCalls.workspace_size,
    "cudnnGetConvolutionBackwardDataWorkspaceSize": LibraryCalls.workspace_size,
    "cudnnGetConvolutionBackwardFilterWorkspaceSize": LibraryCalls.workspace_size,
    **{
        f"cudnn{verb}Convolution{way}Algorithm{version}": LibraryCalls.algorithms
        for verb, version in (("Get", "_v7"), ("Find", ""))
        for way in ("Forward", "BackwardData", "BackwardFilter")
    },
    "cudnnGetConvolutionForwardAlgorithm": LibraryCalls.algorithm,
    "cudnnGetConvolutionBackwardDataAlgorithm": LibraryCalls.algorithm,
    "cudnnGetConvolutionBackwardFilterAlgorithm": LibraryCalls.algorithm,
    "cudnnAddTensor": LibraryCalls.add_tensor,
    "cudnnConvolutionBackwardBias": LibraryCalls.bias_back,
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
