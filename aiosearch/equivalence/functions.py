"""Comparison of functions that can be run but not read, such as jitted jax functions.

Nothing but floats can be asked of them. Their truth is a float64 run (`Runnable.double`), and their
noise is estimated by running them on `NEARBY` inputs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np

from ..tensor.floats import Array
from ..tensor.terms import Program
from ..tensor.types import EXACT, WHOLE, DType, TensorType
from .floats import FloatEvidence, FloatStatus, Trial, compare_sides
from .inputs.distributions import LIMITS, TIES, draw
from .inputs.limits import NO_LIMITS, Limits, limited, within
from .inputs.typical import TYPICAL, InputRange, RangeSearch, in_ranges, ranges_by_shape
from .rounding.machine import UNIT, require_time
from .rounding.noise import NoisyArray, exactly, remembered, roundings
from .runnables import ExecutedProgram, OutputFacts, RunnableSide, require_alike
from .verdict import Status, Verdict

NEARBY = 8
"""How many inputs near those drawn are run to estimate the noise of a function."""


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
"""Functions, whose noise is estimated, or programs, whose noise is computed."""


def compare_functions(
    a: Comparable,
    b: Comparable,
    *,
    seed: int = 0,
    strict: bool = False,
    distributions: Sequence[str] | None = None,
    given: Sequence[Array] | None = None,
    limits: Limits = NO_LIMITS,
    tolerance: float | None = None,
    seconds: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> FloatEvidence:
    """Runs the original `a` and the candidate `b` in their own types, against float64.

    What rounding does to the original is estimated: it is the largest change of its float64 outputs
    at `NEARBY` inputs whose elements are each half a unit in the last place away; in wider types
    than half, as many of these as rounding a sum of all elements comes to. Inputs that are `given`
    are one distribution more. `limits`, `tolerance`, `seconds` and `tell` are as for
    `compare_floats`.
    """
    until = None if seconds is None else time.monotonic() + seconds
    ours, theirs = _side(a, seed, until), _side(b, seed, until)
    require_alike(ours, theirs, "functions")
    return compare_sides(
        limited(ours, limits),
        limited(theirs, limits),
        seed=seed,
        strict=strict,
        distributions=distributions,
        given=given,
        tolerance=tolerance,
        seconds=seconds,
        tell=tell,
    )


def verify_functions(
    a: Comparable,
    b: Comparable,
    because: str,
    *,
    seed: int = 0,
    strict: bool = False,
    given: Sequence[Array] | None = None,
    limits: Limits = NO_LIMITS,
    tolerance: float | None = None,
    seconds: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> Verdict:
    """What floats say where nothing else can be asked; `because` states what stands in the way.

    They are believed where half of the distributions say something, or most of the typical inputs
    and those that are `given`, and of every output.
    """
    floats = compare_functions(
        a,
        b,
        seed=seed,
        strict=strict,
        given=given,
        limits=limits,
        tolerance=tolerance,
        seconds=seconds,
        tell=tell,
    )
    if floats.outcome == "differ":
        worst = floats.first_failed
        reason = f"{worst.place}, on {worst.distribution} inputs of seed {seed}"
        return Verdict(Status.REFUTED, reason, "", "", floats=floats)
    silence = _silence(floats)
    if silence:
        reason = f"{because}, and floats do not tell: {silence}"
        return Verdict(Status.CANNOT_JUDGE, reason, "", "", floats=floats)
    scope = f"in floats only, at these shapes{within(limits, tolerance)}: {because}"
    return Verdict(Status.TESTED, "", scope, "", floats=floats)


def _silence(floats: FloatEvidence) -> str:
    """Why floats say nothing, if they do not; see `FloatEvidence.skipped`."""
    if not floats.trials:
        return floats.remark
    skipped = [trial for trial in floats.trials if trial.distribution in floats.skipped]
    if 2 * len(skipped) > len(floats.trials) and not _tell(floats.usual):
        return f"{skipped[0].reason} on {', '.join(floats.skipped)} inputs"
    if floats.unseen:
        return f"no element of output {floats.unseen[0]} can be compared"
    return ""


def _tell(trials: Sequence[Trial]) -> bool:
    """Whether most of `trials` say something."""
    passed = [trial for trial in trials if trial.status is FloatStatus.PASSED]
    return 2 * len(passed) > len(trials)


def _side(subject: Comparable, seed: int, until: float | None) -> RunnableSide:
    """`subject` as a `RunnableSide`, which leaves off when the clock has passed `until`."""
    if isinstance(subject, Program):
        return ExecutedProgram(subject, until=until)
    return _Estimated(subject, seed, until)


class _Estimated:
    """A function, with the noise that its neighbourhood shows.

    Digits that are lost inside, whatever the inputs were rounded to, are not in that noise: they
    are in the error of the original itself.
    """

    def __init__(self, function: Runnable, seed: int, until: float | None) -> None:
        self.function = function
        self.seed = seed
        self._until = until
        self.inputs = function.inputs
        self.outputs = function.outputs
        self.asks_for = ()  # nobody knows
        whole = any(type_.dtype in WHOLE for type_ in function.inputs)
        # What is between inputs and outputs is not known.
        units = [UNIT.get(type_.dtype, 0.0) for type_ in function.inputs]
        self.facts = [
            OutputFacts(max([*units, UNIT.get(type_.dtype, 0.0)])) for type_ in function.outputs
        ]
        self.points = (TIES, *((LIMITS,) * whole))

    def unit(self, dtype: DType) -> float:
        """The unit of `dtype`; float64's for types that are exact."""
        return UNIT.get(dtype, UNIT[DType.F64])

    def draw(self, distribution: str, seed: int) -> list[Array]:
        if distribution in TYPICAL:
            return in_ranges(self.inputs, self._ranges, distribution, seed)
        return draw(self.inputs, distribution, seed)

    @cached_property
    def _ranges(self) -> tuple[InputRange, ...]:
        """Ranges on which most of what it gives is finite."""
        return RangeSearch(self.inputs, self._finite).best(ranges_by_shape(self.inputs))

    def _finite(self, ranges: tuple[InputRange, ...]) -> list[float]:
        """The share of each output's elements that is finite."""
        inputs = in_ranges(self.inputs, ranges, TYPICAL[0], 0)
        outputs = self._double([exactly(x).value for x in inputs])
        return [float(np.mean(np.isfinite(value))) if value.size else 1.0 for value in outputs]

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        return self.function.own(inputs)

    def truth(self, inputs: Sequence[Array]) -> list[NoisyArray]:
        """Float64 outputs, with the largest change over `NEARBY` runs as noise.

        Eighths are chosen points, and decisions about them certain: equal ones are moved alike, and
        where they decide is no noise.
        """
        exact = [exactly(x).value for x in inputs]
        values = self._double(exact)
        chosen = all(map(_is_chosen, exact))
        noises = [np.zeros(value.shape) for value in values]
        for turn in range(NEARBY):
            require_time(self._until)
            moved = self._double(self._moved(exact, turn, alike=chosen))
            noises = [
                np.maximum(noise, _change(value, near))
                for noise, value, near in zip(noises, values, moved, strict=True)
            ]
        if chosen:
            types = [type_.dtype for type_ in self.outputs]
            noises = [_without_jumps(*each) for each in zip(values, noises, types, strict=True)]
        return [
            remembered(NoisyArray(value, noise), type_.dtype)
            for value, noise, type_ in zip(values, noises, self.outputs, strict=True)
        ]

    def is_left_to_rounding(self, inputs: Sequence[Array]) -> bool:
        # What it takes roots of is not known: each number counts as one.
        return False

    def _double(self, inputs: Sequence[Array]) -> list[Array]:
        """Float64 outputs on exact inputs."""
        return [np.asarray(value, np.float64) for value in self.function.double(inputs)]

    def _moved(self, inputs: Sequence[Array], turn: int, alike: bool) -> list[Array]:
        """`inputs` with each element a step further up or down; `turn` selects the signs.

        If `alike`, equal numbers have one sign, in whichever input they are.
        """
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, turn])))
        if alike:
            numbers, places = np.unique(
                np.concatenate([x.reshape(-1) for x in inputs]), return_inverse=True
            )
            every = random.choice((-1.0, 1.0), numbers.size)[places.reshape(-1)]
            ends = np.cumsum([x.size for x in inputs])[:-1]
            signs = [
                part.reshape(x.shape) for part, x in zip(np.split(every, ends), inputs, strict=True)
            ]
        else:
            signs = [
                random.choice((-1.0, 1.0), x.shape) if type_.dtype in UNIT else np.ones(())
                for x, type_ in zip(inputs, self.inputs, strict=True)
            ]
        return [
            x * (1 + sign * _step(type_.dtype, x.size)) if type_.dtype in UNIT else x
            for x, sign, type_ in zip(inputs, signs, self.inputs, strict=True)
        ]


def _is_chosen(x: Array) -> bool:
    """Whether all values are eighths, as those of ties are and none that is drawn at random."""
    with np.errstate(all="ignore"):
        return bool(np.all(x * 8 == np.rint(x * 8)))


def _without_jumps(value: Array, noise: Array, dtype: DType) -> Array:
    """The noise of a value without what is so large that a decision has to be behind it."""
    if dtype in EXACT:
        return np.zeros(value.shape)
    size = np.max(np.abs(value), where=np.isfinite(value), initial=0.0)
    return np.where(noise > math.sqrt(UNIT[dtype]) * size, 0.0, noise)


def _step(dtype: DType, count: int) -> float:
    """The unit of `dtype`, or what a sum of `count` elements loses in its working type.

    It is at least the smallest step that there is in float64 itself.
    """
    working = UNIT[DType.F64 if dtype is DType.F64 else DType.F32]
    return max(UNIT[dtype], roundings(count, 1) * working, float(np.finfo(np.float64).eps))


def _change(value: Array, near: Array) -> Array:
    """The size of the change from `value` to `near`; infinite where that is NaN."""
    with np.errstate(all="ignore"):
        gap = np.abs(near - value)
    # ∞ - ∞ is NaN: a function that leaves the numbers nearby is unsure here.
    return np.where(np.isnan(gap), np.inf, gap)
