"""TF32: what a GPU's matrix units make of float32 products, and when.

Since Ampere they round the operands of such a product to 11 significant bits, where jax's matmul
precision does not forbid it; sums stay in float32. So at jax's default precision `x @ w` in float32
is as inexact on a GPU as one of float16. That is what the user runs, so originals and candidates
are judged as the device and jax's settings have them: with TF32's unit for each operand of a
product, and not refused for what the original loses as well. Whoever wants more asks jax for more
(`jax.default_matmul_precision("float32")`), and is then judged by float32's unit.
"""

from __future__ import annotations

import numpy as np

from ...tensor.floats import Array
from ...tensor.terms import Program, walk
from ...tensor.types import DType

TENSOR_FLOAT = 2.0**-11
"""The largest relative error of rounding to TF32, which has as many bits as float16."""

_LOOSE = (None, "default", "fastest", "high", "bfloat16", "tensorfloat32", "TF32_TF32_F32")
"""The matmul precisions of jax at which XLA lets a GPU round: the first two of its three levels."""

_PRODUCTS = ("matmul", "convolution")
"""Names of the operators that matrix units compute."""


def product_unit(platform: str, precision: str | None) -> float:
    """The unit by which operands of float32 products are rounded; 0.0 where they are not.

    >>> product_unit("cuda", None) == 2.0**-11
    True
    >>> product_unit("cuda", "highest"), product_unit("cpu", None)
    (0.0, 0.0)
    """
    return TENSOR_FLOAT if platform == "cuda" and precision in _LOOSE else 0.0


def has_products(program: Program) -> bool:
    """Whether `program` multiplies matrices of float32."""
    return any(
        term.operator.name in _PRODUCTS
        and all(argument.dtype is DType.F32 for argument in term.arguments)
        for term in walk(program.outputs)
    )


def in_tensor_float(x: Array) -> Array:
    """The nearest numbers of 11 significant bits, ties to even, in float32.

    >>> float(in_tensor_float(np.float32([1 + 2.0**-10 + 2.0**-12]))[0]) == 1 + 2.0**-10
    True
    """
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    # Half of the 13 dropped bits, plus the lowest bit that stays: round half to even.
    even = (bits >> np.uint32(13)) & np.uint32(1)
    upper = (bits + (np.uint32(0xFFF) + even)) & np.uint32(0xFFFFE000)
    # The payload of a NaN could carry into the exponent.
    return np.where(np.isfinite(x), upper.view(np.float32), x).reshape(np.shape(x))
