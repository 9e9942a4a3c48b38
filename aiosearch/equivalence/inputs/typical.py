"""Typical inputs: such as a program is meant for, where other distributions say little of it.

Problem: weights of size one saturate the softmax of a transformer, so that rounding decides what it
gives; outside of its support a density is not finite; a label of -3 is no label. What a program is
meant for is nowhere written down.

Method: `uses` says which inputs are weights, whose normal values are divided by the root of
their fan-in, and which are labels. If nearly all of the program's values say something on
these (`telling`), that is all. Else other ranges of `_FLOATS` and `_WHOLES` are tried: one for all
inputs, then one for each input in turn, as long as more of the values say something.

Example: of `where((u < 0) | (u > 1), -inf, -x**2).sum(-1)` hardly a row is finite where `u` is
normal, and every one where `u` is between 0 and 1.

Invariant: the ranges depend on the program alone, and the values on program, distribution and
seed. No range reaches beyond 8: a program that rounds on purpose, by adding a large number, is not
given numbers beside which that is small. Cost: one run with noise, and some ten for each input
where that is not enough; a program that is large is tried at a reduced shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np

from ...tensor.analysis.abstract_interpretation import sizes
from ...tensor.analysis.generalise import generalise
from ...tensor.errors import TensorError
from ...tensor.floats import Array
from ...tensor.terms import Program
from ...tensor.types import EXACT, WHOLE, DType, TensorType
from ..rounding.machine import UNIT, execute, rounded
from ..rounding.noise import TYPED, NoisyArray, stored_inputs
from .distributions import InputDraw, input_draw, numbers
from .uses import input_uses

TYPICAL = ("typical", "typical-uneven", "typical-small")
"""Names of the distributions of typical inputs: as they are, of uneven size, and small."""

_ENOUGH = 0.95
"""The share of each output's elements that have to say something, if ranges can be found."""
_MOST_ELEMENTS = 1 << 17
"""Programs whose values have more elements in all are tried at a reduced shape, or not at all."""
_MOST_TRIED = 150
"""How many choices of ranges are tried."""


@dataclass(frozen=True)
class InputRange:
    """What an input is drawn from."""

    low: float
    high: float
    normal: bool = False
    """Whether `low` and `high` are one deviation below and above the mean."""
    whole: bool = False
    """Whether floats are whole numbers too, `high` included, as those of a whole type are."""
    shares: int | None = None
    """The axis along which the values add up to 1."""

    def __str__(self) -> str:
        if self.shares is not None:
            return f"shares along axis {self.shares}"
        if self.normal:
            return f"normal by {self.high:.3g}"
        return f"{'whole ' * self.whole}between {self.low:g} and {self.high:g}"

    def drawn(self, draw: InputDraw, distribution: str) -> Array:
        """Values for one of `TYPICAL`; whole ones for a whole type, up to `high` included."""
        if self.whole or draw.dtype in WHOLE:
            return self._whole(draw, distribution)
        if self.normal:
            return np.asarray(draw.normal() * _size(draw, distribution) * self.high)
        part = draw.uniform()
        if self.shares is not None:
            return _shares(draw, distribution, self.shares)
        if distribution == "typical-uneven":
            part = part**2
        if distribution == "typical-small":
            part = (1 + 2 * part) / 4
        return np.asarray(self.low + part * (self.high - self.low))

    def _whole(self, draw: InputDraw, distribution: str) -> Array:
        """Whole numbers, of which half are the lowest where they are uneven."""
        low, high = int(self.low), int(self.high)
        if distribution == "typical-small":
            # At least two numbers, or what an input means would not be seen.
            high = max((low + high) // 2, min(low + 1, high))
        drawn = draw.whole(low, high)
        if distribution == "typical-uneven":
            drawn = np.where(draw.chance(0.5), drawn.dtype.type(self.low), drawn)
        return np.asarray(drawn)


def _size(draw: InputDraw, distribution: str) -> Array | float:
    """By what normal values are scaled."""
    if distribution == "typical-uneven":
        return np.asarray(np.exp2(draw.uniform() * 3 - 2))
    return 1 / 8 if distribution == "typical-small" else 1.0


def _shares(draw: InputDraw, distribution: str, axis: int) -> Array:
    """Positive values that add up to 1 along an axis."""
    weights = -np.log1p(-draw.uniform())
    if distribution == "typical-uneven":
        weights = weights**2
    if distribution == "typical-small":
        weights = 1 + weights
    return np.asarray(weights / np.sum(weights, axis=axis, keepdims=True))


Ranges: TypeAlias = tuple[InputRange, ...]

_NORMAL = InputRange(-1.0, 1.0, normal=True)
_FLOATS = (
    InputRange(0.125, 2.0),
    InputRange(1 / 16, 15 / 16),
    InputRange(1.125, 4.0),
    InputRange(-2.0, -0.125),
    InputRange(-1 / 8, 1 / 8, normal=True),
    InputRange(-1 / 64, 1 / 64, normal=True),
    InputRange(4.0, 8.0),
    InputRange(0.0, 1.0, whole=True),
    InputRange(0.0, 8.0, whole=True),
    InputRange(0.0, 1.0, shares=-1),
    InputRange(0.0, 1.0, shares=0),
)
"""For logarithms, probabilities, inverse hyperbolic functions, deep products, masks and counts.

None is a number throughout: whatever that made of an input would be agreed upon.
"""
_WHOLES = (InputRange(0, 8), InputRange(0, 1), InputRange(1, 8))
"""For counts, truth values and divisors."""
_ANY_WHOLE = InputRange(-8, 8)


def typical_inputs(program: Program, distribution: str, seed: int) -> list[Array]:
    """A value of each input from one of `TYPICAL`, rounded to its type, in its working type."""
    types = [term.type for term in program.inputs]
    return in_ranges(types, typical_ranges(program), distribution, seed)


def in_ranges(
    types: Sequence[TensorType], ranges: Sequence[InputRange], distribution: str, seed: int
) -> list[Array]:
    """A value of each type from its range, in one of `TYPICAL`."""
    return [
        _value(input_draw(type_, distribution, seed, at), range_, distribution)
        for at, (type_, range_) in enumerate(zip(types, ranges, strict=True))
    ]


def _value(draw: InputDraw, range_: InputRange, distribution: str) -> Array:
    if draw.dtype is DType.BOOL:
        return draw.chance(0.5)
    return rounded(range_.drawn(draw, distribution), draw.dtype)


@lru_cache(maxsize=64)
def typical_ranges(program: Program) -> tuple[InputRange, ...]:
    """What each input of `program` is typically drawn from."""
    start = _by_use(program)
    tried = tried_at(program)
    if tried is None:
        return start
    first = _by_use(tried)
    types = [term.type for term in tried.inputs]
    best = RangeSearch(types, partial(_telling_shares, tried)).best(first)
    # What was changed is taken over; a scale by fan-in is that of the real shape.
    return tuple(
        usual if range_ == before else range_
        for usual, before, range_ in zip(start, first, best, strict=True)
    )


def ranges_by_shape(types: Sequence[TensorType]) -> tuple[InputRange, ...]:
    """What inputs are drawn from where nothing but their types is known.

    Matrices behind the first input are taken for weights.
    """
    ranges = []
    for at, type_ in enumerate(types):
        shape = numbers(type_)
        fan_in = shape[-2] if at and len(shape) > 1 else 1
        ranges.append(_ANY_WHOLE if type_.dtype in EXACT else _normal(fan_in))
    return tuple(ranges)


def _by_use(program: Program) -> tuple[InputRange, ...]:
    """Weights by their fan-in, labels by the number of places, all others as usual."""
    uses = input_uses(program)
    ranges = []
    for at, term in enumerate(program.inputs):
        if term.dtype in EXACT:
            places = uses.places.get(at, 0)
            ranges.append(InputRange(0, places - 1) if places else _ANY_WHOLE)
        else:
            ranges.append(_normal(uses.fan_in.get(at, 1)))
    return tuple(ranges)


def _normal(fan_in: int) -> InputRange:
    """Normal values, products with which add up to the size of what they are multiplied with."""
    scale = max(fan_in, 1) ** -0.5
    return InputRange(-scale, scale, normal=True)


def tried_at(program: Program) -> Program | None:
    """The program at the shape that ranges are tried at, if there is one that is small enough."""
    if _elements(program) <= _MOST_ELEMENTS:
        return program
    try:
        (small,) = generalise([program]).reduced()
    except TensorError:
        return None
    return small if _elements(small) <= _MOST_ELEMENTS else None


def _elements(program: Program) -> int:
    """How many elements all values of a program have together."""
    return sum(math.prod(sizes(term)) for term in program.terms())


class RangeSearch:
    """Looks for ranges on which most of what is computed from inputs of these types is telling.

    `shares` gives for ranges the share of each output's elements that say something.
    """

    def __init__(
        self, types: Sequence[TensorType], shares: Callable[[Ranges], Sequence[float]]
    ) -> None:
        self._types = types
        self._shares = shares
        self._tried = 0

    def best(self, start: Ranges) -> Ranges:
        """`start` where it is good enough, else the best ranges that are found from it."""
        best, share = start, self._share(start)
        for ranges in self._alike(start):
            if share[0] >= _ENOUGH:
                return best
            best, share = self._better(best, share, ranges)
        before = None
        # Once more where the first pass found something: two inputs may need each other's change.
        while before is None or share > before:
            before = share
            for at, usual in enumerate(start):
                for range_ in self._choices(at, usual):
                    if share[0] >= _ENOUGH or self._tried >= _MOST_TRIED:
                        return best
                    changed = (*best[:at], range_, *best[at + 1 :])
                    best, share = self._better(best, share, changed)
        return best

    def _better(
        self, best: Ranges, share: tuple[float, float], ranges: Ranges
    ) -> tuple[Ranges, tuple[float, float]]:
        """The better of `best`, of which this `share` says something, and `ranges`."""
        if ranges == best:
            return best, share
        other = self._share(ranges)
        return (ranges, other) if other > share else (best, share)

    def _alike(self, start: Ranges) -> Iterator[Ranges]:
        """Each range for all inputs that are no whole numbers."""
        for range_ in _FLOATS:
            yield tuple(
                usual if type_.dtype in EXACT else self._fitted(at, range_)
                for at, (usual, type_) in enumerate(zip(start, self._types, strict=True))
            )

    def _choices(self, at: int, usual: InputRange) -> Iterator[InputRange]:
        """The ranges to try for one input."""
        dtype = self._types[at].dtype
        if dtype is not DType.BOOL:
            ranges = _WHOLES if dtype in EXACT else (_NORMAL, *_FLOATS)
            yield from (self._fitted(at, range_) for range_ in (usual, *ranges))

    def _fitted(self, at: int, range_: InputRange) -> InputRange:
        """`range_` where it needs no axis that the input does not have."""
        return _NORMAL if range_.shares is not None and not self._types[at].shape else range_

    def _share(self, ranges: Ranges) -> tuple[float, float]:
        """The share of the elements that say something: of the worst output, and of all."""
        self._tried += 1
        shares = self._shares(ranges)
        return min(shares), sum(shares) / len(shares)


def _telling_shares(program: Program, ranges: Ranges) -> list[float]:
    """The share of each output's elements that say something on inputs from `ranges`."""
    types = [term.type for term in program.inputs]
    inputs = stored_inputs(program, in_ranges(types, ranges, TYPICAL[0], 0))
    truth = execute(program, TYPED, inputs)
    return [telling(value, term.dtype) for value, term in zip(truth, program.outputs, strict=True)]


def telling(truth: NoisyArray, dtype: DType) -> float:
    """The share of a value's elements that are finite, and known to half of their digits."""
    value = truth.value
    if not value.size:
        return 1.0
    finite = np.isfinite(value)
    with np.errstate(all="ignore"):
        clear = truth.spread <= math.sqrt(UNIT.get(dtype, UNIT[DType.F64])) * truth.size
    return float(np.count_nonzero(finite & clear)) / value.size
