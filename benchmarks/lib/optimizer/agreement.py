"""Whether two results are the same but for rounding.

Whether results are a program's, but for rounding or as much of it as it has as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import lib.optimizer.builtin_cases as layers
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from aiosearch.measure import Draw
from aiosearch.measure.random_inputs import draw
from aiosearch.optimizer.array_types import array_types
from aiosearch.tensor import Program
from aiosearch.tensor.types import ARRAY_NAMES

Array: TypeAlias = NDArray[Any]

ROOM = {2: 4, 4: 64, 8: 64}
"""How many units of the last place of the largest element, by the bytes of an element."""
FARTHER = 2
"""How many times as far from the truth as ours theirs may be, where they are not alike."""
TELLING = 0.25
"""A result that is farther from the truth, of its largest element, judges nothing."""


def leaves(result: Any) -> list[Array]:
    """The tensors of a result, in order."""
    return [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(result)]


def alike(ours: Sequence[Array], theirs: Sequence[Array]) -> bool:
    """Judges each tensor on its own scale; ours say the types."""
    return len(ours) == len(theirs) and all(map(_near, ours, theirs))


def as_near(ours: Sequence[Array], theirs: Sequence[Array], truth: Sequence[Array]) -> bool:
    """Whether theirs are about as near to the truth as ours, which are near.

    An array that is nothing but rounding beside the others, as the gradient of an attention's key
    bias is, which is 0 in real numbers, may be nothing but rounding in theirs too.
    """
    largest = max((float(np.max(np.abs(one), initial=0.0)) for one in truth), default=0.0)
    return len(ours) == len(theirs) and all(
        _as_near(*arrays, largest) for arrays in zip(ours, theirs, truth, strict=True)
    )


def in_float64(function: Callable[..., Any], values: Sequence[jax.Array]) -> list[Array]:
    """What a function computes where all floats are float64."""
    with jax.enable_x64(True):
        wide = [
            jnp.asarray(np.asarray(one), np.float64 if one.dtype.kind in "fV" else one.dtype)
            for one in values
        ]
        return leaves(jax.jit(function)(*wide))


def _as_near(ours: Array, theirs: Array, truth: Array, largest: float) -> bool:
    if not ours.shape == theirs.shape == truth.shape or not np.isfinite(truth).all():
        return False
    size = np.max(np.abs(truth), initial=0.0)
    own, other = (np.max(np.abs(one - truth), initial=0.0) for one in (ours, theirs))
    room = 4 * _eps(ours.dtype) * size
    is_rounding = size < own <= _eps(ours.dtype) * largest
    return bool((own <= TELLING * size or is_rounding) and other <= FARTHER * own + room)


def _near(ours: Array, theirs: Array) -> bool:
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if a.shape != b.shape:
        return False
    room = _room(ours.dtype)
    size = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
    return bool(np.allclose(a, b, rtol=room, atol=room * size, equal_nan=True))


def _room(dtype: np.dtype[Any]) -> float:
    return ROOM.get(dtype.itemsize, 0) * _eps(dtype)


def _eps(dtype: np.dtype[Any]) -> float:
    if dtype.kind in "biu":
        return 0.0
    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


class Judge:
    """Knows the truth for one set of inputs, and how far from it the program itself is."""

    def __init__(self, program: Program, arrays: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.arrays = arrays
        self._types = [ARRAY_NAMES[one.dtype] for one in program.outputs]
        self._own = self._typed(outputs)
        given = [jnp.asarray(one) for one in arrays]
        self.truth = in_float64(layers.written(program), given)

    @staticmethod
    def drawn(program: Program, draws: Mapping[int, Draw], seed: int) -> list[Any]:
        """The inputs on which a program is timed."""
        types = enumerate(array_types(program))
        return [draw(one, seed, at, draws.get(at)) for at, one in types]

    def objection(self, outputs: Sequence[Any]) -> str:
        """What is wrong with results; nothing where they are the program's."""
        found = self._typed(outputs)
        if alike(self._own, found) or as_near(self._own, found, self.truth):
            return ""
        own, theirs = self._off(self._own), self._off(found)
        return f"off by {theirs:.1e} of the largest element, the program as written by {own:.1e}"

    def _typed(self, outputs: Sequence[Any]) -> list[Any]:
        """Half types travel as wider ones."""
        pairs = zip(outputs, self._types, strict=True)
        return [np.asarray(one).astype(getattr(ml_dtypes, name, name)) for one, name in pairs]

    def _off(self, outputs: Sequence[Any]) -> float:
        pairs = zip(outputs, self.truth, strict=True)
        return max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in pairs)
