"""Whether results are a program's, but for rounding or as much of it as it has as it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import layers
import ml_dtypes
import numpy as np
from agreement import alike, as_near, in_float64

from aiosearch.measure import Draw
from aiosearch.measure.drawing import draw
from aiosearch.optimizer.types import array_types
from aiosearch.tensor import Program
from aiosearch.tensor.types import ARRAY_NAMES


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
