"""What a user says of inputs: the least and the largest value that each of them has.

Labels are places of classes, a variance is positive, a mask is 0 or 1. A distribution knows none of
that, so its values are folded into the limits:

    InputLimits(0, 15).folded([-3, 4, 18])       [3, 4, 12], reflected at the ends
    InputLimits(0).folded([-2.5, 1e6])           [2.5, 1e6], as there is no upper end

Values within the limits stay what they are, so that special ones, as zeros and ties, remain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ...tensor.errors import ShapeError
from ...tensor.floats import Array
from ...tensor.types import EXACT, DType, TensorType
from ..rounding.machine import rounded
from ..rounding.noise import NoisyArray
from ..runnables import RunnableSide


@dataclass(frozen=True)
class InputLimits:
    """The least and the largest value of an input; infinite where there is no such end."""

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ShapeError(f"no value is from {self.low:g} to {self.high:g}")

    def folded(self, values: Array) -> Array:
        """The values, those beyond an end reflected at it."""
        if math.isinf(self.low) and math.isinf(self.high):
            return values
        if math.isinf(self.high):
            return np.where(values < self.low, 2 * self.low - values, values)
        if math.isinf(self.low):
            return np.where(values > self.high, 2 * self.high - values, values)
        width = self.high - self.low
        if width == 0:
            return np.full_like(values, self.low)
        with np.errstate(all="ignore"):
            turn = np.mod(values - self.low, 2 * width)
        inside = self.low + np.where(turn > width, 2 * width - turn, turn)
        outside = (values < self.low) | (values > self.high)
        # What is not finite has no place in an interval, and mod gives NaN for it.
        inside = np.where(np.isfinite(inside), inside, self.low)
        return np.where(
            outside | ~np.isfinite(values), np.clip(inside, self.low, self.high), values
        )

    def __str__(self) -> str:
        low = "" if math.isinf(self.low) else f"{self.low:g}"
        high = "" if math.isinf(self.high) else f"{self.high:g}"
        return f"{low}..{high}"


Limits = Mapping[int, InputLimits]
"""The limits of inputs by their position."""

NO_LIMITS: Limits = MappingProxyType({})


def limited(side: RunnableSide, limits: Limits) -> RunnableSide:
    """The side within limits, if there are any."""
    return LimitedSide(side, limits) if limits else side


def within(limits: Limits, tolerance: float | None) -> str:
    """The limits and the tolerance behind a scope: `, within limits of inputs and 0.01`."""
    parts = ["the limits of inputs"] if limits else []
    if tolerance is not None:
        parts.append(f"a tolerance of {tolerance:g}")
    return f", within {' and '.join(parts)}" if parts else ""


class LimitedSide:
    """An original whose inputs, however they are drawn, are within limits."""

    def __init__(self, side: RunnableSide, limits: Limits) -> None:
        for position in limits:
            if not 0 <= position < len(side.inputs):
                raise ShapeError(f"there is no input {position}; there are {len(side.inputs)}")
        self._side = side
        self._limits = limits
        self.inputs: Sequence[TensorType] = side.inputs
        self.outputs: Sequence[TensorType] = side.outputs
        self.asks_for = side.asks_for
        self.points = side.points
        self.facts = side.facts

    def unit(self, dtype: DType) -> float:
        return self._side.unit(dtype)

    def draw(self, distribution: str, seed: int) -> list[Array]:
        return [
            self._limited(position, type_.dtype, values)
            for position, (type_, values) in enumerate(
                zip(self.inputs, self._side.draw(distribution, seed), strict=True)
            )
        ]

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        return self._side.own(inputs)

    def truth(self, inputs: Sequence[Array]) -> list[NoisyArray]:
        return self._side.truth(inputs)

    def is_left_to_rounding(self, inputs: Sequence[Array]) -> bool:
        return self._side.is_left_to_rounding(inputs)

    def _limited(self, position: int, dtype: DType, values: Array) -> Array:
        limits = self._limits.get(position)
        if limits is None or dtype is DType.BOOL:
            return values
        folded = limits.folded(values)
        if dtype in EXACT:
            return np.asarray(np.rint(folded).astype(values.dtype))
        return rounded(folded.astype(values.dtype), dtype)
