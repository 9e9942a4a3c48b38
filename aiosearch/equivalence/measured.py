"""Float64 values beside the noise that rounding explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..tensor.floats import Array
from ..tensor.terms import Program
from ..tensor.types import DType
from .machine import LEAST, MOST, UNIT, rounded

NOTHING = np.zeros(())
"""No noise at all."""

END = 16.0
"""Values no more noises than this from the largest number of a type may overflow or not."""


@dataclass(frozen=True, slots=True)
class Measured:
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

    def moved(self, move: Callable[[Array], Array]) -> Measured:
        """The same elements elsewhere."""
        noise = None if self.noise is None else move(self.noise)
        top = None if self.top is None else move(self.top)
        return Measured(move(self.value), noise, self.unit, top)


def exactly(value: Array) -> Measured:
    """A value that both programs are given alike."""
    return Measured(value if value.dtype == np.bool_ else value.astype(np.float64))


def stored(value: Array, dtype: DType) -> Measured:
    """A value that is known as well as its element type can hold it."""
    exact = exactly(value)
    if dtype not in UNIT or not np.isfinite(exact.value).all():
        return exact
    return Measured(exact.value, None, UNIT[dtype])


def stored_inputs(program: Program, inputs: Sequence[Array]) -> list[Measured]:
    """The inputs of a program, as they are in memory."""
    return [stored(x, term.dtype) for x, term in zip(inputs, program.inputs, strict=True)]


def settled(value: Array, noise: Array, unsure: Callable[[], Array]) -> Measured:
    """Infinities and nans are certain where they do not come from noise."""
    if np.isfinite(noise).all():
        return Measured(value, noise)
    finite = np.isfinite(value)
    left = np.where(np.isnan(noise), np.inf, noise)
    return Measured(value, np.where(finite, left, np.where(unsure(), np.inf, 0.0)))


def any_unsure(*operands: Measured) -> Array:
    found: Array = np.zeros((), np.bool_)
    for operand in operands:
        found = found | operand.unsure
    return found


def remembered(measured: Measured, dtype: DType) -> Measured:
    """What a value in memory is known to, after it was rounded to its element type."""
    unit = UNIT.get(dtype)
    if unit is None or measured.value.dtype == np.bool_:
        return measured
    if measured.noise is None:
        exact = not measured.unit and _holds(dtype, measured.value)
        return Measured(measured.value, None, 0.0 if exact else max(unit, measured.unit))
    rounding = np.maximum(np.abs(measured.value) * unit, LEAST[dtype])
    kept = (measured.value == 0) | ~np.isfinite(measured.value)
    certain = (measured.noise == 0) & ~kept
    if certain.any():
        kept |= certain & (rounded(measured.value, dtype) == measured.value)
    noise = measured.noise + np.where(kept, 0.0, rounding)
    end = _near_the_end(measured.value, noise, MOST[dtype])
    if not end.any():
        return Measured(measured.value, noise, top=measured.top)
    top = np.where(end & (measured.value < 0), measured.value + END * noise, np.inf)
    if measured.top is not None:
        top = np.minimum(top, measured.top)
    return Measured(measured.value, np.where(end, np.inf, noise), top=top)


def _near_the_end(value: Array, noise: Array, most: float) -> Array:
    """Where rounding decides whether a value overflows."""
    size = np.abs(value)
    if not np.any(size > most / 2):
        return np.zeros((), np.bool_)
    return np.asarray((noise > 0) & (np.abs(size - most) <= END * noise))


def _holds(dtype: DType, value: Array) -> bool:
    return bool(np.array_equal(rounded(value, dtype), value, equal_nan=True))
