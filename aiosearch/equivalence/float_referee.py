"""A float64 referee that finds small programs equal to an original, different, or unclear.

A search asks about thousands of candidates for one original, so everything about the original is
computed once (`FloatReferee`), and the noise of a candidate only where its values are not near
already. `differs` is None where the answer depends on rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..tensor.evaluation import evaluate
from ..tensor.floats import Array, Floats
from ..tensor.terms import Program
from .float_differences import apart, explained, measured, outside
from .inputs.distributions import draw_inputs
from .rounding.noise import NoisyArray, exactly
from .runnables import require_comparable

DRAWS = ("normal", "zeros", "positive", "integers", "mixed", "small")
"""Distributions on which programs in sensible use do not overflow."""

SETTLING = ("normal", "positive", "mixed", "small")
"""The subset of `DRAWS` on which agreement means something: few values are zero."""

CLEAR = 1e-3
"""A value counts if its noise is below this share of the output's largest value."""

NOTHING = 1e-10
"""A value also counts if its noise is below this, as a zero's is: the draws are of size one."""

_DOUBLE = Floats(np.float64)


class FloatReferee:
    """An original on several draws; each candidate is compared with it in float64."""

    def __init__(self, a: Program, seed: int = 0, draws: Sequence[str] = DRAWS) -> None:
        self.original = a
        self._trials: list[tuple[str, list[Array], list[NoisyArray], list[Array]]] = []
        for name in draws:
            inputs = draw_inputs(a, name, seed)
            truth = measured(a, inputs)
            self._trials.append((name, inputs, truth, [_clear(value) for value in truth]))

    def differs(self, b: Program) -> bool | None:
        """True where a difference of `b` is certain, None where it is too close to call."""
        require_comparable(self.original, b)
        settled = [False] * len(b.outputs)
        doubtful = False
        for name, inputs, truth, clear in self._trials:
            outputs = _run(b, inputs)
            # Not finite where the original clearly is: no noise has to be computed to say so.
            if any((ours & ~np.isfinite(x)).any() for ours, x in zip(clear, outputs, strict=True)):
                return True
            if not all(map(_near, truth, outputs)):
                theirs = measured(b, inputs)
                if any(
                    apart(ours, their).any() or outside(ours, their).any()
                    for ours, their in zip(truth, theirs, strict=True)
                ):
                    return True
                doubtful |= any(map(_doubtful, truth, theirs))
                clear = [ours & _clear(their) for ours, their in zip(clear, theirs, strict=True)]
            if name in SETTLING:
                # Each output needs one draw on which most of its values say something; agreement of
                # noise with noise would accept everything.
                settled = [
                    before or _mostly(places, exact)
                    for before, places, exact in zip(settled, clear, truth, strict=True)
                ]
        return None if doubtful or not all(settled) else False


@lru_cache(maxsize=16)
def _referee(a: Program, seed: int) -> FloatReferee:
    """The referee of an original, for the next candidates of one search."""
    return FloatReferee(a, seed)


def referee_differs(a: Program, b: Program, seed: int = 0) -> bool | None:
    """Whether two small programs differ as functions; None where it is too close to call."""
    return _referee(a, seed).differs(b)


def _run(program: Program, inputs: Sequence[Array]) -> list[Array]:
    """The outputs in float64 of a program so small that no value need be released early."""
    with np.errstate(all="ignore"):
        outputs = evaluate(program, _DOUBLE, [exactly(x).value for x in inputs])
    return [value.astype(np.float64) for value in outputs]


def _clear(measured: NoisyArray) -> Array:
    """Where a value is finite and not dominated by noise; see `CLEAR`."""
    size = np.max(np.abs(measured.value), where=np.isfinite(measured.value), initial=0.0)
    return np.asarray(np.isfinite(measured.value) & (measured.spread <= CLEAR * size + NOTHING))


def _mostly(places: Array, measured: NoisyArray) -> bool:
    """Whether half of the finite values are among `places`, or there is no value at all."""
    finite = np.count_nonzero(np.isfinite(measured.value))
    return not places.size or bool(0 < finite <= 2 * np.count_nonzero(places))


def _near(truth: NoisyArray, output: Array) -> bool:
    """Whether the noise of the original alone explains all differences where it is finite."""
    with np.errstate(all="ignore"):
        near = np.abs(truth.value - output) <= explained(truth.spread)
    return bool(np.all(near | ~np.isfinite(truth.value)))


def _doubtful(ours: NoisyArray, theirs: NoisyArray) -> bool:
    """Whether some difference is more than noise, if too small to be claimed."""
    with np.errstate(all="ignore"):
        gap = np.abs(ours.value - theirs.value)
        return bool(np.any(np.isfinite(gap) & (gap > explained(ours.spread + theirs.spread))))
