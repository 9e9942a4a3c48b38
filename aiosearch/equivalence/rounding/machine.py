"""Execution of a program in its working types, rounding what is stored to memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeAlias

import numpy as np

from ...tensor.algebra import Algebra, V
from ...tensor.evaluation.evaluate import step
from ...tensor.floats import Array, Floats, Number
from ...tensor.terms import Program, Term
from ...tensor.types import DType, Place

Working: TypeAlias = type[np.floating[Any]]

UNIT = {
    DType.F64: 2.0**-53,
    DType.F32: 2.0**-24,
    DType.F16: 2.0**-11,
    DType.BF16: 2.0**-8,
}
"""The largest relative error of one rounding to a type."""

LEAST = {
    DType.F64: 2.0**-1074,
    DType.F32: 2.0**-149,
    DType.F16: 2.0**-24,
    DType.BF16: 2.0**-133,
}
"""The smallest number above zero of a type."""

MOST = {
    DType.F64: float(np.finfo(np.float64).max),
    DType.F32: float(np.finfo(np.float32).max),
    DType.F16: float(np.finfo(np.float16).max),
    DType.BF16: 2.0**127 * (2 - 2.0**-7),
}
"""The largest number of a type."""

PAIRWISE = 16
"""Sums of more elements than this are added in pairs, whatever axis they run along."""


def working(dtype: DType) -> Working:
    """The type that arithmetic on an element type is done in."""
    return np.float64 if dtype in (DType.F64, DType.I32, DType.WEAK) else np.float32


def rounded(x: Array, dtype: str) -> Array:
    """The nearest values of an element type, ties to even, held in its working type."""
    if dtype == DType.BOOL:
        return x if x.dtype == np.bool_ else x != 0
    if dtype == DType.I32:
        return np.trunc(x).astype(np.float64)
    if dtype == DType.F16:
        return x.astype(np.float16).astype(np.float32)
    if dtype == DType.BF16:
        return _brain(x.astype(np.float32))
    return x.astype(working(DType(dtype)))


def _brain(x: Array) -> Array:
    """Rounds to the upper 16 bits of single precision."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    kept = (bits + (np.uint32(0x7FFF) + even)) & np.uint32(0xFFFF0000)
    # The payload of a nan could be carried over into infinity.
    return np.where(np.isnan(x), x, kept.view(np.float32)).reshape(x.shape)


@dataclass(frozen=True)
class RoundingMachine(Generic[V]):
    """What differs between machines."""

    algebra: Callable[[Working], Algebra[V]]
    meet: Callable[[V, Working], V]
    """A literal in the working type that it meets."""
    store: Callable[[V, DType], V]
    """What is found in memory after a value was stored there."""


def execute(program: Program, machine: RoundingMachine[V], inputs: Sequence[V]) -> list[V]:
    """The outputs of a program on a machine; values are let go after their last use."""
    values: dict[Term, V] = dict(zip(program.inputs, inputs, strict=True))
    order = [term for term in program.terms() if term not in values]
    last = {argument: term for term in order for argument in term.arguments}
    kept = {*program.outputs, *program.inputs}
    with np.errstate(all="ignore"):
        for term in order:
            values[term] = _step(term, machine, values)
            for argument in set(term.arguments):
                if last[argument] is term and argument not in kept:
                    del values[argument]
    return [values[output] for output in program.outputs]


def _step(term: Term, machine: RoundingMachine[V], values: dict[Term, V]) -> V:
    type_ = _meeting(term)
    operands = [
        machine.meet(values[argument], type_) if argument.dtype is DType.WEAK else values[argument]
        for argument in term.arguments
    ]
    value = step(term, machine.algebra(type_), operands, as_written=True)
    return machine.store(value, term.dtype) if term.place is Place.DEVICE else value


def _meeting(term: Term) -> Working:
    """The working type in which the operands of a term meet."""
    types = [
        working(argument.dtype)
        for argument in term.arguments
        if argument.dtype not in (DType.WEAK, DType.BOOL)
    ]
    if not types:
        return working(term.dtype)
    return np.float64 if np.float64 in types else np.float32


class Emulated(Floats):
    """Arithmetic in a working type; casts round, and sums do not depend on how memory is laid."""

    def sum(self, x: Array, axes: Sequence[int]) -> Array:
        count = 1
        for axis in axes:
            count *= x.shape[axis]
        if count <= PAIRWISE:
            return super().sum(x, axes)
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        rows = np.transpose(x, [*kept, *axes]).reshape(*(x.shape[axis] for axis in kept), count)
        return np.asarray(np.sum(np.ascontiguousarray(rows), axis=-1)).reshape(shape)

    def cast(self, x: Array, dtype: str) -> Array:
        return rounded(x, dtype)

    def pad(self, x: Array, axis: int, low: Number, high: Number, value: Fraction) -> Array:
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
