"""Float64 values beside a bound on the noise that rounding alone explains.

Problem: two programs that are equal in real numbers differ in floats. A difference of 1e-3 may be
rounding, if a sum of a million terms cancelled, or a wrong program. The verifier has to know how
much rounding explains at each element.

Method: a running error analysis of first order. `NoisyArray` holds a float64 value and a noise for
each element; each operation propagates the noise of its operands by its slope and adds the rounding
of its result. Operands' noises are added, and as independent ones (square root of the sum of
squares) where a sum runs over many.

Example, in float32 (unit 2^-24): x = 1000 and y = 999, both stored and so known to 6e-5 each; x - y
is 1 with a noise of 1.2e-4. Rounding explains a difference of 1e-4 there, and not one of 0.01. Near
zero the noise says what a unit in the last place is worth there, where the value itself would say
nothing.

A value whose noise is infinite is `unsure`: nothing is claimed of it. Where the noise decides a
branch, a comparison or an overflow, that is so.

Invariant: first order, not a proof: `float_differences.MARGIN` stands between noise and a claim.
Cost: a few array operations for each one of the program. See docs/why/verdicts.md.
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
from ...tensor.operators.indexing import scatter_add_by_comparison
from ...tensor.terms import Program
from ...tensor.types import DType
from .machine import LEAST, MOST, TENSOR_FLOAT, UNIT, RoundingMachine, Working, rounded

NOTHING = np.zeros(())
"""No noise at all, for every shape."""

COUNTED = 2.0**11
"""Whole numbers up to here are exact in f16, and in any wider type."""

CANCELLED = 2.0**-2
"""The share of what was added up that a sum counts as, where less than that is left of it."""

END = 16.0
"""A value within this many noises of a type's largest number may overflow or not."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyArray:
    """A value, and the noise of each element.

    Without `noise`, each is known to `unit` of itself.
    """

    value: Array
    noise: Array | None = None
    unit: float = 0.0
    top: Array | None = None
    """An upper bound that holds even where the noise is infinite: scores that a mask takes out."""
    shared: bool = False
    """Whether every program has these very numbers: inputs, literals, and what is chosen of them.

    So are sums and products of few digits, which nothing rounds. They have a noise, as a program
    may compute with any numbers near them; but comparisons among them are certain.
    """

    terms: Array | None = None
    """Of a sum, the root of the sum of its summands' squares: what it would be about if they did
    not cancel. What scales and moves a sum does so to them; anything else has none."""

    @property
    def spread(self) -> Array:
        """The noise as an array; infinite where nothing is known of the value."""
        if self.noise is not None:
            return self.noise
        return np.abs(self.value) * self.unit if self.unit else NOTHING

    @property
    def highest(self) -> Array:
        """An upper bound of each element: value plus `spread`, or `top`."""
        upper = self.value + self.spread
        return upper if self.top is None else np.asarray(np.minimum(upper, self.top))

    @property
    def unsure(self) -> Array:
        """Where nothing is known of the value."""
        return ~np.isfinite(self.spread)

    def moved(self, move: Callable[[Array], Array]) -> NoisyArray:
        """The array after `move`, a rearrangement of elements, of value, noise and `top` alike."""
        noise = None if self.noise is None else move(self.noise)
        top = None if self.top is None else move(self.top)
        terms = None if self.terms is None else move(self.terms)
        return NoisyArray(move(self.value), noise, self.unit, top, self.shared, terms)

    def scaled(self, result: NoisyArray, by: NoisyArray) -> NoisyArray:
        """`result`, the product of this and `by`, with the `terms` of a sum that `by` scales."""
        if self.terms is None or by.value.ndim or not by.shared:
            return result
        return replace(result, terms=self.terms * np.abs(by.value))

    @property
    def certain(self) -> bool:
        """Whether nothing is rounded on the way to any element."""
        return self.noise is None and not self.unit

    @property
    def added(self) -> float:
        """A share of what was added up in a sum, beside which its noise is small or large.

        The gradient of what a softmax does not see, as of the bias of an attention's keys, is a sum
        of which all cancels: 0 in real numbers. Its noise is as large as it is, and still small
        beside what was added up, which is what a wrong sum would come to.
        """
        if self.terms is None:
            return 0.0
        most = np.max(self.terms, where=np.isfinite(self.terms), initial=0.0)
        return float(CANCELLED * most)

    @property
    def size(self) -> float:
        """What its noise is small or large beside: its largest value, or what was `added`."""
        largest = np.max(np.abs(self.value), where=np.isfinite(self.value), initial=0.0)
        return max(float(largest), self.added)


def exactly(value: Array) -> NoisyArray:
    """A value without noise, in float64: both programs get it alike."""
    wide = value if value.dtype == np.bool_ else value.astype(np.float64)
    return NoisyArray(wide, shared=True)


def stored(value: Array, dtype: DType) -> NoisyArray:
    """A value that is known as well as its element type can hold it."""
    exact = exactly(value)
    # A mask in floats is a truth value: no program gets another number than 0 or 1 for it.
    if dtype not in UNIT or not np.isfinite(exact.value).all() or _are_truths(exact.value):
        return exact
    return NoisyArray(exact.value, None, UNIT[dtype], shared=True)


def has_few_digits(value: Array) -> bool:
    """Whether all values are such as f16 holds, so that wider types round no sum of two."""
    # Most arrays are told by their first few values.
    with np.errstate(all="ignore"):
        return all(
            np.array_equal(part, part.astype(np.float16).astype(value.dtype), equal_nan=True)
            for part in (value.reshape(-1)[:8], value)
        )


def _are_truths(value: Array) -> bool:
    """Whether all values are 0 or 1."""
    # The first value tells nearly all inputs apart, without a pass over all of them.
    first = value.reshape(-1)[:1]
    return bool(np.all((first == 0) | (first == 1)) and np.all((value == 0) | (value == 1)))


def stored_inputs(program: Program, inputs: Sequence[Array]) -> list[NoisyArray]:
    """The inputs of a program as `stored` in memory."""
    return [stored(x, term.dtype) for x, term in zip(inputs, program.inputs, strict=True)]


def settled(value: Array, noise: Array, unsure: Callable[[], Array]) -> NoisyArray:
    """The value with its noise.

    Infinities and NaN are certain unless `unsure` operands made them.
    """
    # The common case, tested first: the masks below cost as much as the operation.
    if np.isfinite(noise).all():
        return NoisyArray(value, noise)
    finite = np.isfinite(value)
    # Noise is NaN where ∞ met 0 or ∞: the value says nothing there.
    left = np.where(np.isnan(noise), np.inf, noise)
    return NoisyArray(value, np.where(finite, left, np.where(unsure(), np.inf, 0.0)))


def any_unsure(*operands: NoisyArray) -> Array:
    """Where any of the operands is `unsure`."""
    unsure: Array = np.zeros((), np.bool_)
    for operand in operands:
        unsure = unsure | operand.unsure
    return unsure


def counted(measured: NoisyArray, dtype: DType) -> NoisyArray:
    """What is known of a value of `dtype`: a whole number has no noise below a half."""
    if dtype is not DType.I32 or measured.noise is None:
        return measured
    # What a kernel accumulates of whole numbers may be a mean of them.
    certain = (measured.noise < 0.5) & (np.rint(measured.value) == measured.value)
    return replace(measured, noise=np.where(certain, 0.0, measured.noise))


def remembered(measured: NoisyArray, dtype: DType) -> NoisyArray:
    """What is known of a value after it was rounded to `dtype` and stored."""
    if dtype is DType.I32:
        # A mean of whole numbers is stored as one.
        whole = np.array_equal(measured.value, np.trunc(measured.value))
        return counted(measured, dtype) if whole else _truncated(measured)
    unit = UNIT.get(dtype)
    if unit is None or measured.value.dtype == np.bool_:
        return measured
    if measured.noise is None:
        # What is stored already, and only moved, stays the object that it is: see `compare`.
        if measured.unit >= unit:
            return measured
        # Integers and literals often fit the type; their sums stay exact then, and differences are
        # held to nothing.
        if not measured.unit and _holds(dtype, measured.value):
            return measured
        return NoisyArray(measured.value, None, unit)
    rounding = np.maximum(np.abs(measured.value) * unit, LEAST[dtype])
    # Rounding leaves zeros, infinities and NaN as they are, and certain values that the type holds.
    unrounded = (measured.value == 0) | ~np.isfinite(measured.value)
    certain = (measured.noise == 0) & ~unrounded
    if certain.any():
        unrounded |= certain & (rounded(measured.value, dtype) == measured.value)
    noise = measured.noise + np.where(unrounded, 0.0, rounding)
    end = _near_the_end(measured.value, noise, MOST[dtype])
    if not end.any():
        return NoisyArray(measured.value, noise, top=measured.top, terms=measured.terms)
    # A value near -MOST may become -inf or not; either way it stays this low, which a softmax's
    # maximum needs to know: mask constants are such values.
    top = np.where(end & (measured.value < 0), measured.value + END * noise, np.inf)
    if measured.top is not None:
        top = np.minimum(top, measured.top)
    return NoisyArray(measured.value, np.where(end, np.inf, noise), top=top)


def _near_the_end(value: Array, noise: Array, most: float) -> Array:
    """Where rounding decides whether a value overflows: within `END` noises of `most`."""
    size = np.abs(value)
    # Few tensors hold values near the end of their type.
    if not np.any(size > most / 2):
        return np.zeros((), np.bool_)
    return np.asarray((noise > 0) & (np.abs(size - most) <= END * noise))


def _holds(dtype: DType, value: Array) -> bool:
    """Whether all values are values of `dtype`, so that storing them rounds nothing."""
    return bool(np.array_equal(rounded(value, dtype), value, equal_nan=True))


_PLAIN = Floats(np.float64)
_ROOT = 2.0**-26
"""The relative step for numerical slopes: the square root of float64's unit."""


class Noise:
    """The `Algebra` on `NoisyArray`, where each operation rounds by at most `unit`.

    Before matrices are multiplied, their elements are rounded by at most `product_unit`. `least` is
    the smallest number of the type, below which relative error means nothing.
    """

    def __init__(self, unit: float, least: float, product_unit: float = 0.0) -> None:
        self.unit = unit
        self.least = least
        self.product_unit = product_unit

    def _rounding(self, value: Array) -> Array:
        """The noise of rounding `value`: relative, and `least` for subnormal numbers."""
        size = np.abs(value)
        noise = size * self.unit
        small = size < self.least / self.unit
        # Below least/unit a number is subnormal: its rounding error is absolute.
        return noise + (small & (size > 0)) * self.least if small.any() else noise

    def _counts(self, value: Array, *operands: NoisyArray) -> bool:
        """Whether `value` is a small whole number, of certain ones.

        Truth values and places are counted, multiplied and compared; nothing is rounded there. What
        is added to a large number may be rounded on purpose.
        """
        if not all(operand.certain for operand in operands):
            return False
        with np.errstate(all="ignore"):
            return bool(np.all(np.abs(value) <= COUNTED) and np.all(value == np.rint(value)))

    def _underflow(self, value: Array, nonzero: Callable[[], Array]) -> Array:
        """The noise of zeros that are `nonzero` in real numbers: results too small for the type."""
        zero = value == 0
        return (zero & nonzero()) * self.least if zero.any() else NOTHING

    def _computed(self, value: Array, noise: Array, *operands: NoisyArray) -> NoisyArray:
        """A result with the propagated `noise` and that of its own rounding."""
        if self._counts(value, *operands):
            return NoisyArray(value)
        result = settled(value, noise + self._rounding(value), lambda: any_unsure(*operands))
        return self._kept(result, *operands)

    def _kept(self, result: NoisyArray, *operands: NoisyArray) -> NoisyArray:
        """A sum or product, `shared` if its operands are and none has more digits than f16."""
        shared = all(operand.shared for operand in operands) and all(
            map(has_few_digits, [result.value, *(operand.value for operand in operands)])
        )
        return replace(result, shared=True) if shared else result

    def _risky(self, value: Array, noise: Array, risky: Array, *operands: NoisyArray) -> NoisyArray:
        """A result that is unsure where `risky`: where the noise decides what the value is."""
        whole = np.where(risky, np.inf, noise + self._rounding(value))
        return settled(value, whole, lambda: any_unsure(*operands) | risky)

    def constant(self, value: Fraction | float) -> NoisyArray:
        """A literal: exact if float64 holds it, else known to `unit`."""
        number = float(value)
        unit = 0.0 if number == value else self.unit
        return NoisyArray(np.asarray(number), None, unit, shared=True)

    def iota(self, shape: Sequence[Number], axis: int) -> NoisyArray:
        return NoisyArray(_PLAIN.iota(shape, axis), shared=True)

    def add(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        """Noises add."""
        return self._computed(x.value + y.value, x.spread + y.spread, x, y)

    def subtract(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        """Noises add, except in `x - x`, which is 0 for certain."""
        # The same object is the same term, whose rounding cancels exactly.
        noise = NOTHING if x is y else x.spread + y.spread
        difference = self._computed(x.value - y.value, noise, x, y)
        # An upper bound of x bounds x - y: the softmax shift keeps masked scores low.
        return (
            difference
            if x.top is None
            else replace(difference, top=x.highest - y.value + END * y.spread)
        )

    def multiply(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        """`|x|·dy + |y|·dx`, or the relative units where neither has a noise array."""
        value = x.value * y.value
        if x.noise is None and y.noise is None:
            # Relative errors add under multiplication, without two more arrays.
            noise = np.abs(value) * (x.unit + y.unit)
        else:
            noise = np.abs(x.value) * y.spread + np.abs(y.value) * x.spread
        gone = self._underflow(value, lambda: (x.value != 0) & (y.value != 0))
        product = self._computed(value, noise + gone, x, y)
        return y.scaled(x.scaled(product, y), x)

    def divide(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        """`(dx + |x/y|·dy)/|y|`; unsure where the noise of y reaches half of it."""
        if y.certain and y.value.ndim == 0 and y.value == 1:
            return x
        value, size = x.value / y.value, np.abs(y.value)
        if x is y and not np.any(x.unsure):
            return NoisyArray(value)  # 1, or 0/0
        # First order fails where the divisor may be near zero.
        risky = (y.spread > 0) & (2 * y.spread >= size)
        if y.shared:
            # Every program has this zero.
            risky &= size > 0
        noise = (x.spread + np.abs(value) * y.spread) / size
        gone = self._underflow(value, lambda: (x.value != 0) & np.isfinite(y.value))
        quotient = self._risky(value, noise + gone, risky, x, y)
        if x.terms is None:
            return quotient
        return x.scaled(quotient, NoisyArray(1 / y.value, shared=y.shared))

    def negative(self, x: NoisyArray) -> NoisyArray:
        return NoisyArray(-x.value, x.noise, x.unit, shared=x.shared)

    def exp(self, x: NoisyArray) -> NoisyArray:
        """The rise of `exp` over the noise of its operand; see `_exp_rise`."""
        value = np.exp(x.value)
        gone = self._underflow(value, lambda: np.isfinite(x.value))
        return self._computed(value, _exp_rise(x) + gone, x)

    def log(self, x: NoisyArray) -> NoisyArray:
        """`dx/|x|`; unsure where the noise reaches half of x."""
        size = np.abs(x.value)
        # As for a divisor: the logarithm has no bounded slope near zero.
        risky = (x.spread > 0) & (2 * x.spread >= size)
        if x.shared:
            risky &= size > 0
        return self._risky(np.log(x.value), x.spread / size, risky, x)

    def sqrt(self, x: NoisyArray) -> NoisyArray:
        """The reach of the root from `x - dx` to `x + dx`."""
        value, spread = np.sqrt(x.value), x.spread
        reach = np.sqrt(x.value + spread) - np.sqrt(np.maximum(x.value - spread, 0))
        # Below zero by no more than its noise, the radicand may be zero in truth.
        return self._risky(value, reach, (x.value < 0) & (spread >= -x.value), x)

    def absolute(self, x: NoisyArray) -> NoisyArray:
        return NoisyArray(np.abs(x.value), x.noise, x.unit, shared=x.shared)

    def maximum(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        return self._either(np.maximum(x.value, y.value), x, y)

    def minimum(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        return self._either(np.minimum(x.value, y.value), x, y)

    def _either(self, value: Array, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        """A maximum or minimum: the noise of those operands that may be chosen."""
        if x is y:
            return x
        if x.noise is None and y.noise is None and x.unit == y.unit:
            return NoisyArray(value, None, x.unit, shared=x.shared and y.shared)
        noise = np.maximum(_competing(x, value), _competing(y, value))
        if not np.any(noise):
            return NoisyArray(value)  # all of them certain
        return settled(value, np.broadcast_to(noise, value.shape), lambda: any_unsure(x, y))

    def compare(self, how: str, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        """A truth value, unsure where the operands are within their noise."""
        value = _PLAIN.compare(how, x.value, y.value)
        if x is y or (x.shared and y.shared):
            return NoisyArray(value, shared=True)
        noise = x.spread + y.spread
        # Negated, so that a NaN distance counts as open.
        return open_where(value, (noise > 0) & ~(_distance(x.value, y.value) > noise))

    def select(self, where: NoisyArray, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        """The chosen operand.

        Where the choice is unsure, the distance to the other one is noise.
        """
        value = np.where(where.value, x.value, y.value)
        chosen = np.where(where.value, x.spread, y.spread)
        if where.noise is None:
            if x.noise is None and y.noise is None and x.unit == y.unit:
                shared = where.shared and x.shared and y.shared
                return NoisyArray(value, None, x.unit, shared=shared)
            return NoisyArray(value, np.broadcast_to(chosen, value.shape))
        # Either branch may be taken: the value is within the distance of both.
        between = _distance(x.value, y.value) + np.maximum(x.spread, y.spread)
        noise = np.where(where.noise > 0, between, chosen)
        noise = np.broadcast_to(noise, value.shape)
        return NoisyArray(value, np.where(np.isnan(noise), np.inf, noise))

    def function(self, function: Function, *arguments: NoisyArray) -> NoisyArray:
        """A function, with the noise that each argument contributes."""
        values = [argument.value for argument in arguments]
        value = _PLAIN.function(function, *values)
        if function.integral and all(argument.shared for argument in arguments):
            return NoisyArray(value, shared=True)
        noise, open_ = NOTHING, np.zeros((), np.bool_)
        # One value in two places is moved in both: `rem(x, x)` is 0 whatever x is.
        for argument in dict.fromkeys(arguments):
            if argument.noise is not None or argument.unit:
                places = [place for place, other in enumerate(arguments) if other is argument]
                through, opened = self._argument_noise(
                    function, values, value, places, argument.spread
                )
                noise, open_ = noise + through, open_ | opened
        if function.integral and not np.any(open_):
            # A step is not rounded, and is no step where the argument is near none.
            if not np.any(noise):
                return NoisyArray(value)
            return settled(value, noise, lambda: any_unsure(*arguments))
        # 1 to any power is 1, in whatever way it is computed, and so is any number to that of 0.
        if function.name == "pow" and np.all(value == 1) and not np.any(noise):
            return NoisyArray(value)
        if function.positive:
            noise = noise + self._underflow(value, lambda: _all_finite(values))
        return self._risky(value, noise, open_, *arguments)

    def _argument_noise(
        self,
        function: Function,
        values: list[Array],
        value: Array,
        places: Sequence[int],
        spread: Array,
    ) -> tuple[Array, Array]:
        """What the noise of one argument becomes, and where it decides whether the value is finite.

        It is the larger of the change over `spread` and `spread` times the slope: the change alone
        would miss what is too small to be added to the argument.
        """
        argument = values[places[0]]

        def ends(reach: Array) -> tuple[Array, Array]:
            low, high = (
                _PLAIN.function(
                    function,
                    *(moved if at in places else operand for at, operand in enumerate(values)),
                )
                for moved in (argument - reach, argument + reach)
            )
            return low, high

        def change(low: Array, high: Array) -> Array:
            return np.asarray(np.maximum(np.abs(high - value), np.abs(low - value)))

        # One spacing further, since a spread below half a unit of the argument would round to no
        # step at all.
        low, high = ends(np.where(spread > 0, spread + np.spacing(np.abs(argument)), 0.0))
        open_ = ~np.isfinite(value) & (np.isfinite(low) | np.isfinite(high))
        near = change(low, high)
        # A step function has no slope: it changes by whole steps or not at all.
        if function.integral:
            return near, open_
        # The best step for a one-sided difference balances truncation against rounding at about
        # √unit.
        reach = np.maximum(spread, np.abs(argument) * _ROOT)
        slope = np.where(reach > 0, change(*ends(reach)) / reach, 0.0)
        return np.where(np.isfinite(argument), np.maximum(near, slope * spread), 0.0), open_

    def sum(self, x: NoisyArray, axes: Sequence[int]) -> NoisyArray:
        """Noises of many summands add as independent ones; the sum is rounded `roundings` times."""
        value = _PLAIN.sum(x.value, axes)
        if x.value.shape == value.shape:
            return x
        if x.certain and self._counts(_PLAIN.sum(np.abs(x.value), axes), x):
            return NoisyArray(value)
        squares = _PLAIN.sum(x.value * x.value, axes)
        rounding = self.unit * roundings(x.value.size, value.size)
        if x.noise is None:
            # Each summand is rounded on its way up the tree: independent errors, so squares add.
            # Linear addition would overestimate by √n and let wrong programs pass.
            noise = np.sqrt(squares * (rounding**2 + x.unit**2))
        else:
            noise = np.sqrt(_PLAIN.sum(x.noise * x.noise, axes) + squares * rounding**2)
        total = settled(value, noise + np.abs(value) * rounding, lambda: _any_along(x, axes))
        return replace(self._kept(total, x), terms=np.sqrt(squares))

    def largest(self, x: NoisyArray, axes: Sequence[int]) -> NoisyArray:
        """The noise of those elements that may be the maximum; see `_competing`."""
        value = _PLAIN.largest(x.value, axes)
        if x.value.shape == value.shape:
            return x
        if x.noise is None:
            return NoisyArray(value, None, x.unit, shared=x.shared)
        noise = np.max(_competing(x, value), axis=tuple(axes), keepdims=True, initial=0.0)
        return settled(value, noise, lambda: _any_along(x, axes))

    def matmul(self, x: NoisyArray, y: NoisyArray) -> NoisyArray:
        """The noise of a sum of products, each of which is rounded too."""
        value = x.value @ y.value
        if self._counts(value, x, y) and self._counts(np.abs(x.value) @ np.abs(y.value), x, y):
            return NoisyArray(value)
        rounding = self.unit * roundings(x.value.shape[-1], 1)
        crossed = np.sqrt(
            _product_variance(x, y, math.hypot(rounding, math.sqrt(2) * self.product_unit))
        )
        gone = self._underflow(value, lambda: crossed > 0)
        noise = crossed + np.abs(value) * rounding + gone
        product = settled(value, noise, lambda: _any_along(x, (-1,)) | _any_along(y, (-2,)))
        return self._kept(product, x, y)

    def size(self, x: NoisyArray, axis: int) -> NoisyArray:
        return NoisyArray(_PLAIN.size(x.value, axis), shared=True)

    def broadcast(self, x: NoisyArray, shape: Sequence[Number]) -> NoisyArray:
        if x.value.shape == tuple(shape):
            return x  # the same object: see `subtract` and `compare`
        return x.moved(lambda array: _PLAIN.broadcast(array, shape))

    def reshape(self, x: NoisyArray, shape: Sequence[Number]) -> NoisyArray:
        if x.value.shape == tuple(shape):
            return x  # the same object: see `subtract` and `compare`
        return x.moved(lambda array: _PLAIN.reshape(array, shape))

    def transpose(self, x: NoisyArray, axes: Sequence[int]) -> NoisyArray:
        moving = [axis for axis in axes if x.value.shape[axis] != 1]
        # Where axes of size one change places, no element does.
        if moving == sorted(moving) and x.value.shape == tuple(x.value.shape[at] for at in axes):
            return x  # the same object: see `subtract` and `compare`
        return x.moved(lambda array: _PLAIN.transpose(array, axes))

    def slice(self, x: NoisyArray, axis: int, start: Number, stop: Number, step: int) -> NoisyArray:
        return x.moved(lambda array: _PLAIN.slice(array, axis, start, stop, step))

    def concatenate(self, xs: Sequence[NoisyArray], axis: int) -> NoisyArray:
        value = _PLAIN.concatenate([x.value for x in xs], axis)
        if len(xs) == 1:
            return xs[0]
        if all(x.noise is None and x.unit == xs[0].unit for x in xs):
            return NoisyArray(value, None, xs[0].unit, shared=all(x.shared for x in xs))
        parts = [np.broadcast_to(x.spread, x.value.shape) for x in xs]
        return NoisyArray(value, _PLAIN.concatenate(parts, axis))

    def pad(
        self, x: NoisyArray, axis: int, low: Number, high: Number, value: Fraction
    ) -> NoisyArray:
        padded = _PLAIN.pad(x.value, axis, low, high, value)
        if x.noise is None:
            return NoisyArray(padded, None, x.unit, shared=x.shared)
        return NoisyArray(padded, _PLAIN.pad(x.noise, axis, low, high, Fraction(0)))

    def diagonal(self, x: NoisyArray) -> NoisyArray:
        return x.moved(_PLAIN.diagonal)

    def windows(
        self, x: NoisyArray, axis: int, window: Number, stride: int, dilation: int
    ) -> NoisyArray:
        return x.moved(lambda array: _PLAIN.windows(array, axis, window, stride, dilation))

    def take(self, x: NoisyArray, indices: NoisyArray, axis: int) -> NoisyArray:
        """The chosen elements, unsure where the place is."""
        moved = x.moved(lambda array: _PLAIN.take(array, indices.value, axis))
        if not np.any(indices.spread):
            return moved
        open_ = np.broadcast_to(indices.spread > 0, moved.value.shape)
        return NoisyArray(moved.value, np.where(open_, np.inf, moved.spread))

    def scatter_add(
        self, x: NoisyArray, indices: NoisyArray, updates: NoisyArray, axis: int
    ) -> NoisyArray:
        """By comparison: what is added where is a sum like any other."""
        return scatter_add_by_comparison(self, x, indices, updates, axis)

    def argmax(self, x: NoisyArray, axis: int) -> NoisyArray:
        """A place, unsure where noise may make another element the largest."""
        value = _PLAIN.argmax(x.value, axis)
        if x.certain or x.shared:
            return NoisyArray(value, shared=x.shared)
        chosen = _PLAIN.iota(x.value.shape, axis) == value
        rivals = np.where(chosen, -np.inf, x.value + x.spread)
        least = _PLAIN.take(x.value - x.spread, value, axis)
        open_ = np.max(rivals, axis=axis, keepdims=True) > least
        # The first that is infinite or no number is chosen for certain where nothing is unsure.
        return open_where(value, open_ | _any_along(x, (axis,)))

    def cumulative(self, x: NoisyArray, axis: int, reduction: str, reverse: bool) -> NoisyArray:
        """As `sum` and `largest` up to each place."""

        def running(array: Array, how: str) -> Array:
            return _PLAIN.cumulative(array, axis, how, reverse)

        value, spread = running(x.value, reduction), np.broadcast_to(x.spread, x.value.shape)
        if reduction == "max":
            noise = running(spread, "max")
        else:
            rounding = self.unit * roundings(x.value.shape[axis], 1)
            squares = running(spread * spread + (x.value * rounding) ** 2, "sum")
            noise = np.sqrt(squares) + np.abs(value) * rounding
        # Without a noise array it is one truth value for all elements.
        unsure = np.broadcast_to(x.unsure, x.value.shape).astype(np.float64)
        return settled(value, noise, lambda: running(unsure, "max") > 0)

    def cast(self, x: NoisyArray, dtype: str) -> NoisyArray:
        """Casts to integers and truth values are exact, or unsure where noise crosses a step."""
        value = _PLAIN.cast(x.value, dtype)
        if dtype in (DType.BOOL, DType.I32) and x.shared:
            return NoisyArray(value, shared=True)
        if dtype == DType.BOOL:
            return open_where(value, (x.spread > 0) & (np.abs(x.value) <= x.spread))
        if dtype == DType.I32:
            return _truncated(x)
        # A narrower type rounds, and what it rounds is another number.
        type_ = DType(dtype)
        wide = UNIT.get(type_, 1.0) <= x.unit or (x.certain and _holds(type_, value))
        return NoisyArray(value, x.noise, x.unit, shared=x.shared and wide)

    def shape(self, x: NoisyArray) -> tuple[int, ...]:
        return x.value.shape


def _truncated(x: NoisyArray) -> NoisyArray:
    """Whole numbers towards zero, unsure where the noise reaches another one."""
    low, high = np.trunc(x.value - x.spread), np.trunc(x.value + x.spread)
    return open_where(np.trunc(x.value), low != high)


def open_where(value: Array, open_: Array) -> NoisyArray:
    """A truth value or whole number, unsure where it is `open_`."""
    return NoisyArray(value, np.where(open_, np.inf, 0.0) if np.any(open_) else None)


def _distance(x: Array, y: Array) -> Array:
    """The distance of `x` and `y`, which may be truth values: NumPy subtracts none of those."""
    return np.asarray(np.abs(np.subtract(x, y, dtype=np.float64)))


def _all_finite(values: Sequence[Array]) -> Array:
    """Where all of the broadcast `values` are finite."""
    return np.asarray(np.all(np.isfinite(np.broadcast_arrays(*values)), axis=0))


def _competing(x: NoisyArray, chosen: Array) -> Array:
    """The noise of operands that may be the `chosen` maximum: of one far from it, none counts."""
    # An operand more than END noises below the maximum is not chosen in either program.
    far = _distance(x.value, chosen) > END * x.spread
    if x.top is not None:
        far |= x.top < chosen
    return np.where(far, 0.0, x.spread)


def _exp_rise(x: NoisyArray) -> Array:
    """By how much exp rises over the noise of its operand, be that large or small."""
    # expm1 is accurate for small noise; for large noise its product with exp(x) would overflow
    # where exp(x + noise) does not.
    near = np.exp(x.value) * np.expm1(x.spread)
    return np.where(x.spread > 1, np.exp(x.highest) - np.exp(x.value), near)


def roundings(count: int, into: int) -> float:
    """How often a pairwise sum of `count` elements `into` so many results is rounded.

    Log2 of the ratio.
    """
    return max(1.0, math.log2(max(count, 1) / max(into, 1)))


def _product_variance(x: NoisyArray, y: NoisyArray, rounding: float) -> Array:
    """The squared noise of all products of rows and columns, added up."""
    left, right = x.value * x.value, y.value * y.value
    # Relative errors of a product: its own rounding, and the unit of an operand without a noise
    # array.
    variance = rounding**2 + y.unit**2 if y.noise is None else rounding**2
    if x.noise is None:
        total = (left @ right) * (variance + x.unit**2)
    else:
        total = (x.noise * x.noise + left * variance) @ right
    return np.asarray(total if y.noise is None else total + left @ (y.noise * y.noise))


def _any_along(x: NoisyArray, axes: Sequence[int]) -> Array:
    """Where any element along `axes` is unsure."""
    unsure = np.broadcast_to(x.unsure, x.value.shape)
    return np.asarray(np.any(unsure, axis=tuple(axes), keepdims=True))


_DOUBLE = Noise(UNIT[DType.F64], LEAST[DType.F64])
NOISES: dict[Working, Noise] = {
    np.float32: Noise(UNIT[DType.F32], LEAST[DType.F32]),
    np.float64: _DOUBLE,
}


def _as_is(measured: NoisyArray, _: Any) -> NoisyArray:
    """A literal, which needs no conversion."""
    return measured


REAL: RoundingMachine[NoisyArray] = RoundingMachine(
    algebra=lambda _: _DOUBLE, meet=_as_is, store=counted
)
"""Runs a program as a function of real numbers; the noise is that of float64."""

TYPED: RoundingMachine[NoisyArray] = RoundingMachine(
    algebra=NOISES.__getitem__, meet=_as_is, store=remembered
)
"""Runs a program in float64; the noise is that of the element types that it declares."""

_ROUGH: dict[Working, Noise] = {
    np.float32: Noise(UNIT[DType.F32], LEAST[DType.F32], TENSOR_FLOAT),
    np.float64: _DOUBLE,
}

TYPED_ROUGHLY: RoundingMachine[NoisyArray] = RoundingMachine(
    algebra=_ROUGH.__getitem__, meet=_as_is, store=remembered
)
"""Like `TYPED`, on matrix units that round float32 operands to TF32."""
