"""Differences of two programs on given inputs, in float64 and in their own types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from ..tensor.floats import Array
from ..tensor.terms import Program
from .rounding.machine import DOUBLE, OWN, execute
from .rounding.noise import REAL, TYPED, NoisyArray, exactly, stored_inputs

MARGIN = 2.0**10
"""A difference is one of the functions if it is this many times the noise of both values."""

FLOOR = 2.0**-960
"""Nor do differences say anything that the inverse of an overflow makes."""

LEAST_RELATIVE = 1e-6
"""Differences below this share of a value may come from how literals are written."""


def real(program: Program, inputs: Sequence[Array]) -> list[Array]:
    """The outputs in float64."""
    found = execute(program, DOUBLE, [exactly(x).value for x in inputs])
    return [value.astype(np.float64) for value in found]


def measured(program: Program, inputs: Sequence[Array]) -> list[NoisyArray]:
    """The outputs in float64, with their noise."""
    found = execute(program, REAL, [exactly(x) for x in inputs])
    return [NoisyArray(one.value.astype(np.float64), one.noise, one.unit) for one in found]


class ExecutedPair:
    """An original and a candidate on the same inputs; what is asked for is computed once."""

    def __init__(self, a: Program, b: Program, inputs: list[Array]) -> None:
        self.a = a
        self.b = b
        self.inputs = inputs

    @cached_property
    def real(self) -> tuple[list[Array], list[Array]]:
        return real(self.a, self.inputs), real(self.b, self.inputs)

    @cached_property
    def typed(self) -> tuple[list[Array], list[Array]]:
        """The outputs in the programs' own element types."""
        return self._ours, execute(self.b, OWN, self.inputs)

    @cached_property
    def _ours(self) -> list[Array]:
        return execute(self.a, OWN, self.inputs)

    @cached_property
    def _finite(self) -> list[Array]:
        """Where the original is finite in its own types."""
        return [np.isfinite(value) for value in self._ours]

    @cached_property
    def _measured(self) -> list[tuple[NoisyArray, NoisyArray]]:
        ours, theirs = measured(self.a, self.inputs), measured(self.b, self.inputs)
        return list(zip(ours, theirs, strict=True))

    @cached_property
    def _alike(self) -> bool:
        """Whether a glance shows that no difference of real functions can be claimed."""
        if all(_alike(one, other) for one, other in zip(*self.real, strict=True)):
            return True
        return not any(finite.any() for finite in self._finite)

    def values_differ(self) -> list[Array]:
        """Where both are finite, and rounding does not explain the difference."""
        return self._where_finite(apart)

    def leaves_domain(self) -> list[Array]:
        """Where the candidate certainly is not finite and the original is."""
        return self._where_finite(outside)

    def _where_finite(self, differ: Callable[[NoisyArray, NoisyArray], Array]) -> list[Array]:
        if self._alike:
            return self._nowhere()
        return [
            differ(ours, theirs) & finite
            for (ours, theirs), finite in zip(self._measured, self._finite, strict=True)
        ]

    def overflows(self) -> list[Array]:
        """Where the candidate is not finite in its own types and the original safely is."""
        if not any(finite.any() for finite in self._finite):
            return self._nowhere()
        broken = [~np.isfinite(value) for value in self.typed[1]]
        if not any(places.any() for places in broken):
            return self._nowhere()
        known = execute(self.a, TYPED, stored_inputs(self.a, self.inputs))
        return [
            finite & gone & np.isfinite(one.value) & ~one.unsure
            for finite, gone, one in zip(self._finite, broken, known, strict=True)
        ]

    def redefines(self) -> list[Array]:
        """Where the original certainly is not finite and the candidate is something else."""
        if all(np.isfinite(value).all() for value in self.real[0]):
            return self._nowhere()
        return [
            ~np.isfinite(ours.value)
            & ~(ours.unsure | theirs.unsure)
            & ~_same(ours.value, theirs.value)
            for ours, theirs in self._measured
        ]

    def _nowhere(self) -> list[Array]:
        return [np.zeros(value.shape, np.bool_) for value in self.real[0]]


def apart(ours: NoisyArray, theirs: NoisyArray) -> Array:
    """Where two values are finite and differ by more than rounding explains."""
    with np.errstate(all="ignore"):
        gap = np.abs(ours.value - theirs.value)
        size = np.maximum(np.abs(ours.value), np.abs(theirs.value))
        least = np.maximum(explained(ours.spread + theirs.spread), LEAST_RELATIVE * size)
        return np.asarray(np.isfinite(gap) & (gap > least))


def explained(spread: Array) -> Array:
    """The largest difference that rounding explains."""
    return np.asarray(MARGIN * spread + FLOOR)


def outside(ours: NoisyArray, theirs: NoisyArray) -> Array:
    """Where the second certainly is not finite and the first is."""
    unsure = ours.unsure | theirs.unsure
    return np.isfinite(ours.value) & ~np.isfinite(theirs.value) & ~unsure


def _same(x: Array, y: Array) -> Array:
    return (np.isnan(x) & np.isnan(y)) | np.equal(x, y)


def _alike(ours: Array, theirs: Array) -> bool:
    """Differences are too small to be claimed wherever the first is finite."""
    finite = np.isfinite(ours)
    with np.errstate(all="ignore"):
        near = np.abs(ours - theirs) <= LEAST_RELATIVE * np.abs(ours)
    return bool(np.all(near | ~finite))
