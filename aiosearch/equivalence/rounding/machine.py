"""Execution of a program in its working types, rounding what is stored to memory.

A kernel computes in registers wider than its memory: a float16 tensor is read into float32,
computed with, and rounded to float16 only when it is stored. `execute` does so for every term whose
`Place` is `DEVICE`; a `RoundingMachine` says in which arithmetic, so that one loop serves values
(`OWN`), float64 (`DOUBLE`) and noise (`noise.TYPED`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeAlias

import numpy as np

from ...tensor.algebra import Algebra, V
from ...tensor.evaluation import step
from ...tensor.floats import Array, Floats, Number
from ...tensor.terms import Program, Term, walk
from ...tensor.types import DType, Place

Working: TypeAlias = type[np.floating[Any]]
"""A NumPy float type that arithmetic is done in: float32 or float64."""

UNIT = {
    DType.F64: 2.0**-53,
    DType.F32: 2.0**-24,
    DType.F16: 2.0**-11,
    DType.BF16: 2.0**-8,
}
"""The largest relative error of one rounding to a type: half a unit in the last place."""

LEAST = {
    DType.F64: 2.0**-1074,
    DType.F32: 2.0**-149,
    DType.F16: 2.0**-24,
    DType.BF16: 2.0**-133,
}
"""The smallest positive number of a type, which is subnormal."""

MOST = {
    DType.F64: float(np.finfo(np.float64).max),
    DType.F32: float(np.finfo(np.float32).max),
    DType.F16: float(np.finfo(np.float16).max),
    DType.BF16: 2.0**127 * (2 - 2.0**-7),
}
"""The largest finite number of a type."""

PAIRWISE = 16
"""Sums of more elements than this are added in pairs, whatever axis they run along."""


def working(dtype: DType) -> Working:
    """The `Working` type of arithmetic on an element type.

    Integers of 32 bits are exact in float64.
    """
    return np.float64 if dtype in (DType.F64, DType.I32, DType.WEAK) else np.float32


def rounded(x: Array, dtype: str) -> Array:
    """The values of `dtype` nearest to `x`, ties to even, held in its `working` type."""
    if dtype == DType.BOOL:
        return x if x.dtype == np.bool_ else x != 0
    if dtype == DType.I32:
        return np.trunc(x).astype(np.float64)
    if dtype == DType.F16:
        return x.astype(np.float16).astype(np.float32)
    if dtype == DType.BF16:
        return _to_bfloat16(x.astype(np.float32))
    return x.astype(working(DType(dtype)))


_BLOCK = 1 << 16
"""Elements that are rounded at once: what is made of them on the way stays in the caches."""


def _to_bfloat16(x: Array) -> Array:
    """Rounds float32 to its upper 16 bits, ties to even."""
    source = np.ascontiguousarray(x).reshape(-1)
    result = np.empty_like(source)
    for start in range(0, source.size, _BLOCK):
        block = source[start : start + _BLOCK]
        bits = block.view(np.uint32)
        # Adding 0x7FFF plus the lowest bit that stays carries exactly where the dropped half is
        # above 0x8000, or equal to it and the bit is odd: round half to even.
        even = (bits >> np.uint32(16)) & np.uint32(1)
        upper = (bits + (np.uint32(0x7FFF) + even)) & np.uint32(0xFFFF0000)
        # The payload of a nan could be carried over into infinity.
        result[start : start + _BLOCK] = np.where(np.isnan(block), block, upper.view(np.float32))
    return result.reshape(x.shape)


@dataclass(frozen=True)
class RoundingMachine(Generic[V]):
    """What `execute` leaves open: arithmetic, literals and memory."""

    algebra: Callable[[Working], Algebra[V]]
    """The `Algebra` of each working type."""
    meet: Callable[[V, Working], V]
    """Converts a literal to the working type of the operands that it meets."""
    store: Callable[[V, DType], V]
    """What a load returns after a value was stored as an element type."""


class OutOfTimeError(Exception):
    """A comparison has no time left; what it did until then stands."""


def execute(
    program: Program, machine: RoundingMachine[V], inputs: Sequence[V], until: float | None = None
) -> list[V]:
    """The outputs of a program on a machine; a value is released after its last use.

    Raises `OutOfTimeError` between two terms once the monotonic clock has passed `until`.
    """
    values: dict[Term, V] = dict(zip(program.inputs, inputs, strict=True))
    order = [term for term in program.terms() if term not in values]
    # Later terms overwrite earlier ones, so that the last use of each argument remains.
    last = {argument: term for term in order for argument in term.arguments}
    endpoints = {*program.outputs, *program.inputs}
    # Overflow and invalid operations are results here, which the caller compares.
    with np.errstate(all="ignore"):
        for term in order:
            require_time(until)
            values[term] = _step(term, machine, values)
            for argument in set(term.arguments):
                if last[argument] is term and argument not in endpoints:
                    del values[argument]
    return [values[output] for output in program.outputs]


def require_time(until: float | None) -> None:
    """Raises `OutOfTimeError` once the monotonic clock has passed `until`."""
    if until is not None and time.monotonic() > until:
        raise OutOfTimeError


def _step(term: Term, machine: RoundingMachine[V], values: dict[Term, V]) -> V:
    """Computes one term, and rounds it if it is stored to device memory."""
    type_ = _meeting(term)
    operands = [
        machine.meet(values[argument], type_) if argument.dtype is DType.WEAK else values[argument]
        for argument in term.arguments
    ]
    value = step(term, machine.algebra(type_), operands, as_written=True)
    if term.place is not Place.DEVICE or _is_stored(term, value, operands):
        return value
    return machine.store(value, term.dtype)


def _is_stored(term: Term, value: V, operands: list[V]) -> bool:
    """Whether `value` is an operand that is in memory as the same type already."""
    return any(
        operand is value and argument.place is Place.DEVICE and argument.dtype is term.dtype
        for argument, operand in zip(term.arguments, operands, strict=True)
    )


def _meeting(term: Term) -> Working:
    """The working type in which the operands of a term meet: the wider one."""
    types = [
        working(argument.dtype)
        for argument in term.arguments
        if argument.dtype not in (DType.WEAK, DType.BOOL)
    ]
    # Only literals or truth values: nothing but the result says how wide to compute.
    if not types:
        return working(term.dtype)
    return np.float64 if np.float64 in types else np.float32


class Emulated(Floats):
    """Arithmetic in a working type; casts round, and sums do not depend on memory layout."""

    def sum(self, x: Array, axes: Sequence[int]) -> Array:
        """The sum of a contiguous copy, so that NumPy adds pairwise along every axis."""
        count = 1
        for axis in axes:
            count *= x.shape[axis]
        if count <= PAIRWISE:
            return super().sum(x, axes)
        remaining = [axis for axis in range(x.ndim) if axis not in axes]
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        rows = np.transpose(x, [*remaining, *axes]).reshape(
            *(x.shape[axis] for axis in remaining), count
        )
        # np.sum adds pairwise only along a contiguous last axis; along others it accumulates, with
        # an error that grows with n in place of log n.
        return np.asarray(np.sum(np.ascontiguousarray(rows), axis=-1)).reshape(shape)

    def cast(self, x: Array, dtype: str) -> Array:
        """Rounds by `rounded`."""
        return rounded(x, dtype)

    def pad(self, x: Array, axis: int, low: Number, high: Number, value: Fraction) -> Array:
        """Pads in the type of `x`: a float64 padding value must not widen it."""
        return super().pad(x, axis, low, high, value).astype(x.dtype)


_EMULATED: dict[Working, Floats] = {
    np.float32: Emulated(np.float32),
    np.float64: Emulated(np.float64),
}

OWN: RoundingMachine[Array] = RoundingMachine(
    algebra=_EMULATED.__getitem__,
    meet=lambda value, type_: value if value.dtype == np.bool_ else value.astype(type_),
    store=rounded,
)
"""Runs a program in the element types that it declares."""

_FLOATS = Floats(np.float64)

DOUBLE: RoundingMachine[Array] = RoundingMachine(
    algebra=lambda _: _FLOATS, meet=lambda value, _: value, store=lambda value, _: value
)
"""Runs a program in float64 throughout."""


# TF32: what a GPU's matrix units make of float32 products, and when. Since Ampere they round the
# operands of such a product to 11 significant bits, where jax's matmul precision does not forbid
# it; sums stay in float32. So at jax's default precision `x @ w` in float32 is as inexact on a
# GPU as one of float16. That is what the user runs, so originals and candidates are judged as the
# device and jax's settings have them: with TF32's unit for each operand of a product, and not
# refused for what the original loses as well. Whoever wants more asks jax for more
# (`jax.default_matmul_precision("float32")`), and is then judged by float32's unit.
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
