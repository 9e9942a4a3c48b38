"""The words of the tensor language in torch, so that any program runs there.

`evaluate(program, TorchWords(device), inputs)`. torch is no dependency of aiosearch: this module is
imported only where it is installed. PyTorch's authors offer builds for CPUs, which come without
CUDA's packages.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import torch

from aiosearch.tensor.algebra import Function

Value: TypeAlias = Any
"""A tensor, or a Python float where the language has a value of rank 0 that fits any type."""

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "bool": torch.bool,
}
_COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}


class TorchWords:
    """Each tensor has its own element type, as in the function that was captured."""

    def __init__(self, device: str) -> None:
        self.device = device

    def constant(self, value: Fraction | float) -> Value:
        return float(value)

    def iota(self, shape: Sequence[Any], axis: int) -> Value:
        column = [-1 if own == axis else 1 for own in range(len(shape))]
        index = torch.arange(shape[axis], dtype=torch.int32, device=self.device)
        return index.reshape(column).expand(tuple(shape))

    def add(self, x: Value, y: Value) -> Value:
        return x + y

    def subtract(self, x: Value, y: Value) -> Value:
        return x - y

    def multiply(self, x: Value, y: Value) -> Value:
        return x * y

    def divide(self, x: Value, y: Value) -> Value:
        both = isinstance(x, float) and isinstance(y, float)
        return float(np.divide(x, y)) if both else x / y

    def negative(self, x: Value) -> Value:
        return -x

    def exp(self, x: Value) -> Value:
        return _unary("exp", x)

    def log(self, x: Value) -> Value:
        return _unary("log", x)

    def sqrt(self, x: Value) -> Value:
        return _unary("sqrt", x)

    def absolute(self, x: Value) -> Value:
        return abs(x)

    def maximum(self, x: Value, y: Value) -> Value:
        return torch.maximum(*self._alike(x, y))

    def minimum(self, x: Value, y: Value) -> Value:
        return torch.minimum(*self._alike(x, y))

    def compare(self, how: str, x: Value, y: Value) -> Value:
        return _COMPARE[how](x, y)

    def select(self, where: Value, x: Value, y: Value) -> Value:
        return torch.where(self._tensor(where) != 0, x, y)

    def function(self, function: Function, *arguments: Value) -> Value:
        if all(isinstance(one, float) for one in arguments):
            return float(function.floats(*map(np.float64, arguments)))
        return getattr(torch, function.name)(*arguments)

    def sum(self, x: Value, axes: Sequence[int]) -> Value:
        if not axes:
            return x
        return torch.sum(x, dim=tuple(axes), keepdim=True, dtype=x.dtype)

    def largest(self, x: Value, axes: Sequence[int]) -> Value:
        return torch.amax(x, dim=tuple(axes), keepdim=True) if axes else x

    def matmul(self, x: Value, y: Value) -> Value:
        return torch.matmul(*self._alike(x, y))

    def size(self, x: Value, axis: int) -> Value:
        return float(x.shape[axis])

    def broadcast(self, x: Value, shape: Sequence[Any]) -> Value:
        return self._tensor(x).expand(tuple(shape))

    def reshape(self, x: Value, shape: Sequence[Any]) -> Value:
        return self._tensor(x).reshape(tuple(shape))

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return self._tensor(x).permute(tuple(axes))

    def slice(self, x: Value, axis: int, start: Any, stop: Any, step: int) -> Value:
        return x[(slice(None),) * axis + (slice(start, stop, step),)]

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        return torch.cat(tuple(xs), dim=axis)

    def pad(self, x: Value, axis: int, low: Any, high: Any, value: Fraction) -> Value:
        widths = [0, 0] * (x.ndim - 1 - axis) + [low, high]  # from the last axis on
        return torch.nn.functional.pad(x, widths, value=float(value))

    def diagonal(self, x: Value) -> Value:
        return torch.diagonal(x, dim1=-2, dim2=-1)

    def windows(self, x: Value, axis: int, window: Any, stride: int, dilation: int) -> Value:
        reach = (window - 1) * dilation + 1
        seen = x.unfold(axis, reach, stride).movedim(-1, axis + 1)
        return seen[(slice(None),) * (axis + 1) + (slice(None, None, dilation),)]

    def cast(self, x: Value, dtype: str) -> Value:
        return self._tensor(x).to(DTYPES[dtype])

    def shape(self, x: Value) -> tuple[int, ...]:
        return () if isinstance(x, float) else tuple(x.shape)

    def _tensor(self, x: Value) -> Value:
        return torch.tensor(x, device=self.device) if isinstance(x, float) else x

    def _alike(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Both as tensors of one type."""
        dtype = torch.result_type(self._tensor(x), self._tensor(y))
        one, two = (self._tensor(each).to(dtype) for each in (x, y))
        return one, two


def _unary(name: str, x: Value) -> Value:
    """A function by its name, which NumPy and torch share."""
    return float(getattr(np, name)(x)) if isinstance(x, float) else getattr(torch, name)(x)
