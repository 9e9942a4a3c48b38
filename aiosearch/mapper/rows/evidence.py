"""Is a program that runs by rows equal to the original?

Two independent grounds, both named in the plan. By construction: each primitive came from a rule
that says which rows it needs. By trial: its results are compared with the original's on the
arguments and on random draws of their kind, and rows that hold NaN or the largest number must spoil
exactly the rows of the results that they spoil in the original.

Summation may be in another order where a block's product is split otherwise, so floats may differ
by a few units in the last place of the largest element of their row; what does more is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import Struct

from ...capture.jax_types import Leaf, NumpyArray

UNITS = 64.0
"""How many units in the last place, of the largest number of a result's row, a result may differ
by.
"""

Flatly = Callable[[Sequence[Leaf]], list[Leaf]]


class RowEvidence(Struct, frozen=True):
    """What was tried, and the largest difference in units in the last place."""

    draws: int
    units: float
    failure: str = ""

    @property
    def holds(self) -> bool:
        return not self.failure

    def __str__(self) -> str:
        if self.failure:
            return f"refuted: {self.failure}"
        if self.units == 0:
            return f"row-wise by rule; the same bits on {self.draws} draws of inputs"
        return (
            f"row-wise by rule; within {self.units:.1f} units in the last place on {self.draws} "
            "draws of inputs"
        )


def compare(
    original: Flatly, candidate: Flatly, inputs: Sequence[Leaf], *, seed: int = 0, draws: int = 2
) -> RowEvidence:
    """Compares two programs on the inputs, on random ones, and on poisoned ones."""
    rng = np.random.default_rng(seed)
    trials = [("the arguments", list(inputs))]
    trials += [(f"random draw {n + 1}", drawn(inputs, rng)) for n in range(draws)]
    trials.append(("poisoned rows", poisoned(inputs, rng)))
    worst = 0.0
    for name, values in trials:
        for position, (expected, actual) in enumerate(
            zip(original(values), candidate(values), strict=True)
        ):
            units = difference(np.asarray(expected), np.asarray(actual))
            if not units <= UNITS:
                return RowEvidence(
                    len(trials), units, f"result {position} differs on {name} by {units:.3g} units"
                )
            worst = max(worst, units)
    return RowEvidence(len(trials), worst)


def difference(expected: NumpyArray, actual: NumpyArray) -> float:
    """The largest difference, in units in the last place of the largest element of its row.

    Infinite where shapes, types, integers, or places of NaN and infinity differ.
    """
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return float("inf")
    if not jnp.issubdtype(expected.dtype, jnp.inexact):
        return 0.0 if np.array_equal(expected, actual) else float("inf")
    if expected.size == 0:
        return 0.0
    unit = float(jnp.finfo(expected.dtype).eps)  # type: ignore[no-untyped-call]  # jax has no types here
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    a, b = expected.astype(wide), actual.astype(wide)
    # Where the original is not finite, the candidate must be the same NaN or infinity.
    finite = np.isfinite(a)
    if (
        not np.array_equal(a[~finite], b[~finite], equal_nan=True)
        or not np.isfinite(b[finite]).all()
    ):
        return float("inf")
    a, b = np.where(finite, a, 0), np.where(finite, b, 0)
    # Relative to the row: an element that is nearly 0 by cancellation has no digits to compare.
    largest = np.abs(a).max(axis=-1, keepdims=True) if a.ndim else np.abs(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        units = np.abs(a - b) / (unit * largest)
    return float(np.nan_to_num(units, nan=0.0, posinf=np.inf).max())


def drawn(inputs: Sequence[Leaf], rng: np.random.Generator) -> list[Leaf]:
    """Random arrays of the same shapes and types: floats as spread out as they are, integers
    shuffled.
    """
    return [jax.device_put(_drawn(np.asarray(value), rng)) for value in inputs]


def _drawn(value: NumpyArray, rng: np.random.Generator) -> NumpyArray:
    if not jnp.issubdtype(value.dtype, jnp.inexact) or value.size == 0:
        # Integers may be indices, so none appears that was not there.
        return rng.permutation(value.reshape(-1)).reshape(value.shape)
    spread = float(np.std(value.astype(np.complex128))) or 1.0
    center = value.astype(np.complex128).mean().real
    draw = center + spread * rng.standard_normal(value.shape)
    cast: NumpyArray = draw.astype(value.dtype)
    return cast


def poisoned(inputs: Sequence[Leaf], rng: np.random.Generator) -> list[Leaf]:
    """The inputs, of which the largest array of floats has a NaN in one of its elements."""
    values = [np.array(value) for value in inputs]
    floats = [value for value in values if jnp.issubdtype(value.dtype, jnp.floating) and value.size]
    if floats:
        largest = max(floats, key=lambda value: value.size)
        largest.reshape(-1)[rng.integers(largest.size)] = np.nan
    return [jax.device_put(value) for value in values]
