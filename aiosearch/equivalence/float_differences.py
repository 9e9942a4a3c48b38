"""Differences of two programs on given inputs, in float64 and in their own types.

A difference is claimed only where it is `MARGIN` times the noise that `rounding.noise` attributes
to both values: float64 results of 1.0 and 1.0 + 1e-13 with a noise of 1e-15 each are no difference,
1.0 and 1.1 are one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from ..tensor.floats import Array
from ..tensor.terms import Program
from .rounding.machine import DOUBLE, OWN, execute
from .rounding.noise import REAL, TYPED, NoisyArray, exactly, stored_inputs

MARGIN = 2.0**10
"""A difference is one of functions if it is this many times the noise of both values."""

FLOOR = 2.0**-960
"""Differences below this say nothing: the inverse of an overflow makes such values."""

LEAST_RELATIVE = 1e-6
"""Differences below this share of a value may come from how literals are written."""


def real(program: Program, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of `program` in float64."""
    outputs = execute(program, DOUBLE, [exactly(x).value for x in inputs])
    return [value.astype(np.float64) for value in outputs]


def measured(program: Program, inputs: Sequence[Array]) -> list[NoisyArray]:
    """The outputs of `program` in float64, with their noise."""
    outputs = execute(program, REAL, [exactly(x) for x in inputs])
    return [
        NoisyArray(output.value.astype(np.float64), output.noise, output.unit) for output in outputs
    ]


class ExecutedPair:
    """An original and a candidate on equal inputs; each property is computed once."""

    def __init__(self, a: Program, b: Program, inputs: list[Array]) -> None:
        self.a = a
        self.b = b
        self.inputs = inputs

    @cached_property
    def real(self) -> tuple[list[Array], list[Array]]:
        """The outputs of both programs in float64."""
        return real(self.a, self.inputs), real(self.b, self.inputs)

    @cached_property
    def typed(self) -> tuple[list[Array], list[Array]]:
        """The outputs of both programs in their own element types."""
        return self._ours, execute(self.b, OWN, self.inputs)

    @cached_property
    def _ours(self) -> list[Array]:
        """The outputs of the original in its own types."""
        return execute(self.a, OWN, self.inputs)

    @cached_property
    def _finite(self) -> list[Array]:
        """Where the original is finite in its own types."""
        return [np.isfinite(value) for value in self._ours]

    @cached_property
    def _measured(self) -> list[tuple[NoisyArray, NoisyArray]]:
        """The outputs of both with noise, in pairs."""
        ours, theirs = measured(self.a, self.inputs), measured(self.b, self.inputs)
        return list(zip(ours, theirs, strict=True))

    @cached_property
    def _alike(self) -> bool:
        """Whether float64 values alone show that no difference can be claimed."""
        if all(_alike(ours, theirs) for ours, theirs in zip(*self.real, strict=True)):
            return True
        return not any(finite.any() for finite in self._finite)

    def values_differ(self) -> list[Array]:
        """Where both are finite, and rounding does not explain the difference; see `apart`."""
        return self._where_finite(apart)

    def leaves_domain(self) -> list[Array]:
        """Where the candidate certainly is not finite and the original is; see `outside`."""
        return self._where_finite(outside)

    def _where_finite(self, differ: Callable[[NoisyArray, NoisyArray], Array]) -> list[Array]:
        """Where `differ` holds and the original is finite in its own types."""
        # The noise costs several evaluations; most pairs of equal programs are decided without it.
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
        truth = execute(self.a, TYPED, stored_inputs(self.a, self.inputs))
        return [
            # The original's own value may be finite by luck: where its noise reaches the end of the
            # type, an overflow of the candidate is not held against it.
            finite & gone & np.isfinite(exact.value) & ~exact.unsure
            for finite, gone, exact in zip(self._finite, broken, truth, strict=True)
        ]

    def redefines(self) -> list[Array]:
        """Where the original certainly is not finite and the candidate is something else."""
        # Cheap exit: nothing to redefine, and no noise needed to see it.
        if all(np.isfinite(value).all() for value in self.real[0]):
            return self._nowhere()
        return [
            ~np.isfinite(ours.value)
            & ~(ours.unsure | theirs.unsure)
            & ~_same(ours.value, theirs.value)
            for ours, theirs in self._measured
        ]

    def _nowhere(self) -> list[Array]:
        """No place of any output."""
        return [np.zeros(value.shape, np.bool_) for value in self.real[0]]


def apart(ours: NoisyArray, theirs: NoisyArray) -> Array:
    """Where two values are finite and differ by more than rounding explains."""
    with np.errstate(all="ignore"):
        gap = np.abs(ours.value - theirs.value)
        size = np.maximum(np.abs(ours.value), np.abs(theirs.value))
        least = np.maximum(explained(ours.spread + theirs.spread), LEAST_RELATIVE * size)
        return np.asarray(np.isfinite(gap) & (gap > least))


def explained(spread: Array) -> Array:
    """The largest difference that noise of `spread` explains."""
    return np.asarray(MARGIN * spread + FLOOR)


def outside(ours: NoisyArray, theirs: NoisyArray) -> Array:
    """Where `theirs` certainly is not finite and `ours` is."""
    unsure = ours.unsure | theirs.unsure
    return np.isfinite(ours.value) & ~np.isfinite(theirs.value) & ~unsure


def _same(x: Array, y: Array) -> Array:
    """Where values are equal, NaN counting as equal to NaN."""
    return (np.isnan(x) & np.isnan(y)) | np.equal(x, y)


def _alike(ours: Array, theirs: Array) -> bool:
    """Whether all differences are too small to be claimed, wherever the first is finite."""
    finite = np.isfinite(ours)
    with np.errstate(all="ignore"):
        near = np.abs(ours - theirs) <= LEAST_RELATIVE * np.abs(ours)
    return bool(np.all(near | ~finite))
