"""Float64 values beside a bound on the noise that rounding alone explains.

Float64 values that carry the noise which rounding alone explains.

The noise is a running error analysis of first order: operands' noises are added up element by
element, and as independent ones where a sum runs over many. It tells a difference of two functions
from one of two roundings, and near zero it says what a unit in the last place is worth there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...tensor.algebra import Function
from ...tensor.floats import Array, Floats, Number
from ...tensor.terms import Program
from ...tensor.types import DType
from ..tensorfloat import TENSOR_FLOAT
from .machine import LEAST, MOST, UNIT, RoundingMachine, Working, rounded

NOTHING = np.zeros(())
"""No noise at all."""

END = 16.0
"""Values no more noises than this from the largest number of a type may overflow or not."""


@dataclass(frozen=True, slots=True)
class NoisyArray:
    """A value, and the noise of each element; without one, each is known to `unit` of itself."""

    value: Array
    noise: Array | None = None
    unit: float = 0.0
    top: Array | None = None
    """What it is no higher than, though its noise has no end: scores that a mask takes out."""

    @property
    def spread(self) -> Array:
        """The noise as an array; infinite where nothing can be said of the value."""
        if self.noise is not None:
            return self.noise
        return np.abs(self.value) * self.unit if self.unit else NOTHING

    @property
    def highest(self) -> Array:
        """What no element is above."""
        found = self.value + self.spread
        return found if self.top is None else np.asarray(np.minimum(found, self.top))

    @property
    def unsure(self) -> Array:
        return ~np.isfinite(self.spread)

    def moved(self, move: Callable[[Array], Array]) -> NoisyArray:
        """The same elements elsewhere."""
        noise = None if self.noise is None else move(self.noise)
        top = None if self.top is None else move(self.top)
        return NoisyArray(move(self.value), noise, self.unit, top)


def exactly(value: Array) -> NoisyArray:
    """A value that both programs are given alike."""
    return NoisyArray(value if value.dtype == np.bool_ else value.astype(np.float64))


def stored(value: Array, dtype: DType) -> NoisyArray:
    """A value that is known as well as its element type can hold it."""
    exact = exactly(value)
    if dtype not in UNIT or not np.isfinite(exact.value).all():
        return exact
    return NoisyArray(exact.value, None, UNIT[dtype])


def stored_inputs(program: Program, inputs: Sequence[Array]) -> list[NoisyArray]:
    """The inputs of a program, as they are in memory."""
    return [stored(x, term.dtype) for x, term in zip(inputs, program.inputs, strict=True)]


def settled(value: Array, noise: Array, unsure: Callable[[], Array]) -> NoisyArray:
    """Infinities and nans are certain where they do not come from noise."""
    if np.isfinite(noise).all():
        return NoisyArray(value, noise)
    finite = np.isfinite(value)
    left = np.where(np.isnan(noise), np.inf, noise)
    return NoisyArray(value, np.where(finite, left, np.where(unsure(), np.inf, 0.0)))


def any_unsure(*operands: NoisyArray) -> Array:
    found: Array = np.zeros((), np.bool_)
    for operand in operands:
        found = found | operand.unsure
    return found


def remembered(measured: NoisyArray, dtype: DType) -> NoisyArray:
    """What a value in memory is known to, after it was rounded to its element type."""
    unit = UNIT.get(dtype)
    if unit is None or measured.value.dtype == np.bool_:
        return measured
    if measured.noise is None:
        exact = not measured.unit and _holds(dtype, measured.value)
        return NoisyArray(measured.value, None, 0.0 if exact else max(unit, measured.unit))
    rounding = np.maximum(np.abs(measured.value) * unit, LEAST[dtype])
    kept = (measured.value == 0) | ~np.isfinite(measured.value)
    certain = (measured.noise == 0) & ~kept
    if certain.any():
        kept |= certain & (rounded(measured.value, dtype) == measured.value)
    noise = measured.noise + np.where(kept, 0.0, rounding)
    end = _near_the_end(measured.value, noise, MOST[dtype])
    if not end.any():
        return NoisyArray(measured.value, noise, top=measured.top)
    top = np.where(end & (measured.value < 0), measured.value + END * noise, np.inf)
    if measured.top is not None:
        top = np.minimum(top, measured.top)
    return NoisyArray(measured.value, np.where(end, np.inf, noise), top=top)


def _near_the_end(value: Array, noise: Array, most: float) -> Array:
    """Where rounding decides whether a value overflows."""
    size = np.abs(value)
    if not np.any(size > most / 2):
        return np.zeros((), np.bool_)
    return np.asarray((noise > 0) & (np.abs(size - most) <= END * noise))


def _holds(dtype: DType, value: Array) -> bool:
    return bool(np.array_equal(rounded(value, dtype), value, equal_nan=True))


_PLAIN = Floats(np.float64)
_ROOT = 2.0**-26


class Noise:
    """The words on measured values, where each operation rounds by at most `unit`.

    Before matrices are multiplied, their elements are rounded by at most `product_unit`.
    """

    def __init__(self, unit: float, least: float, product_unit: float = 0.0) -> None:
        self.unit = unit
        self.least = least
        self.product_unit = product_unit

    def _own(self, value: Array) -> Array:
        size = np.abs(value)
        noise = size * self.unit
        small = size < self.least / self.unit
        return noise + (small & (size > 0)) * self.least if small.any() else noise

    def _vanished(self, value: Array, nonzero: Callable[[], Array]) -> Array:
        """The noise of zeros that are none: results too small for the type."""
        zero = value == 0
        return (zero & nonzero()) * self.least if zero.any() else NOTHING

    def _made(self, value: Array, noise: Array, *operands: NoisyArray) -> NoisyArray:
        return settled(value, noise + self._own(value), lambda: any_unsure(*operands))

    def _risky(self, value: Array, noise: Array, risky: Array, *operands: NoisyArray) -> NoisyArray:
        """Where the noise decides what the value is, nothing is known of it."""
        whole = np.where(risky, np.inf, noise + self._own(value))
        return settled(value, whole, lambda: any_unsure(*operands) | risky)

    def constant(self, value: Fraction | float) -> NoisyArray:
        number = float(value)
        return NoisyArray(np.asarray(number), None, 0.0 if number == value else self.unit)

    def iota(self, shape: Sequence[Number], axis: int) -> NoisyArray:
        return NoisyArray(_PLAIN.iota(shape, axis))

    def add(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        return self._made(x.value + y.value, x.spread + y.spread, x, y)

    def subtract(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        noise = NOTHING if x is y else x.spread + y.spread
        found = self._made(x.value - y.value, noise, x, y)
        return found if x.top is None else replace(found, top=x.highest - y.value + END * y.spread)

    def multiply(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        value = x.value * y.value
        if x.noise is None and y.noise is None:
            noise = np.abs(value) * (x.unit + y.unit)
        else:
            noise = np.abs(x.value) * y.spread + np.abs(y.value) * x.spread
        gone = self._vanished(value, lambda: (x.value != 0) & (y.value != 0))
        return self._made(value, noise + gone, x, y)

    def divide(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        value, size = x.value / y.value, np.abs(y.value)
        risky = (y.spread > 0) & (2 * y.spread >= size)
        noise = (x.spread + np.abs(value) * y.spread) / size
        gone = self._vanished(value, lambda: (x.value != 0) & np.isfinite(y.value))
        return self._risky(value, noise + gone, risky, x, y)

    def negative(self, x: NoisyArray) -> NoisyArray:
        return NoisyArray(-x.value, x.noise, x.unit)

    def exp(self, x: NoisyArray) -> NoisyArray:
        value = np.exp(x.value)
        gone = self._vanished(value, lambda: np.isfinite(x.value))
        return self._made(value, _risen(x) + gone, x)

    def log(self, x: NoisyArray) -> NoisyArray:
        size = np.abs(x.value)
        risky = (x.spread > 0) & (2 * x.spread >= size)
        return self._risky(np.log(x.value), x.spread / size, risky, x)

    def sqrt(self, x: NoisyArray) -> NoisyArray:
        value, spread = np.sqrt(x.value), x.spread
        reach = np.sqrt(x.value + spread) - np.sqrt(np.maximum(x.value - spread, 0))
        return self._risky(value, reach, (x.value < 0) & (spread >= -x.value), x)

    def absolute(self, x: NoisyArray) -> NoisyArray:
        return NoisyArray(np.abs(x.value), x.noise, x.unit)

    def maximum(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        return self._either(np.maximum(x.value, y.value), x, y)

    def minimum(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        return self._either(np.minimum(x.value, y.value), x, y)

    def _either(self, value: Array, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        noise = np.maximum(_felt(x, value), _felt(y, value))
        return settled(value, np.broadcast_to(noise, value.shape), lambda: any_unsure(x, y))

    def compare(self, how: str, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        value = _PLAIN.compare(how, x.value, y.value)
        if x is y:
            return NoisyArray(value)
        noise = x.spread + y.spread
        open_ = (noise > 0) & ~(_distance(x.value, y.value) > noise)
        return NoisyArray(value, np.where(open_, np.inf, 0.0))

    def select(self, where: NoisyArray, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        value = np.where(where.value, x.value, y.value)
        chosen = np.where(where.value, x.spread, y.spread)
        if where.noise is None:
            return NoisyArray(value, np.broadcast_to(chosen, value.shape))
        between = _distance(x.value, y.value) + np.maximum(x.spread, y.spread)
        noise = np.where(where.noise > 0, between, chosen)
        noise = np.broadcast_to(noise, value.shape)
        return NoisyArray(value, np.where(np.isnan(noise), np.inf, noise))

    def function(self, function: Function, *arguments: NoisyArray) -> NoisyArray:
        values = [argument.value for argument in arguments]
        value = _PLAIN.function(function, *values)
        noise, open_ = NOTHING, np.zeros((), np.bool_)
        for place, argument in enumerate(arguments):
            if argument.noise is not None or argument.unit:
                through, opened = self._through(function, values, value, place, argument.spread)
                noise, open_ = noise + through, open_ | opened
        if function.positive:
            noise = noise + self._vanished(value, lambda: _all_finite(values))
        return self._risky(value, noise, open_, *arguments)

    def _through(
        self, function: Function, values: list[Array], value: Array, place: int, spread: Array
    ) -> tuple[Array, Array]:
        """What the noise of one argument becomes: the change over it, or its size times the slope.

        The change alone would miss what is too small to be added to the argument. And where the
        noise decides whether the value is finite.
        """
        own = values[place]

        def ends(reach: Array) -> tuple[Array, Array]:
            low, high = (
                _PLAIN.function(function, *values[:place], moved, *values[place + 1 :])
                for moved in (own - reach, own + reach)
            )
            return low, high

        def change(low: Array, high: Array) -> Array:
            return np.asarray(np.maximum(np.abs(high - value), np.abs(low - value)))

        low, high = ends(np.where(spread > 0, spread + np.spacing(np.abs(own)), 0.0))
        open_ = ~np.isfinite(value) & (np.isfinite(low) | np.isfinite(high))
        near = change(low, high)
        if function.integral:
            return near, open_
        reach = np.maximum(spread, np.abs(own) * _ROOT)
        slope = np.where(reach > 0, change(*ends(reach)) / reach, 0.0)
        return np.where(np.isfinite(own), np.maximum(near, slope * spread), 0.0), open_

    def sum(self, x: NoisyArray, axes: Sequence[int]) -> NoisyArray:
        value = _PLAIN.sum(x.value, axes)
        squares = _PLAIN.sum(x.value * x.value, axes)
        own = self.unit * roundings(x.value.size, value.size)
        if x.noise is None:
            noise = np.sqrt(squares * (own**2 + x.unit**2))
        else:
            noise = np.sqrt(_PLAIN.sum(x.noise * x.noise, axes) + squares * own**2)
        return settled(value, noise + np.abs(value) * own, lambda: _any_along(x, axes))

    def largest(self, x: NoisyArray, axes: Sequence[int]) -> NoisyArray:
        value = _PLAIN.largest(x.value, axes)
        if x.noise is None:
            return NoisyArray(value, None, x.unit)
        noise = np.max(_felt(x, value), axis=tuple(axes), keepdims=True, initial=0.0)
        return settled(value, noise, lambda: _any_along(x, axes))

    def matmul(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        value = x.value @ y.value
        own = self.unit * roundings(x.value.shape[-1], 1)
        crossed = np.sqrt(_crossed(x, y, math.hypot(own, math.sqrt(2) * self.product_unit)))
        gone = self._vanished(value, lambda: crossed > 0)
        noise = crossed + np.abs(value) * own + gone
        return settled(value, noise, lambda: _any_along(x, (-1,)) | _any_along(y, (-2,)))

    def size(self, x: NoisyArray, axis: int) -> NoisyArray:
        return NoisyArray(_PLAIN.size(x.value, axis))

    def broadcast(self, x: NoisyArray, shape: Sequence[Number]) -> NoisyArray:
        return x.moved(lambda array: _PLAIN.broadcast(array, shape))

    def reshape(self, x: NoisyArray, shape: Sequence[Number]) -> NoisyArray:
        return x.moved(lambda array: _PLAIN.reshape(array, shape))

    def transpose(self, x: NoisyArray, axes: Sequence[int]) -> NoisyArray:
        return x.moved(lambda array: _PLAIN.transpose(array, axes))

    def slice(self, x: NoisyArray, axis: int, start: Number, stop: Number, step: int) -> NoisyArray:
        return x.moved(lambda array: _PLAIN.slice(array, axis, start, stop, step))

    def concatenate(self, xs: Sequence[NoisyArray], axis: int) -> NoisyArray:
        value = _PLAIN.concatenate([x.value for x in xs], axis)
        if all(x.noise is None and x.unit == xs[0].unit for x in xs):
            return NoisyArray(value, None, xs[0].unit)
        parts = [np.broadcast_to(x.spread, x.value.shape) for x in xs]
        return NoisyArray(value, _PLAIN.concatenate(parts, axis))

    def pad(
        self, x: NoisyArray, axis: int, low: Number, high: Number, value: Fraction
    ) -> NoisyArray:
        padded = _PLAIN.pad(x.value, axis, low, high, value)
        if x.noise is None:
            return NoisyArray(padded, None, x.unit)
        return NoisyArray(padded, _PLAIN.pad(x.noise, axis, low, high, Fraction(0)))

    def diagonal(self, x: NoisyArray) -> NoisyArray:
        return x.moved(_PLAIN.diagonal)

    def windows(
        self, x: NoisyArray, axis: int, window: Number, stride: int, dilation: int
    ) -> NoisyArray:
        return x.moved(lambda array: _PLAIN.windows(array, axis, window, stride, dilation))

    def cast(self, x: NoisyArray, dtype: str) -> NoisyArray:
        value = _PLAIN.cast(x.value, dtype)
        if dtype == DType.BOOL:
            open_ = (x.spread > 0) & (np.abs(x.value) <= x.spread)
            return NoisyArray(value, np.where(open_, np.inf, 0.0))
        if dtype == DType.I32:
            open_ = np.trunc(x.value - x.spread) != np.trunc(x.value + x.spread)
            return NoisyArray(value, np.where(open_, np.inf, 0.0))
        return NoisyArray(value, x.noise, x.unit)

    def shape(self, x: NoisyArray) -> tuple[int, ...]:
        return x.value.shape


def _distance(x: Array, y: Array) -> Array:
    """The distance of `x` and `y`, which may be truth values: NumPy subtracts none of those."""
    return np.asarray(np.abs(np.subtract(x, y, dtype=np.float64)))


def _all_finite(values: Sequence[Array]) -> Array:
    return np.asarray(np.all(np.isfinite(np.broadcast_arrays(*values)), axis=0))


def _felt(x: NoisyArray, chosen: Array) -> Array:
    """The noise of those that may be the one that is chosen: of what is far from it, none is."""
    far = _distance(x.value, chosen) > END * x.spread
    if x.top is not None:
        far |= x.top < chosen
    return np.where(far, 0.0, x.spread)


def _risen(x: NoisyArray) -> Array:
    """By how much exp rises over the noise of what it is taken of, be that large or small."""
    near = np.exp(x.value) * np.expm1(x.spread)
    return np.where(x.spread > 1, np.exp(x.highest) - np.exp(x.value), near)


def roundings(count: int, into: int) -> float:
    """How often a sum of so many elements into so many is rounded, where it is done in pairs."""
    return max(1.0, math.log2(max(count, 1) / max(into, 1)))


def _crossed(x: NoisyArray, y: NoisyArray, own: float) -> Array:
    """The squared noise of all products of rows and columns, added up."""
    left, right = x.value * x.value, y.value * y.value
    known = own**2 + y.unit**2 if y.noise is None else own**2
    if x.noise is None:
        total = (left @ right) * (known + x.unit**2)
    else:
        total = (x.noise * x.noise + left * known) @ right
    return np.asarray(total if y.noise is None else total + left @ (y.noise * y.noise))


def _any_along(x: NoisyArray, axes: Sequence[int]) -> Array:
    unsure = np.broadcast_to(x.unsure, x.value.shape)
    return np.asarray(np.any(unsure, axis=tuple(axes), keepdims=True))


_DOUBLE = Noise(UNIT[DType.F64], LEAST[DType.F64])
_NOISES: dict[Working, Noise] = {
    np.float32: Noise(UNIT[DType.F32], LEAST[DType.F32]),
    np.float64: _DOUBLE,
}


def _as_is(measured: NoisyArray, _: Any) -> NoisyArray:
    return measured


REAL: RoundingMachine[NoisyArray] = RoundingMachine(
    algebra=lambda _: _DOUBLE, meet=_as_is, store=_as_is
)
"""Runs a program as a function of real numbers; the noise is that of double precision."""

TYPED: RoundingMachine[NoisyArray] = RoundingMachine(
    algebra=_NOISES.__getitem__, meet=_as_is, store=remembered
)
"""The same values; the noise is that of the element types that the program declares."""

_ROUGH: dict[Working, Noise] = {
    np.float32: Noise(UNIT[DType.F32], LEAST[DType.F32], TENSOR_FLOAT),
    np.float64: _DOUBLE,
}

TYPED_ROUGHLY: RoundingMachine[NoisyArray] = RoundingMachine(
    algebra=_ROUGH.__getitem__, meet=_as_is, store=remembered
)
"""The same on matrix units that round what they multiply; half types hold no more than these."""
