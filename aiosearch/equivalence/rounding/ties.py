"""Noise of a program in which elements that are computed alike are known to be equal.

Problem: a kernel whose blocks all compute the same stores copies, and `argmax` of copies is 0 in
whatever way they are rounded; `Noise` sees values within each other's noise, and calls the place
unsure. So does `rem(a, b)` where b is a copy of a: it is 0, and not nearly b.

Method: value numbering, element by element. Beside each value goes a number of 64 bits (`names`)
that is made of the operation and of the names of what it is computed from, beginning with the
numbers that inputs hold. Elements of one name are one computation on one set of numbers. Where they
meet in a comparison, a remainder or an `argmax`, the decision is that of equal real numbers.

Example: of `h = exp(x)` with x = (2, 2, 3) the first two have one name, so that `argmax(-h)` is 0
for certain.

Invariant: one name means equal in real numbers, but for chance of 2^-64. Sums in another order have
other names, and are as unsure as before. Cost: some ten operations of integers for each of floats.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...tensor.algebra import Function
from ...tensor.floats import Array, Floats, Number
from ...tensor.terms import Program
from ...tensor.types import DType
from .machine import RoundingMachine, Working
from .noise import END, NOISES, Noise, NoisyArray, open_where, remembered, stored_inputs

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_PLAIN = Floats(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class TiedArray:
    """A value with its noise, and the name of each element."""

    noisy: NoisyArray
    names: Array


def tied_inputs(program: Program, inputs: Sequence[Array]) -> list[TiedArray]:
    """The inputs of a program, of which equal numbers have one name."""
    # Names are numbers modulo 2^64.
    with np.errstate(over="ignore"):
        return [TiedArray(noisy, _of(noisy.value)) for noisy in stored_inputs(program, inputs)]


def _mix(names: Array) -> Array:
    """Names of other names, spread over all bits (splitmix64)."""
    mixed = names + _GOLDEN
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _of(value: Array) -> Array:
    """The names of the numbers in `value`; both zeros have one."""
    return _mix(np.asarray(value.astype(np.float64) + 0.0).view(np.uint64))


def _word(text: str) -> Array:
    return _mix(np.asarray(zlib.crc32(text.encode()), np.uint64))


def _combined(text: str, *names: Array) -> Array:
    """The names of what the operation `text` makes of operands with `names`."""
    total = _word(text)
    for part in names:
        total = _mix(total + _mix(part))
    return total


def _in_order(names: Array, axis: int) -> Array:
    """`names` that say their place along `axis` too, to be added up."""
    places = np.arange(names.shape[axis], dtype=np.uint64) * _GOLDEN
    sizes = [-1 if dimension == axis else 1 for dimension in range(names.ndim)]
    return _mix(names + places.reshape(sizes))


def _along(text: str, names: Array, axes: Sequence[int]) -> Array:
    """The names of the reduction `text` over `axes`, which stay with size one."""
    for axis in axes:
        if names.shape[axis] != 1:
            total = np.sum(_in_order(names, axis), axis=axis, keepdims=True, dtype=np.uint64)
            names = _combined(text, np.asarray(total))
    return names


class Ties:
    """The `Algebra` on `TiedArray`, with the noise of another."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise

    def _each(self, text: str, result: NoisyArray, *operands: TiedArray) -> TiedArray:
        names = _combined(text, *(operand.names for operand in operands))
        return TiedArray(result, np.broadcast_to(names, result.value.shape))

    def _pair(self, text: str, result: NoisyArray, x: TiedArray, y: TiedArray) -> TiedArray:
        """The result of what is the same when `x` and `y` are exchanged."""
        names = _mix(_word(text) + (_mix(x.names) + _mix(y.names)))
        return TiedArray(result, np.broadcast_to(names, result.value.shape))

    def constant(self, value: Fraction | float) -> TiedArray:
        noisy = self._noise.constant(value)
        return TiedArray(noisy, _of(noisy.value))

    def iota(self, shape: Sequence[Number], axis: int) -> TiedArray:
        noisy = self._noise.iota(shape, axis)
        return TiedArray(noisy, _of(noisy.value))

    def size(self, x: TiedArray, axis: int) -> TiedArray:
        noisy = self._noise.size(x.noisy, axis)
        return TiedArray(noisy, _of(noisy.value))

    def add(self, x: TiedArray, y: TiedArray) -> TiedArray:
        return self._pair("add", self._noise.add(x.noisy, y.noisy), x, y)

    def subtract(self, x: TiedArray, y: TiedArray) -> TiedArray:
        return self._each("subtract", self._noise.subtract(x.noisy, y.noisy), x, y)

    def multiply(self, x: TiedArray, y: TiedArray) -> TiedArray:
        return self._pair("multiply", self._noise.multiply(x.noisy, y.noisy), x, y)

    def divide(self, x: TiedArray, y: TiedArray) -> TiedArray:
        noisy = self._noise.divide(x.noisy, y.noisy)
        return x if noisy is x.noisy else self._each("divide", noisy, x, y)

    def negative(self, x: TiedArray) -> TiedArray:
        return self._each("negative", self._noise.negative(x.noisy), x)

    def exp(self, x: TiedArray) -> TiedArray:
        return self._each("exp", self._noise.exp(x.noisy), x)

    def log(self, x: TiedArray) -> TiedArray:
        return self._each("log", self._noise.log(x.noisy), x)

    def sqrt(self, x: TiedArray) -> TiedArray:
        return self._each("sqrt", self._noise.sqrt(x.noisy), x)

    def absolute(self, x: TiedArray) -> TiedArray:
        return self._each("absolute", self._noise.absolute(x.noisy), x)

    def maximum(self, x: TiedArray, y: TiedArray) -> TiedArray:
        return self._either("maximum", self._noise.maximum(x.noisy, y.noisy), x, y)

    def minimum(self, x: TiedArray, y: TiedArray) -> TiedArray:
        return self._either("minimum", self._noise.minimum(x.noisy, y.noisy), x, y)

    def _either(self, text: str, result: NoisyArray, x: TiedArray, y: TiedArray) -> TiedArray:
        """What is chosen for certain of `x` and `y` keeps its name."""
        if x.noisy is y.noisy:
            return x
        names = self._pair(text, result, x, y).names
        for chosen, beside in ((x, y), (y, x)):
            gap = np.abs(np.subtract(beside.noisy.value, result.value, dtype=np.float64))
            is_far = (chosen.noisy.value == result.value) & (gap > END * beside.noisy.spread)
            names = np.where(is_far | (x.names == y.names), chosen.names, names)
        return TiedArray(result, np.broadcast_to(names, result.value.shape))

    def compare(self, how: str, x: TiedArray, y: TiedArray) -> TiedArray:
        result = self._noise.compare(how, x.noisy, y.noisy)
        if result.noise is not None:
            result = open_where(result.value, (result.noise > 0) & (x.names != y.names))
        return self._each(how, result, x, y)

    def select(self, where: TiedArray, x: TiedArray, y: TiedArray) -> TiedArray:
        result = self._noise.select(where.noisy, x.noisy, y.noisy)
        if where.noisy.noise is not None:
            return self._each("select", result, where, x, y)
        names = np.where(where.noisy.value, x.names, y.names)
        return TiedArray(result, np.broadcast_to(names, result.value.shape))

    def function(self, function: Function, *arguments: TiedArray) -> TiedArray:
        result = self._noise.function(function, *(argument.noisy for argument in arguments))
        if function.name == "rem" and result.noise is not None:
            x, y = arguments
            # Nothing is left of what divides itself, where it is a number.
            tied = (x.names == y.names) & (result.value == 0)
            result = NoisyArray(result.value, np.where(tied, 0.0, result.noise))
        return self._each(function.name, result, *arguments)

    def sum(self, x: TiedArray, axes: Sequence[int]) -> TiedArray:
        noisy = self._noise.sum(x.noisy, axes)
        return self._moved(noisy, x, lambda names: _along("sum", names, axes))

    def largest(self, x: TiedArray, axes: Sequence[int]) -> TiedArray:
        noisy = self._noise.largest(x.noisy, axes)
        return self._moved(noisy, x, lambda names: _along("largest", names, axes))

    def matmul(self, x: TiedArray, y: TiedArray) -> TiedArray:
        products = _mix(_mix(x.names)[..., :, :, None] + y.names[..., None, :, :])
        names = _along("matmul", products, (products.ndim - 2,))[..., 0, :]
        noisy = self._noise.matmul(x.noisy, y.noisy)
        return TiedArray(noisy, np.broadcast_to(names, noisy.value.shape))

    def broadcast(self, x: TiedArray, shape: Sequence[Number]) -> TiedArray:
        return self._moved(
            self._noise.broadcast(x.noisy, shape), x, lambda names: _PLAIN.broadcast(names, shape)
        )

    def reshape(self, x: TiedArray, shape: Sequence[Number]) -> TiedArray:
        return self._moved(
            self._noise.reshape(x.noisy, shape), x, lambda names: _PLAIN.reshape(names, shape)
        )

    def transpose(self, x: TiedArray, axes: Sequence[int]) -> TiedArray:
        return self._moved(
            self._noise.transpose(x.noisy, axes), x, lambda names: _PLAIN.transpose(names, axes)
        )

    def slice(self, x: TiedArray, axis: int, start: Number, stop: Number, step: int) -> TiedArray:
        noisy = self._noise.slice(x.noisy, axis, start, stop, step)
        return self._moved(noisy, x, lambda names: _PLAIN.slice(names, axis, start, stop, step))

    def concatenate(self, xs: Sequence[TiedArray], axis: int) -> TiedArray:
        noisy = self._noise.concatenate([x.noisy for x in xs], axis)
        if len(xs) == 1:
            return xs[0]
        return TiedArray(noisy, _PLAIN.concatenate([x.names for x in xs], axis))

    def pad(self, x: TiedArray, axis: int, low: Number, high: Number, value: Fraction) -> TiedArray:
        noisy = self._noise.pad(x.noisy, axis, low, high, value)
        inside = _PLAIN.pad(np.ones_like(x.names), axis, low, high, Fraction(0)) != 0
        names = _PLAIN.pad(x.names, axis, low, high, Fraction(0))
        return TiedArray(noisy, np.where(inside, names, _of(np.asarray(float(value)))))

    def diagonal(self, x: TiedArray) -> TiedArray:
        return self._moved(self._noise.diagonal(x.noisy), x, _PLAIN.diagonal)

    def windows(
        self, x: TiedArray, axis: int, window: Number, stride: int, dilation: int
    ) -> TiedArray:
        noisy = self._noise.windows(x.noisy, axis, window, stride, dilation)
        return self._moved(
            noisy, x, lambda names: _PLAIN.windows(names, axis, window, stride, dilation)
        )

    def _moved(self, noisy: NoisyArray, x: TiedArray, move: Callable[[Array], Array]) -> TiedArray:
        # What is the same object stays so: it is not rounded once more where it is stored.
        return x if noisy is x.noisy else TiedArray(noisy, move(x.names))

    def take(self, x: TiedArray, indices: TiedArray, axis: int) -> TiedArray:
        noisy = self._noise.take(x.noisy, indices.noisy, axis)
        return TiedArray(noisy, _PLAIN.take(x.names, indices.noisy.value, axis))

    def scatter_add(
        self, x: TiedArray, indices: TiedArray, updates: TiedArray, axis: int
    ) -> TiedArray:
        """Sums of whatever meets there, none of which is known to be another."""
        noisy = self._noise.scatter_add(x.noisy, indices.noisy, updates.noisy, axis)
        places = np.arange(noisy.value.size, dtype=np.uint64).reshape(noisy.value.shape)
        put = [
            np.asarray(np.sum(_in_order(operand.names.reshape(-1), 0), dtype=np.uint64))
            for operand in (indices, updates)
        ]
        return TiedArray(noisy, _combined("scatter_add", x.names, places, *put))

    def argmax(self, x: TiedArray, axis: int) -> TiedArray:
        """The first of elements of one of `names`, if no other may be larger."""
        result = self._noise.argmax(x.noisy, axis)
        names = _along("argmax", x.names, (axis,))
        if result.noise is not None:
            value, spread = x.noisy.value, x.noisy.spread
            tied = x.names == _PLAIN.take(x.names, result.value, axis)
            rivals = np.where(tied, -np.inf, value + spread)
            least = _PLAIN.take(value - spread, result.value, axis)
            open_ = np.max(rivals, axis=axis, keepdims=True) > least
            unsure = np.broadcast_to(x.noisy.unsure, value.shape)
            open_ |= np.any(unsure, axis=axis, keepdims=True)
            result = open_where(result.value, open_)
        return TiedArray(result, names)

    def cumulative(self, x: TiedArray, axis: int, reduction: str, reverse: bool) -> TiedArray:
        noisy = self._noise.cumulative(x.noisy, axis, reduction, reverse)
        names = np.flip(x.names, axis) if reverse else x.names
        running = np.cumsum(_in_order(names, axis), axis, dtype=np.uint64)
        running = np.flip(running, axis) if reverse else running
        return TiedArray(noisy, _combined(f"cumulative {reduction}", running))

    def cast(self, x: TiedArray, dtype: str) -> TiedArray:
        noisy = self._noise.cast(x.noisy, dtype)
        return x if noisy is x.noisy else self._each(f"cast {dtype}", noisy, x)

    def shape(self, x: TiedArray) -> tuple[int, ...]:
        return x.noisy.value.shape


def _stored(tied: TiedArray, dtype: DType) -> TiedArray:
    """What is rounded to a type in memory is so by every program that gives it that type."""
    noisy = remembered(tied.noisy, dtype)
    return tied if noisy is tied.noisy else TiedArray(noisy, tied.names)


_TIES: dict[Working, Ties] = {working: Ties(noise) for working, noise in NOISES.items()}

TIED: RoundingMachine[TiedArray] = RoundingMachine(
    algebra=_TIES.__getitem__, meet=lambda tied, _: tied, store=_stored
)
"""Runs a program as `noise.TYPED` does, and knows what is computed alike."""
