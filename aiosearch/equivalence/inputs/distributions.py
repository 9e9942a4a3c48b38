"""Named distributions of inputs, the same on every machine for the same seed.

Normal inputs alone miss most wrong rewrites: sums that cancel need `shifted` or `cancelling`, lost
maxima need `huge`, and a division by a norm needs `zeros`. `draw(types, "shifted", 3)` depends on
its arguments alone: each input has a PCG64 stream of seed, distribution and position.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tensor.errors import ShapeError
from ...tensor.floats import Array
from ...tensor.terms import Program
from ...tensor.types import EXACT, HALVES, WHOLE, DType, TensorType
from ..rounding.machine import rounded, working

_LARGE = {DType.F16: 2.0**3, DType.BF16: 2.0**10, DType.F32: 2.0**10, DType.F64: 2.0**10}
"""Factor of `large` and `huge`: products of two such values stay finite in each type."""
_TINY = {DType.F16: 2.0**-8, DType.BF16: 2.0**-30, DType.F32: 2.0**-30, DType.F64: 2.0**-100}
"""Factor of `tiny`: far below one, and above the type's subnormal numbers."""
_SHIFT = {DType.F16: 2.0, DType.BF16: 2.0**3, DType.F32: 2.0**10, DType.F64: 2.0**20}
"""Mean of `shifted`, above the spread of 1: subtracted squares lose twice its binary digits."""
_STEP = {DType.F16: 2.0**-7, DType.BF16: 2.0**-4, DType.F32: 2.0**-5, DType.F64: 2.0**-5}
"""Grid of `level`: `_LEVEL` steps and a few more or fewer are exact in the type."""
_LEVEL = {DType.F16: 192, DType.BF16: 192, DType.F32: 1793, DType.F64: 1793}
"""Centre of `level`, in steps."""
_UNEVEN = {DType.F16: 2, DType.BF16: 2, DType.F32: 8, DType.F64: 8}
"""The most steps by which `level` departs from its centre."""
_SPREAD = {DType.F16: 3.0, DType.BF16: 10.0, DType.F32: 10.0, DType.F64: 10.0}
"""Largest binary exponent of `mixed`, of either sign."""
_SPECIAL_SHARE = 1 / 16
"""Share of elements of `nans` and `infinities` that are not finite."""


PERIOD = 2**20 - 3
"""How many numbers are drawn for one input at most; a larger one repeats them.

Drawing takes ten times as long as anything else that is done to an input of 25 million elements.
What reads at a wrong place still reads another number, as this is a prime: no size of a tile, and
no number of rows of ordinary length, is a multiple of it.
"""


@dataclass(frozen=True)
class InputDraw:
    """A random stream, shape and element type: what a distribution draws one input from."""

    random: np.random.Generator
    shape: tuple[int, ...]
    dtype: DType

    def normal(self) -> Array:
        """Standard normal values in working precision."""
        precision = _precision(self.dtype)
        return _repeated(
            self.shape, lambda shape: self.random.standard_normal(shape, dtype=precision)
        )

    def uniform(self, precision: type[np.floating[Any]] = np.float64) -> Array:
        """Values from 0 to below 1."""
        return _repeated(self.shape, lambda shape: self.random.random(shape, precision))

    def whole(self, low: int, high: int) -> Array:
        """Whole numbers from `low` to `high`, both included."""
        precision = _precision(self.dtype)
        return _repeated(
            self.shape, lambda shape: self.random.integers(low, high + 1, shape).astype(precision)
        )

    def chance(self, share: float, shape: tuple[int, ...] | None = None) -> Array:
        """Truth values that are true with probability `share`."""
        wide = self.shape if shape is None else shape
        return _repeated(wide, lambda shape: np.less(self.random.random(shape, np.float32), share))


def _repeated(shape: tuple[int, ...], draw: Callable[[tuple[int, ...]], Array]) -> Array:
    """An array of `shape`, of which at most `PERIOD` elements are drawn."""
    if math.prod(shape) <= PERIOD:
        return draw(shape)
    return np.resize(draw((PERIOD,)), shape)


def _precision(dtype: DType) -> Any:
    """The NumPy type that values of `dtype` are drawn in."""
    return np.float32 if working(dtype) is np.float32 else np.float64


def _mixed(draw: InputDraw) -> Array:
    """Magnitudes spread evenly over binary exponents from -`_SPREAD` to `_SPREAD`."""
    spread = _SPREAD[draw.dtype]
    exponents = draw.uniform(np.float32) * (2 * spread) - spread
    return np.asarray(draw.normal() * np.exp2(exponents))


def _zeros(draw: InputDraw) -> Array:
    """Normal values with a quarter of the elements and of the rows zero, of either sign."""
    x = draw.normal()
    gone = draw.chance(0.25)
    if x.ndim:
        # Whole rows of zeros: norms, sums and maxima that divide become 0/0.
        gone |= draw.chance(0.25, (*draw.shape[:-1], 1))
    return np.where(gone, np.copysign(x.dtype.type(0), x), x)


def _equal(draw: InputDraw) -> Array:
    """One value throughout, so that maxima tie and variances vanish."""
    return np.full(draw.shape, draw.random.standard_normal(), _precision(draw.dtype))


def _powers(draw: InputDraw) -> Array:
    """Powers of two from 1/8 to 8 of either sign, whose products are exact."""
    signs = np.where(draw.chance(0.5), -1, 1)
    return signs * np.exp2(draw.whole(-3, 3))


def _cancelling(draw: InputDraw) -> Array:
    """Every second element along the last axis is the negative of the one before: sums cancel."""
    x = draw.normal()
    if x.ndim:
        x[..., 1::2] = -x[..., : x.shape[-1] - 1 : 2]
    return x


def _shifted(draw: InputDraw) -> Array:
    """Normal values around `_SHIFT`: what subtracts squares, as E[x²] - E[x]², loses its digits."""
    x = draw.normal()
    return np.asarray(x + x.dtype.type(_SHIFT[draw.dtype]))


def _level(draw: InputDraw) -> Array:
    """Values on a grid around `_LEVEL`: a program that takes differences first computes exactly.

    Sums of so few binary digits are not rounded. In half precision, where means would be, each
    value above the centre has a neighbour as far below. A quarter of the rows is the centre
    throughout.
    """
    dtype = draw.dtype
    steps = draw.whole(-_UNEVEN[dtype], _UNEVEN[dtype])
    if steps.ndim:
        if dtype in HALVES:
            steps[..., 1::2] = -steps[..., : steps.shape[-1] - 1 : 2]
            steps[..., steps.shape[-1] // 2 * 2 :] = 0
        alike = draw.chance(0.25, (*draw.shape[:-1], 1))
        # At least one row varies, or no output would depend on the inputs.
        alike.reshape(-1)[-1:] = False
        steps = np.where(alike, 0, steps)
    return np.asarray((steps + _LEVEL[dtype]) * _STEP[dtype])


def _huge(draw: InputDraw) -> Array:
    """Normal values with one element of each row scaled by `_LARGE`."""
    x = draw.normal()
    if x.ndim and x.size:
        rows = x.reshape(-1, x.shape[-1])
        where = draw.random.integers(0, x.shape[-1], len(rows))
        rows[np.arange(len(rows)), where] *= _LARGE[draw.dtype]
    return x


def _ties(draw: InputDraw) -> Array:
    """Halves from -2 to 2, so that many are equal; the largest of each row is there twice."""
    # Eighths in f16, where the exponential of a sum of a few ones overflows.
    x = np.asarray(draw.whole(-4, 4) / (8 if draw.dtype is DType.F16 else 2))
    if x.ndim and x.shape[-1] > 1:
        rows = x.reshape(-1, x.shape[-1])
        # At random places, which may be those of other largest elements.
        places = draw.random.integers(0, x.shape[-1], len(rows))
        rows[np.arange(len(rows)), places] = rows.max(axis=-1, initial=-2.0)
    return x


def _limits(draw: InputDraw) -> Array:
    """Powers of two and their neighbours, as far as the type of whole numbers reaches."""
    least, largest = _LIMITS[draw.dtype]
    near = draw.random.integers(-2, 3, draw.shape)
    powers = np.exp2(draw.random.integers(0, largest.bit_length() + 1, draw.shape))
    signs = np.where(draw.chance(0.5), -1.0, 1.0)
    anywhere = draw.random.integers(least, largest + 1, draw.shape)
    value = np.where(draw.chance(0.25), anywhere, signs * powers + near)
    return np.asarray(np.clip(value, least, largest).astype(_precision(draw.dtype)))


_DRAWN: dict[str, Callable[[InputDraw], Array]] = {
    "normal": InputDraw.normal,
    "small": lambda draw: draw.normal() / 8,
    "large": lambda draw: draw.normal() * _LARGE[draw.dtype],
    "tiny": lambda draw: draw.normal() * _TINY[draw.dtype],
    "mixed": _mixed,
    "zeros": _zeros,
    "positive": lambda draw: np.abs(draw.normal()) + 0.125,
    "shifted": _shifted,
    "level": _level,
    "equal": _equal,
    "powers": _powers,
    "cancelling": _cancelling,
    "huge": _huge,
    "sorted": lambda draw: np.sort(draw.normal(), axis=-1) if draw.shape else draw.normal(),
    "integers": lambda draw: draw.whole(-3, 3),
    "ties": _ties,
    "limits": InputDraw.normal,
}
"""How each distribution of floats is drawn, by name."""

ADVERSARIAL = ("equal", "powers", "cancelling", "huge", "sorted", "integers")
"""Patterns that `adversarial` deals out to the inputs in turn; each is a distribution too."""

DISTRIBUTIONS = (
    "normal", "small", "large", "tiny", "mixed", "zeros", "positive", "shifted", "level",
    "adversarial",
)  # fmt: skip
"""What the float layer draws from for any program, in this order."""

_ODD = {"nan": np.nan, "infinity": np.inf}
"""The value that is not finite, by the name of the distributions that hold it once."""
NANS, INFINITIES = "nans", "infinities"
"""Names of the distributions with NaN and with infinities."""
SPECIAL = (NANS, INFINITIES)
"""Distributions of normal inputs, some of them not finite, for the strict policy."""

TIES, LIMITS = "ties", "limits"
"""Names of the distributions of equal numbers, and of whole numbers at the ends of their type."""

EVERY = (*DISTRIBUTIONS, *ADVERSARIAL, TIES)
"""All distributions of finite values."""

_MOST_WHOLE = {"large": 1000, "tiny": 1, "zeros": 1, "ties": 2}
"""The largest magnitude of an integer input, where it is not 8."""
_SHIFTED_WHOLE = 1000
"""The centre of `shifted` integers, where the type reaches as far."""
_LIMITS = {DType.I32: (-(2**31), 2**31 - 1), DType.I8: (-128, 127), DType.U8: (0, 255)}
"""The smallest and largest value of each integer type."""


def special(types: Sequence[TensorType], names: Sequence[str] = SPECIAL) -> tuple[str, ...]:
    """`names`, and for each float input a distribution in which one of its elements is not finite.

    Where one of sixteen elements is not finite, sums of many are nowhere finite, and show no
    difference.
    """
    floats = [at for at, type_ in enumerate(types) if type_.dtype not in EXACT]
    alone = {NANS: "nan", INFINITIES: "infinity"}
    return (*names, *(f"{alone[name]}-at-{at}" for name in names for at in floats))


def draw_inputs(program: Program, distribution: str, seed: int) -> list[Array]:
    """A value of each input of `program`, rounded to its element type, in its working type."""
    types = [term.type for term in program.inputs]
    return draw(types, distribution, seed)


def draw(types: Sequence[TensorType], distribution: str, seed: int) -> list[Array]:
    """A value of each type, which depends on `seed`, `distribution` and the position alone."""
    names = (*EVERY, LIMITS, *special(types))
    if distribution not in names:
        listing = ", ".join(names)
        raise ValueError(f"no distribution {distribution!r}: there are {listing}")
    return [
        _draw_input(
            input_draw(type_, distribution, seed, index), _pattern(distribution, seed, index)
        )
        for index, type_ in enumerate(types)
    ]


def _pattern(distribution: str, seed: int, index: int) -> str:
    """The distribution of input `index`: `nan-at-1` is NaN at 1 and `normal` elsewhere."""
    odd, alone, where = distribution.partition("-at-")
    if alone:
        return odd if int(where) == index else "normal"
    if distribution != "adversarial":
        return distribution
    return ADVERSARIAL[(seed + index) % len(ADVERSARIAL)]


def _random(seed: int, distribution: str, index: int) -> np.random.Generator:
    """The stream of one input."""
    # crc32, not hash(): the latter differs between processes.
    words = np.random.SeedSequence([seed, zlib.crc32(distribution.encode()), index])
    return np.random.Generator(np.random.PCG64(words))


def input_draw(type_: TensorType, distribution: str, seed: int, position: int) -> InputDraw:
    """What the input at `position` is drawn from, in a distribution of any name."""
    return InputDraw(_random(seed, distribution, position), numbers(type_), type_.dtype)


def _draw_input(drawn: InputDraw, name: str) -> Array:
    """A value of one input from distribution `name`."""
    shape, dtype = drawn.shape, drawn.dtype
    if dtype is DType.BOOL:
        return np.ones(shape, np.bool_) if name == "equal" else np.asarray(drawn.chance(0.5))
    if dtype in WHOLE:
        return _whole(drawn, name)
    if name in SPECIAL:
        return _special(drawn, name)
    if name in _ODD:
        return _alone(drawn, name)
    return rounded(np.asarray(_DRAWN[name](drawn)), dtype)


def _whole(draw: InputDraw, name: str) -> Array:
    """An integer input within the limits of its type."""
    if name == LIMITS:
        return _limits(draw)
    least, largest = _LIMITS[draw.dtype]
    most = _MOST_WHOLE.get(name, 8)
    low = 1 if name == "positive" else max(least, -most)
    shift = min(_SHIFTED_WHOLE, largest - most) if name == "shifted" else 0
    return np.asarray(draw.whole(low, min(most, largest)) + shift)


def numbers(type_: TensorType) -> tuple[int, ...]:
    """The shape in plain numbers; raises ShapeError for a symbolic size."""
    for size in type_.shape:
        if not isinstance(size, int):
            raise ShapeError(f"{type_} has no value: {size} is no number")
    return tuple(size for size in type_.shape if isinstance(size, int))


def _special(draw: InputDraw, name: str) -> Array:
    """Normal values of which a share is not finite, at least one where there is any."""
    x = rounded(np.asarray(draw.normal()), draw.dtype)
    where = np.asarray(draw.chance(_SPECIAL_SHARE))
    if where.size:
        where.reshape(-1)[draw.random.integers(where.size)] = True
    odd = np.full(draw.shape, np.nan) if name == "nans" else np.copysign(np.inf, x)
    return np.where(where, odd, x).astype(x.dtype)


def _alone(draw: InputDraw, name: str) -> Array:
    """Normal values with one element that is not finite, of either sign."""
    x = rounded(np.asarray(draw.normal()), draw.dtype)
    if x.size:
        flat = x.reshape(-1)
        at = draw.random.integers(x.size)
        flat[at] = np.copysign(_ODD[name], flat[at])
    return x
