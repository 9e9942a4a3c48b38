"""Two programs in floating point, at their real shapes and types, under the domain policy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from ..tensor.floats import Array
from ..tensor.terms import Program
from ..tensor.types import DType
from .distributions import DISTRIBUTIONS, draw
from .masking_constants import masking_remark
from .rounding.machine import UNIT, Working, working
from .rounding.noise import NoisyArray
from .runnables import ExecutedProgram, RunnableSide, not_finite, require_comparable

SLACK = 4.0
"""Units in the last place that a candidate may lose beyond twice what the original loses."""

_TYPICAL, _LEAST_SEEN, _LUCK = 8.0, 2.0**-8, 2.0**-12
"""Roundings mostly come to an eighth of what they may, and are never taken for nothing. Where next
to none is seen, it is by luck: the inputs need none."""

_USUAL = {DType.F32: 8.0}
"""So many units, where roundings explain as much, are nothing to speak of: another order of a long
sum may come to that, and what loses digits comes to more. In half types none does: sums are exact
beside them."""

ENOUGH = 3
"""Distributions that have to say something; evidence from fewer says that it is weak."""

_FLOOR: dict[Working, float] = {np.float32: 2.0**-116, np.float64: 2.0**-1012}
"""No unit is smaller: what is near the end of a type's range is lost when its inverse overflows."""


class FloatStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Trial:
    """How a candidate fared on one distribution.

    Errors are counted in units in the last place, where a unit is at least what roundings on the
    way of the original do to the element: sums that cancel are not held to their own small size,
    but differences that the original computes without a loss are.
    """

    distribution: str
    status: FloatStatus
    reason: str
    original_error: float
    candidate_error: float
    compared: int
    """Elements at which the original is finite and determined by its inputs."""
    undetermined: int
    """Elements at which the original is finite and rounding decides its value."""
    newly_defined: int
    """Elements at which the candidate is finite and the original is not."""
    output: int = 0
    index: tuple[int, ...] = ()
    """Where the candidate is worst."""
    expected: float = math.nan
    found: float = math.nan
    unseen: tuple[int, ...] = ()
    """The outputs of which no element is compared."""
    overflows: bool = False
    """Whether it failed for nothing but that the candidate is not finite: elsewhere it is right."""

    @property
    def place(self) -> str:
        """Where the candidate is worst, and both values."""
        index = ", ".join(map(str, self.index))
        found, expected = _told_apart(self.found, self.expected)
        return f"output {self.output} at [{index}] is {found} and should be {expected}"

    def __str__(self) -> str:
        text = f"{self.distribution} {self.status}: {self.reason}"
        return f"{text} ({self.place})" if self.status is FloatStatus.FAILED else text

    def to_dict(self) -> dict[str, Any]:
        return {
            "distribution": self.distribution,
            "status": self.status.value,
            "reason": self.reason,
            "original_error_ulp": plain(self.original_error),
            "candidate_error_ulp": plain(self.candidate_error),
            "compared": self.compared,
            "undetermined": self.undetermined,
            "newly_defined": self.newly_defined,
            "unseen": list(self.unseen),
            "worst": {
                "output": self.output,
                "index": list(self.index),
                "expected": plain(self.expected),
                "found": plain(self.found),
            },
        }


@dataclass(frozen=True)
class FloatEvidence:
    """What the float layer found, and from what it can be found again.

    `aiosearch.equivalence.distributions.draw(types, distribution, seed)` gives the inputs of a
    trial, and comparing once more with its seed and distribution the trial itself.
    """

    seed: int
    strict: bool
    trials: tuple[Trial, ...]
    remark: str = ""
    """Where nothing is known, what in the original may be why."""

    @property
    def outcome(self) -> str:
        """`differ` if any trial failed, `agree` if any passed, else `unknown`.

        Where rounding mostly decides an output, it is `unknown` whatever else is known.
        """
        found = {trial.status for trial in self.trials}
        if FloatStatus.FAILED in found:
            return "differ"
        return "agree" if FloatStatus.PASSED in found and not self.undecided else "unknown"

    @property
    def undecided(self) -> tuple[int, ...]:
        """The outputs that rounding decides on most distributions on which there are numbers."""
        numbers = [trial for trial in self.trials if trial.compared or trial.undetermined]
        decided = Counter(one for trial in numbers if trial.undetermined for one in trial.unseen)
        return tuple(sorted(one for one, count in decided.items() if 2 * count > len(numbers)))

    @property
    def skipped(self) -> tuple[str, ...]:
        """The distributions that say nothing."""
        return self._named(FloatStatus.SKIPPED)

    @property
    def overflows(self) -> bool:
        """Whether all that speaks against the candidate is that it is not finite everywhere."""
        failed = [trial for trial in self.trials if trial.status is FloatStatus.FAILED]
        return bool(failed) and all(trial.overflows for trial in failed)

    @property
    def counted(self) -> int:
        """On how many distributions the original is finite and accurate enough to be compared."""
        return len(self.trials) - len(self.skipped)

    @property
    def failed(self) -> tuple[str, ...]:
        return self._named(FloatStatus.FAILED)

    @property
    def first_failed(self) -> Trial:
        """The first trial that speaks against the candidate, if the outcome is `differ`."""
        return next(trial for trial in self.trials if trial.status is FloatStatus.FAILED)

    @property
    def unseen(self) -> tuple[int, ...]:
        """The outputs that no trial compares which passed."""
        passed = [set(trial.unseen) for trial in self.trials if trial.status is FloatStatus.PASSED]
        return tuple(sorted(set.intersection(*passed))) if passed else ()

    @property
    def newly_defined(self) -> int:
        return sum(trial.newly_defined for trial in self.trials)

    def __str__(self) -> str:
        of = f" of {len(self.trials)}" if self.skipped else ""
        weak = "only " if 0 < self.counted < min(ENOUGH, len(self.trials)) else ""
        many = "s" * (len(self.trials) != 1)
        parts = [f"{self.outcome} on {weak}{self.counted}{of} distribution{many}"]
        parts += [str(trial) for trial in self.trials if trial.status is FloatStatus.FAILED]
        parts += self._skips()
        passed = [trial for trial in self.trials if trial.status is FloatStatus.PASSED]
        if passed:
            worst = max(passed, key=lambda trial: trial.candidate_error)
            parts.append(f"at most {worst.candidate_error:.2g} ulp where it passed")
        if self.newly_defined:
            many = "s" * (self.newly_defined != 1)
            parts.append(f"more defined at {self.newly_defined} element{many}")
        return "; ".join([*parts, *([self.remark] if self.remark else [])])

    def _skips(self) -> list[str]:
        """What says nothing, once for each reason."""
        skipped = [trial for trial in self.trials if trial.status is FloatStatus.SKIPPED]
        reasons = dict.fromkeys(trial.reason for trial in skipped)
        return [
            f"{', '.join(one.distribution for one in skipped if one.reason == reason)} skipped:"
            f" {reason}"
            for reason in reasons
        ]

    def _named(self, status: FloatStatus) -> tuple[str, ...]:
        return tuple(trial.distribution for trial in self.trials if trial.status is status)

    def remarked(self, original: Program) -> FloatEvidence:
        """The same, with what may be why nothing is known, where that is so."""
        return self if self.outcome != "unknown" else replace(self, remark=masking_remark(original))

    def to_dict(self) -> dict[str, Any]:
        return {
            "outcome": self.outcome,
            "remark": self.remark,
            "seed": self.seed,
            "strict": self.strict,
            "inputs": "aiosearch.equivalence.distributions.draw(types, distribution, seed)",
            "trials": [trial.to_dict() for trial in self.trials],
        }


def _told_apart(x: float, y: float) -> tuple[str, str]:
    """Two numbers, in as many digits as it takes."""
    for digits in (6, 9):
        if f"{x:.{digits}g}" != f"{y:.{digits}g}":
            return f"{x:.{digits}g}", f"{y:.{digits}g}"
    return f"{x:.17g}", f"{y:.17g}"


def plain(number: float) -> float | str:
    """A number that JSON can hold; others by name."""
    return float(number) if math.isfinite(number) else str(float(number))


def compare_floats(
    a: Program,
    b: Program,
    *,
    seed: int = 0,
    strict: bool = False,
    distributions: Sequence[str] = DISTRIBUTIONS,
) -> FloatEvidence:
    """Runs the original `a` and the candidate `b` in their own types, against float64."""
    require_comparable(a, b)
    found = compare_sides(
        ExecutedProgram(a),
        ExecutedProgram(b),
        seed=seed,
        strict=strict,
        distributions=distributions,
    )
    return found.remarked(a)


def compare_sides(
    a: RunnableSide, b: RunnableSide, *, seed: int, strict: bool, distributions: Sequence[str]
) -> FloatEvidence:
    """The same of whatever can be run; the truth is the original's."""
    names = [*distributions, *not_finite(a, strict)]
    trials = (compare_on(draw(a.inputs, name, seed), a, b, name, strict) for name in names)
    return FloatEvidence(seed, strict, tuple(trials))


def compare_on(
    inputs: Sequence[Array], a: RunnableSide, b: RunnableSide, distribution: str, strict: bool
) -> Trial:
    """One trial on given inputs, which `distribution` names."""
    ours = a.own(inputs)
    theirs = b.own(inputs)
    truth = _truth(a, inputs, ours)
    dtypes = [type_.dtype for type_ in a.outputs]
    with np.errstate(all="ignore"):
        outputs = [
            _FloatOutput(number, dtype, a.unit(dtype), own, other, real, strict)
            for number, (dtype, own, other, real) in enumerate(
                zip(dtypes, ours, theirs, truth, strict=True)
            )
        ]
    return _judged(distribution, outputs)


def _truth(a: RunnableSide, inputs: Sequence[Array], ours: list[Array]) -> list[NoisyArray]:
    """What the original should be; not asked for where it is nowhere finite."""
    if not any(np.isfinite(value).any() for value in ours):
        return [NoisyArray(value) for value in ours]
    return a.truth(inputs)


class _FloatOutput:
    """One output of one trial."""

    def __init__(
        self,
        number: int,
        dtype: DType,
        unit: float,
        ours: Array,
        theirs: Array,
        truth: NoisyArray,
        strict: bool,
    ) -> None:
        self.number = number
        self.dtype = dtype
        self.shape = ours.shape
        self.ours = ours.astype(np.float64)
        self.theirs = theirs.astype(np.float64)
        self.truth = truth.value.astype(np.float64)
        self.loss = math.sqrt(unit)
        finite = np.isfinite(self.ours)
        size = np.max(np.abs(self.truth), where=np.isfinite(self.truth), initial=0.0)
        noise = np.broadcast_to(truth.spread, finite.shape)
        known = finite & np.isfinite(self.truth)
        shares = np.abs(self.ours - self.truth) / np.where(noise > 0, noise, np.inf)
        clear = known & (_seen(shares, known) * noise <= self.loss * size)
        self.compared = finite & clear
        self.undetermined = int(np.count_nonzero(finite & ~clear))
        self.newly_defined = int(np.count_nonzero(~finite & np.isfinite(self.theirs)))
        self.broken = self.compared & ~np.isfinite(self.theirs)
        if strict:
            self.broken |= ~finite & ~_same_kind(self.ours, self.theirs)
        own = 2 * UNIT.get(dtype, 0.0) * np.abs(self.truth)
        rough = unit > UNIT.get(dtype, unit)  # the device may round, and need not where it did not
        whole = dtype is DType.F64 or rough
        explained = noise if whole else _seen(shares, self.compared) * noise
        usual = np.maximum(np.minimum(noise, _USUAL.get(dtype, 0.0) * own), _FLOOR[working(dtype)])
        self.ulp = np.maximum(np.maximum(explained, own), usual)
        if dtype is DType.F64:
            # The referee rounds as the programs do: the original's share of the difference is 0.
            self.ulp *= 2
        self.original = self._errors(self.ours)
        self.candidate = self._errors(self.theirs)
        off = np.abs(np.where(self.compared, self.ours - self.truth, 0.0))
        self.lost = bool(np.any(off > self.loss * size))

    def _errors(self, values: Array) -> Array:
        """Errors in units in the last place, where they are compared."""
        off = np.abs(values - self.truth)
        return np.where(self.compared & (off > 0), off / self.ulp, 0.0)

    def overflows(self, most: float) -> bool:
        """Whether the candidate is within an error wherever both are finite, or only it is."""
        there = np.isfinite(self.theirs)
        lacking = ~there & np.isfinite(self.ours)
        return not np.any(self.broken & ~lacking) and _largest(self.candidate[there]) <= most

    def shown_in(self, trial: Trial) -> Trial:
        """Points at the first broken element, or at the one with the largest error."""
        broken = bool(self.broken.any())
        where = np.unravel_index(np.argmax(self.broken if broken else self.candidate), self.shape)
        index = tuple(int(one) for one in where)
        expected = float((self.ours if broken else self.truth)[index])
        return replace(
            trial,
            output=self.number,
            index=index,
            expected=expected,
            found=float(self.theirs[index]),
        )


def _seen(shares: Array, where: Array) -> float:
    """Of the noise that roundings explain, the share that they make up where they are seen.

    Some originals are far more exact than that: differences of neighbours lose nothing.
    """
    largest = float(np.max(shares, where=where, initial=0.0))
    return min(1.0, max(_LEAST_SEEN, _TYPICAL * largest)) if largest > _LUCK else 1.0


def _same_kind(x: Array, y: Array) -> Array:
    """Both nan, or both the same infinity."""
    return (np.isnan(x) & np.isnan(y)) | (np.isinf(x) & np.equal(x, y))


def _largest(errors: Array) -> float:
    return float(np.max(errors, initial=0.0))


def _judged(distribution: str, outputs: list[_FloatOutput]) -> Trial:
    original = max(_largest(output.original) for output in outputs)
    candidate = max(_largest(output.candidate) for output in outputs)
    status, reason = _status(outputs, original, candidate)
    most = 2 * original + SLACK
    trial = Trial(
        distribution,
        status,
        reason,
        original,
        candidate,
        compared=sum(int(np.count_nonzero(output.compared)) for output in outputs),
        undetermined=sum(output.undetermined for output in outputs),
        newly_defined=sum(output.newly_defined for output in outputs),
        unseen=tuple(
            output.number for output in outputs if output.ours.size and not output.compared.any()
        ),
        overflows=status is FloatStatus.FAILED and all(one.overflows(most) for one in outputs),
    )
    worst = max(outputs, key=lambda output: (output.broken.any(), _largest(output.candidate)))
    return worst.shown_in(trial) if worst.ours.size else trial


def _status(
    outputs: list[_FloatOutput], original: float, candidate: float
) -> tuple[FloatStatus, str]:
    if any(output.broken.any() for output in outputs):
        return (
            FloatStatus.FAILED,
            "the candidate is not finite where the original is, or the reverse",
        )
    if all(not output.ours.size for output in outputs):
        return FloatStatus.PASSED, "no element to compare"
    if any(output.lost for output in outputs):
        return FloatStatus.SKIPPED, "the original itself is inaccurate"
    if not any(output.compared.any() for output in outputs):
        if any(output.undetermined for output in outputs):
            return FloatStatus.SKIPPED, "rounding decides the original's value"
        return FloatStatus.SKIPPED, "the original is nowhere finite"
    if any(original > 1 / output.loss for output in outputs):
        return FloatStatus.SKIPPED, "the original itself is inaccurate"
    if candidate > 2 * original + SLACK:
        return FloatStatus.FAILED, "the candidate loses more than rounding explains"
    return FloatStatus.PASSED, ""
