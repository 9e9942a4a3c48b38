"""`JaxFunction`: runs a JAX function on NumPy arrays, in its own element types and in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..tensor import DType, TensorType
from ..tensor.types import ARRAY_NAMES, FLOATING
from .errors import CaptureError, RunError, tracing_hint
from .jax_types import Function, Leaf, NumpyArray
from .names import title
from .values import element_type


def placeholders(types: Sequence[TensorType]) -> list[Leaf]:
    """`jax.ShapeDtypeStruct`s for arguments of these types."""
    struct: Callable[..., Leaf] = jax.ShapeDtypeStruct  # which jax leaves without annotations
    return [struct(array_type.shape, _numpy(array_type.dtype)) for array_type in types]


def precision(types: Sequence[TensorType]) -> AbstractContextManager[object]:
    """A context in which arguments of these types keep them: float64 has to be switched on."""
    return _wide() if any(array_type.dtype is DType.F64 for array_type in types) else nullcontext()


class JaxFunction:
    """A JAX function of arrays that is run, not read; raises `RunError` where that fails.

    Arguments and results are NumPy arrays. Results are the leaves of the output, and bfloat16 comes
    back as float32.
    """

    def __init__(
        self, function: Function, inputs: Sequence[TensorType], name: str | None = None
    ) -> None:
        self.name = name if name is not None else title(function, None)
        self.inputs = tuple(inputs)
        self._function = jax.jit(function)
        try:
            self.outputs = self._types()
        except CaptureError as error:
            raise RunError(self._failed(error.reason)) from None
        except Exception as error:
            # Whatever the function raises: it is somebody's own code.
            raise RunError(self._failed(error)) from error
        if not self.outputs:
            raise RunError(f"{self.name} gives no array")

    def own(self, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
        """The outputs on arrays of its own element types."""
        types = [_numpy(array_type.dtype) for array_type in self.inputs]
        with precision(self.inputs):
            return self._run(inputs, types)

    def double(self, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
        """The outputs where floats are float64; integers and truth values are as they are.

        Casts that the function makes to a type that it names stay what they are.
        """
        wide = [DType.F64 if output.dtype in FLOATING else output.dtype for output in self.inputs]
        with _wide(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about types that nobody asked for but this
            outputs = self._run(inputs, [_numpy(dtype) for dtype in wide], " in float64")
        # A function may look at its element types, and take another way in float64.
        if [output.shape for output in outputs] != [output.shape for output in self.outputs]:
            raise RunError(f"{self.name} gives other shapes in float64")
        return outputs

    def _types(self) -> tuple[TensorType, ...]:
        with precision(self.inputs):
            shapes = jax.eval_shape(self._function, *placeholders(self.inputs))
        return tuple(
            TensorType(element_type(leaf.dtype), tuple(leaf.shape))
            for leaf in jax.tree_util.tree_leaves(shapes)
        )

    def _run(
        self, inputs: Sequence[NumpyArray], types: Sequence[np.dtype[Any]], how: str = ""
    ) -> list[NumpyArray]:
        arrays = [np.asarray(x).astype(dtype) for x, dtype in zip(inputs, types, strict=True)]
        try:
            result = jax.device_get(self._function(*arrays))
        except Exception as error:
            raise RunError(self._failed(error, how)) from error
        return [_plain(leaf) for leaf in jax.tree_util.tree_leaves(result)]

    def _failed(self, error: object, how: str = "") -> str:
        kind, hint = "", ""
        if isinstance(error, Exception):
            kind, hint = f"{type(error).__name__}: ", tracing_hint(error)
        reason = str(error).strip().partition("\n")[0].rstrip(".:") or "no reason is given"
        shown = ", ".join(map(str, self.inputs))
        return f"{self.name}({shown}) cannot be run{how}: {kind}{reason}{hint}"


def _numpy(dtype: DType) -> np.dtype[Any]:
    return jnp.dtype(ARRAY_NAMES[dtype])


def _wide() -> AbstractContextManager[object]:
    enabled: AbstractContextManager[object] = jax.enable_x64(True)
    return enabled


def _plain(leaf: Leaf) -> NumpyArray:
    """An array of a type that NumPy has."""
    array = np.asarray(leaf)
    return array.astype(np.float32) if array.dtype == jnp.bfloat16 else array
