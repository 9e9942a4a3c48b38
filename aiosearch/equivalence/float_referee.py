"""A float64 referee that classifies many small programs as equal to one, different, or unclear."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..tensor.evaluation.evaluate import evaluate
from ..tensor.floats import Array, Floats
from ..tensor.terms import Program
from .distributions import draw_inputs
from .float_differences import apart, explained, measured, outside
from .rounding.noise import NoisyArray, exactly
from .runnables import require_comparable

DRAWS = ("normal", "zeros", "positive", "integers", "mixed", "small")
"""Values that programs in sensible use do not overflow on."""

SETTLING = ("normal", "positive", "mixed", "small")
"""Those among them on which agreement means something: few values are zero."""

CLEAR = 1e-3
"""A value says something if its noise is below this share of the output's largest."""

NOTHING = 1e-10
"""Or if it is zero as far as this: the draws are of size one."""

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
        """True where a difference is certain, None where it is too close to call."""
        require_comparable(self.original, b)
        settled = [False] * len(b.outputs)
        doubtful = False
        for name, inputs, truth, clear in self._trials:
            found = _run(b, inputs)
            if any((ours & ~np.isfinite(x)).any() for ours, x in zip(clear, found, strict=True)):
                return True
            if not all(map(_near, truth, found)):
                theirs = measured(b, inputs)
                if any(
                    apart(ours, other).any() or outside(ours, other).any()
                    for ours, other in zip(truth, theirs, strict=True)
                ):
                    return True
                doubtful |= any(map(_doubtful, truth, theirs))
                clear = [ours & _clear(other) for ours, other in zip(clear, theirs, strict=True)]
            if name in SETTLING:
                settled = [
                    before or _mostly(places, known)
                    for before, places, known in zip(settled, clear, truth, strict=True)
                ]
        return None if doubtful or not all(settled) else False


@lru_cache(maxsize=16)
def _referee(a: Program, seed: int) -> FloatReferee:
    return FloatReferee(a, seed)


def referee_differs(a: Program, b: Program, seed: int = 0) -> bool | None:
    """Whether two small programs differ as functions; None where it is too close to call."""
    return _referee(a, seed).differs(b)


def _run(program: Program, inputs: Sequence[Array]) -> list[Array]:
    """The outputs in float64, of a program so small that no value need be let go."""
    with np.errstate(all="ignore"):
        found = evaluate(program, _DOUBLE, [exactly(x).value for x in inputs])
    return [value.astype(np.float64) for value in found]


def _clear(known: NoisyArray) -> Array:
    """Where a value is finite and not made of noise."""
    size = np.max(np.abs(known.value), where=np.isfinite(known.value), initial=0.0)
    return np.asarray(np.isfinite(known.value) & (known.spread <= CLEAR * size + NOTHING))


def _mostly(places: Array, known: NoisyArray) -> bool:
    """Whether half of the finite values say something, or there is no value at all."""
    finite = np.count_nonzero(np.isfinite(known.value))
    return not places.size or bool(0 < finite <= 2 * np.count_nonzero(places))


def _near(known: NoisyArray, found: Array) -> bool:
    """Whether the noise of the original alone explains all differences where it is finite."""
    with np.errstate(all="ignore"):
        near = np.abs(known.value - found) <= explained(known.spread)
    return bool(np.all(near | ~np.isfinite(known.value)))


def _doubtful(ours: NoisyArray, theirs: NoisyArray) -> bool:
    """Whether some difference is more than noise, if too small to be claimed."""
    with np.errstate(all="ignore"):
        gap = np.abs(ours.value - theirs.value)
        return bool(np.any(np.isfinite(gap) & (gap > explained(ours.spread + theirs.spread))))
