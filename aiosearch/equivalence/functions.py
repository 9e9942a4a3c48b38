"""Functions that are run and not read: floats are all that can be said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np

from ..tensor.floats import Array
from ..tensor.terms import Program
from ..tensor.types import DType, TensorType
from .distributions import DISTRIBUTIONS
from .floats import FloatEvidence, compare_sides
from .rounding.machine import UNIT
from .rounding.noise import NoisyArray, exactly, remembered, roundings
from .runnables import ExecutedProgram, RunnableSide, require_alike
from .verdict import Status, Verdict

NEARBY = 8
"""How many inputs near those drawn tell what rounding does to a function."""


class Runnable(Protocol):
    """A function of arrays, such as `aiosearch.capture.JaxFunction`."""

    @property
    def inputs(self) -> Sequence[TensorType]: ...

    @property
    def outputs(self) -> Sequence[TensorType]: ...

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs in its own element types, on values that these can hold."""
        ...

    def double(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs where all floats are float64."""
        ...


Comparable: TypeAlias = Runnable | Program


def compare_functions(
    a: Comparable,
    b: Comparable,
    *,
    seed: int = 0,
    strict: bool = False,
    distributions: Sequence[str] = DISTRIBUTIONS,
) -> FloatEvidence:
    """Runs the original `a` and the candidate `b` in their own types, against float64.

    What rounding does to the original is estimated: it is the largest change of its float64
    outputs at a few inputs whose elements are each half a unit in the last place away; in wider
    types than half, as many of these as rounding a sum of all elements comes to.
    """
    ours, theirs = _side(a, seed), _side(b, seed)
    require_alike(ours, theirs, "functions")
    return compare_sides(ours, theirs, seed=seed, strict=strict, distributions=distributions)


def verify_functions(
    a: Comparable, b: Comparable, because: str, *, seed: int = 0, strict: bool = False
) -> Verdict:
    """What floats say where nothing else can be asked; `because` tells what stands in the way.

    They are believed where half of the distributions say something, and of every output.
    """
    floats = compare_functions(a, b, seed=seed, strict=strict)
    if floats.outcome == "differ":
        worst = floats.first_failed
        reason = f"{worst.place}, on {worst.distribution} inputs of seed {seed}"
        return Verdict(Status.REFUTED, reason, "", "", floats=floats)
    silence = _silence(floats)
    if silence:
        reason = f"{because}, and floats do not tell: {silence}"
        return Verdict(Status.CANNOT_JUDGE, reason, "", "", floats=floats)
    scope = f"in floats only, at these shapes: {because}"
    return Verdict(Status.TESTED, "", scope, "", floats=floats)


def _silence(floats: FloatEvidence) -> str:
    """Why floats say nothing, if they do not."""
    skipped = [trial for trial in floats.trials if trial.distribution in floats.skipped]
    if 2 * len(skipped) > len(floats.trials):
        return f"{skipped[0].reason} on {', '.join(floats.skipped)} inputs"
    if floats.unseen:
        return f"no element of output {floats.unseen[0]} can be compared"
    return ""


def _side(given: Comparable, seed: int) -> RunnableSide:
    return ExecutedProgram(given) if isinstance(given, Program) else _Estimated(given, seed)


class _Estimated:
    """A function, and what rounding does to it as its neighbourhood shows.

    Digits that are lost inside, whatever the inputs were rounded to, are not in it: they are in
    the error of the original itself.
    """

    def __init__(self, function: Runnable, seed: int) -> None:
        self.function = function
        self.seed = seed
        self.inputs = function.inputs
        self.outputs = function.outputs
        self.asks_for = ()  # nobody knows

    def unit(self, dtype: DType) -> float:
        return UNIT.get(dtype, UNIT[DType.F64])

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        return self.function.own(inputs)

    def truth(self, inputs: Sequence[Array]) -> list[NoisyArray]:
        exact = [exactly(x).value for x in inputs]
        values = self._double(exact)
        noises = [np.zeros(value.shape) for value in values]
        for turn in range(NEARBY):
            moved = self._double(self._moved(exact, turn))
            noises = [
                np.maximum(noise, _change(value, near))
                for noise, value, near in zip(noises, values, moved, strict=True)
            ]
        return [
            remembered(NoisyArray(value, noise), type_.dtype)
            for value, noise, type_ in zip(values, noises, self.outputs, strict=True)
        ]

    def _double(self, inputs: Sequence[Array]) -> list[Array]:
        return [np.asarray(value, np.float64) for value in self.function.double(inputs)]

    def _moved(self, inputs: Sequence[Array], turn: int) -> list[Array]:
        """The inputs, each element a step further up or down."""
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, turn])))
        return [
            x * (1 + random.choice((-1.0, 1.0), x.shape) * _step(type_.dtype, x.size))
            if type_.dtype in UNIT
            else x
            for x, type_ in zip(inputs, self.inputs, strict=True)
        ]


def _step(dtype: DType, count: int) -> float:
    """The unit of a type, or what a sum of so many elements loses in its working type.

    It is at least the smallest step that there is in float64 itself.
    """
    working = UNIT[DType.F64 if dtype is DType.F64 else DType.F32]
    return max(UNIT[dtype], roundings(count, 1) * working, float(np.finfo(np.float64).eps))


def _change(value: Array, near: Array) -> Array:
    with np.errstate(all="ignore"):
        gap = np.abs(near - value)
    return np.where(np.isnan(gap), np.inf, gap)
