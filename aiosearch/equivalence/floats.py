"""Two programs in floating point, at their real shapes and types, under the domain policy.

Problem: a candidate that is equal in real numbers may still lose digits or overflow: E[x²] - E[x]²
for a variance. How much may it lose? The original rounds too, and cancels too.

Method: on each of `FLOAT_DISTRIBUTIONS`, which include inputs that are typical of the original
(`TYPICAL`), and on those that a caller gives, both programs run in their own types, and the
original a second time in float64 with its noise (`rounding.noise`), which is the truth. Errors are
counted in units in the last place, where a unit is never below what rounding does to the original
at that element. The candidate passes if its worst error is at most twice the original's plus
`SLACK`.

Example: the original's worst error is 1.5 units, so the candidate may have 2·1.5 + 4 = 7. On
`shifted` inputs of mean 1024, E[x²] and E[x]² agree in most of their digits, which the naive
variance loses: it fails there, and passes on `normal` ones.

Domain policy: where the original is not finite, the candidate may be anything, unless `strict`;
where the original is finite, the candidate has to be. Where rounding decides the original's value,
nothing is compared (`Trial.undetermined`), and a trial without anything to compare is skipped.

Invariant: this layer speaks against candidates; it never proves equality. Cost: for each
distribution one run of either program, and one of the original with noise, at full size. See
docs/why/verdicts.md.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property, partial

import numpy as np

from ..documents import Document
from ..tensor.errors import ShapeError
from ..tensor.floats import Array
from ..tensor.terms import Program
from ..tensor.types import DType, TensorType
from .inputs.draws import FLOAT_DISTRIBUTIONS, decides_small_values
from .inputs.limits import NO_LIMITS, Limits, limited
from .inputs.singular import SINGULAR
from .inputs.typical import TYPICAL
from .lost_values import lost_remark, masking_remark
from .rounding.machine import UNIT, OutOfTimeError, Working, rounded, working
from .rounding.noise import NoisyArray
from .runnables import ExecutedProgram, RunnableSide, not_finite, require_comparable

SLACK = 4.0
"""Units in the last place that a candidate may lose beyond twice what the original loses."""

_TYPICAL, _LEAST_SEEN, _LUCK = 8.0, 2.0**-8, 2.0**-12
"""How `_observed_share` scales noise to what is seen.

Rounding errors mostly come to an eighth of their bound (`_TYPICAL`), and are never taken for less
than `_LEAST_SEEN` of it. Where next to none is seen (`_LUCK`), it is by luck: the inputs need none.
"""

_USUAL = {DType.F32: 8.0}
"""Units that are no loss, for each type, where rounding explains as many.

Another order of a long sum may come to that, and what loses digits comes to more. In half types
there are none: sums are exact beside them.
"""

ENOUGH = 3
"""Distributions that have to say something; `FloatEvidence` from fewer says that it is weak."""

GIVEN = "given"
"""The name of the inputs that a caller gives, which are as good as typical ones."""

OF_CANDIDATE = f"{SINGULAR} in the candidate"
"""The name of inputs at which the candidate may leave the numbers."""

_MANY, _LOST_SHARE = 16, 0.25
"""Of so many elements, all of them finite, no original is finite by luck alone.

What loses this share of them leaves the numbers, whatever rounding does to their values.
"""

_LOSES_DIGITS = "the candidate loses more than rounding explains"

_STRAYS = "the candidate is far from what the original rightly gives on the inputs given"

_ROUGH, _RIGHT = 0.05, 0.005
"""No tolerance above `_ROUGH` is proposed: what is off by more is wrong. What is off by less than
`_RIGHT` is visibly right, whatever rounding might have done to it."""

_FLOOR: dict[Working, float] = {np.float32: 2.0**-116, np.float64: 2.0**-1012}
"""No unit is smaller.

Values near the end of a type's range are lost when their inverse overflows.
"""


class FloatStatus(StrEnum):
    """The outcome of a `Trial`: nothing against the candidate, something, or nothing at all."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Trial:
    """How a candidate fared on one distribution.

    Errors are counted in units in the last place, where a unit is at least what rounding on the way
    of the original does to the element: sums that cancel are not held to their own small size, but
    differences that the original computes without a loss are.
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
    """Where in `output` the candidate is worst."""
    expected: float = math.nan
    found: float = math.nan
    unseen: tuple[int, ...] = ()
    """The outputs of which no element is `compared`."""
    overflows: bool = False
    """Whether it failed only because the candidate is not finite somewhere.

    Elsewhere it is right.
    """
    absolute_error: float = 0.0
    """The largest distance of the candidate from the truth, where it is compared."""
    relative_error: float = 0.0
    """The same as a share of the value, or of the output's root mean square if that is larger."""

    @property
    def place(self) -> str:
        """Where the candidate is worst, and both values, as text."""
        index = ", ".join(map(str, self.index))
        actual, expected = _distinct_digits(self.found, self.expected)
        return f"output {self.output} at [{index}] is {actual} and should be {expected}"

    def __str__(self) -> str:
        text = f"{self.distribution} {self.status}: {self.reason}"
        return f"{text} ({self.place})" if self.status is FloatStatus.FAILED else text

    def to_dict(self) -> Document:
        """The trial for JSON."""
        return {
            "distribution": self.distribution,
            "status": self.status.value,
            "reason": self.reason,
            "original_error_ulp": plain(self.original_error),
            "candidate_error_ulp": plain(self.candidate_error),
            "absolute_error": plain(self.absolute_error),
            "relative_error": plain(self.relative_error),
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

    `aiosearch.equivalence.inputs.draws.draw_for(program, distribution, seed)` gives the inputs of
    a trial, and comparing once more with its seed and distribution the trial itself.
    """

    seed: int
    strict: bool
    trials: tuple[Trial, ...]
    remark: str = ""
    """Where the outcome is `unknown`, what in the original may be why."""
    shape: str = ""
    """The smaller shape that large programs were compared at; empty where that is their own."""

    @property
    def outcome(self) -> str:
        """`differ` if any trial failed, `agree` if any passed, else `unknown`.

        Where an output is `undecided`, it is `unknown` whatever the trials say.
        """
        statuses = {trial.status for trial in self.trials}
        if FloatStatus.FAILED in statuses:
            return "differ"
        return "agree" if FloatStatus.PASSED in statuses and not self.undecided else "unknown"

    @property
    def undecided(self) -> tuple[int, ...]:
        """Outputs that rounding decides on most of the distributions that give numbers.

        It has to do so on most of the typical inputs too, where those give numbers: others may well
        be such as the program is never given.
        """
        usual = self.usual
        everywhere = _mostly_rounding(self.trials)
        if any(trial.compared or trial.undetermined for trial in usual):
            everywhere &= _mostly_rounding(usual)
        return tuple(sorted(everywhere))

    @property
    def usual(self) -> tuple[Trial, ...]:
        """The trials on typical inputs, and on those given."""
        return tuple(trial for trial in self.trials if trial.distribution in (*TYPICAL, GIVEN))

    @property
    def skipped(self) -> tuple[str, ...]:
        """The distributions that say nothing, by name."""
        return self._named(FloatStatus.SKIPPED)

    @property
    def overflows(self) -> bool:
        """Whether all that speaks against the candidate is that it is not finite everywhere."""
        failed = [trial for trial in self.trials if trial.status is FloatStatus.FAILED]
        return bool(failed) and all(trial.overflows for trial in failed)

    @property
    def tolerance(self) -> float | None:
        """The tolerance that would accept a candidate which does nothing but lose digits."""
        failed = [trial for trial in self.trials if trial.status is FloatStatus.FAILED]
        worst = max((trial.relative_error for trial in self.trials if trial.compared), default=0.0)
        if not failed or any(trial.reason != _LOSES_DIGITS for trial in failed):
            return None
        return worst if 0 < worst < _ROUGH else None

    @property
    def counted(self) -> int:
        """On how many distributions the original is finite and accurate enough to be compared."""
        return len(self.trials) - len(self.skipped)

    @property
    def failed(self) -> tuple[str, ...]:
        """The distributions that speak against the candidate, by name."""
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
        """Elements, over all `trials`, at which only the candidate is finite."""
        return sum(trial.newly_defined for trial in self.trials)

    def __str__(self) -> str:
        of = f" of {len(self.trials)}" if self.skipped else ""
        weak = "only " if 0 < self.counted < min(ENOUGH, len(self.trials)) else ""
        many = "s" * (len(self.trials) != 1)
        at = f" at {self.shape}" if self.shape else ""
        parts = [f"{self.outcome} on {weak}{self.counted}{of} distribution{many}{at}"]
        parts += self._failures()
        parts += self._skips()
        passed = [trial for trial in self.trials if trial.status is FloatStatus.PASSED]
        if passed:
            worst = max(passed, key=lambda trial: trial.candidate_error)
            parts.append(f"at most {worst.candidate_error:.2g} ulp where it passed")
        parts += self._errors()
        if self.newly_defined:
            many = "s" * (self.newly_defined != 1)
            parts.append(f"more defined at {self.newly_defined} element{many}")
        return "; ".join([*parts, *([self.remark] if self.remark else [])])

    def _failures(self) -> list[str]:
        """The failed distributions as text: for each reason the first with its place, and the names
        of the others."""
        failed = [trial for trial in self.trials if trial.status is FloatStatus.FAILED]
        texts = []
        for reason in dict.fromkeys(trial.reason for trial in failed):
            first, *others = (trial for trial in failed if trial.reason == reason)
            names = ", ".join(trial.distribution for trial in others)
            texts.append(f"{first}, and so on {names} inputs" if others else str(first))
        return texts

    def _errors(self) -> list[str]:
        """The largest errors of all that was compared, as text."""
        compared = [trial for trial in self.trials if trial.compared]
        if not compared:
            return []
        absolute = max(compared, key=lambda trial: trial.absolute_error)
        relative = max(compared, key=lambda trial: trial.relative_error)
        # What differs in what is finite alone has no error to name.
        if self.outcome == "differ" and not absolute.absolute_error:
            return []
        # Large numbers have large errors: 1e+30 is no news there.
        return [
            f"largest error {absolute.absolute_error:.2g} (on {absolute.distribution} inputs),"
            f" relative {relative.relative_error:.2g} (on {relative.distribution} inputs)"
        ]

    def _skips(self) -> list[str]:
        """The skipped distributions as text, once for each reason."""
        skipped = [trial for trial in self.trials if trial.status is FloatStatus.SKIPPED]
        reasons = dict.fromkeys(trial.reason for trial in skipped)
        return [
            f"{', '.join(trial.distribution for trial in skipped if trial.reason == reason)}"
            f" skipped: {reason}"
            for reason in reasons
        ]

    def _named(self, status: FloatStatus) -> tuple[str, ...]:
        """The distributions whose trial has `status`."""
        return tuple(trial.distribution for trial in self.trials if trial.status is status)

    def remarked(self, original: Program) -> FloatEvidence:
        """The evidence with a `remark` where no inputs tell, or not of all outputs."""
        if self.outcome == "differ" or not (self.outcome == "unknown" or self.unseen):
            return self
        if not self.trials:
            return self
        silent = self.undecided or self.unseen or range(len(original.outputs))
        remark = masking_remark(original) or lost_remark(original, silent)
        return replace(self, remark="; ".join(filter(None, (self.remark, remark))))

    def to_dict(self) -> Document:
        """The evidence for JSON, with all trials."""
        return {
            "outcome": self.outcome,
            "remark": self.remark,
            "shape": self.shape,
            "seed": self.seed,
            "strict": self.strict,
            "inputs": "aiosearch.equivalence.inputs.draws.draw_for(program, distribution, seed)",
            "trials": [trial.to_dict() for trial in self.trials],
        }


def _mostly_rounding(trials: Sequence[Trial]) -> set[int]:
    """The outputs that rounding decides on most of those trials that give numbers."""
    numbers = [trial for trial in trials if trial.compared or trial.undetermined]
    decided = Counter(output for trial in numbers if trial.undetermined for output in trial.unseen)
    return {output for output, count in decided.items() if 2 * count > len(numbers)}


def _distinct_digits(x: float, y: float) -> tuple[str, str]:
    """Two numbers in as many digits as tell them apart: `("1.00001", "1")`."""
    for digits in (6, 9):
        if f"{x:.{digits}g}" != f"{y:.{digits}g}":
            return f"{x:.{digits}g}", f"{y:.{digits}g}"
    return f"{x:.17g}", f"{y:.17g}"


def plain(number: float) -> float | str:
    """A number that JSON can hold; infinities and NaN by name, as `"inf"`."""
    return float(number) if math.isfinite(number) else str(float(number))


def compare_floats(
    a: Program,
    b: Program,
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

    Inputs that are `given` are one distribution more; others are kept within `limits`. With a
    `tolerance` errors are held to that, see `compare_sides`, which says what `seconds` and `tell`
    are too.
    """
    require_comparable(a, b)
    until = None if seconds is None else time.monotonic() + seconds
    compare = partial(
        compare_sides,
        seed=seed,
        strict=strict,
        distributions=distributions,
        given=given,
        tolerance=tolerance,
        seconds=seconds,
    )
    theirs = limited(ExecutedProgram(b, until=until), limits)
    evidence = compare(limited(ExecutedProgram(a, until=until), limits), theirs, tell=tell)
    if evidence.outcome == "unknown" and evidence.undecided and decides_small_values(a):
        # What disagrees where two are computed alike may still do so by rounding: then it is not
        # known, as before.
        tied = compare(limited(ExecutedProgram(a, until=until, ties=True), limits), theirs)
        if tied.outcome == "agree" and not tied.unseen:
            evidence = tied
    return evidence.remarked(a)


def compare_sides(
    a: RunnableSide,
    b: RunnableSide,
    *,
    seed: int,
    strict: bool,
    distributions: Sequence[str] | None = None,
    given: Sequence[Array] | None = None,
    tolerance: float | None = None,
    seconds: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> FloatEvidence:
    """Compares whatever can be run, on each of `distributions`; the truth is that of `a`.

    Without `distributions` these are all that say something of either side.

    What is `given` are inputs that `a` is known to be run on, if any are; they are first. With a
    `tolerance` an error may come to this share of the value, or of the root mean square of its
    output where that is larger; how accurate the original is plays no part then. Once `seconds`
    have passed, distributions that have not begun are left out, and so is the one that is being
    run, where the sides can leave off; the evidence says so. `tell` hears of each that is done.
    """
    began = time.monotonic()
    usual = usual_distributions(a, strict, distributions)
    runs = [(name, partial(a.draw, name, seed)) for name in usual]
    if given is not None:
        runs.insert(0, (GIVEN, partial(in_types, a.inputs, given)))
    if SINGULAR in b.points and distributions is None:
        # Where the candidate divides by zero, the original may well be a number.
        runs.append((OF_CANDIDATE, partial(b.draw, SINGULAR, seed)))
    trials: list[Trial] = []
    remark = ""
    for name, inputs in runs:
        late = seconds is not None and time.monotonic() - began > seconds
        try:
            if late and trials:
                raise OutOfTimeError
            trials.append(compare_on(inputs(), a, b, name, strict, tolerance))
        except OutOfTimeError:
            remark = f"{len(runs) - len(trials)} distributions were left out after {seconds:g} s"
            break
        if tell is not None:
            tell(f"c floats: {len(trials)} of {len(runs)}, {name} {trials[-1].status}")
    return FloatEvidence(seed, strict, tuple(trials), remark)


def usual_distributions(
    side: RunnableSide, strict: bool, distributions: Sequence[str] | None = None
) -> tuple[str, ...]:
    """The distributions that say something of an original, or these and what is not finite."""
    usual = (*FLOAT_DISTRIBUTIONS, *side.points) if distributions is None else distributions
    return (*usual, *not_finite(side, strict))


def in_types(types: Sequence[TensorType], values: Sequence[Array]) -> list[Array]:
    """Values as inputs of these types; raises ShapeError where they do not fit."""
    shapes, wanted = [np.shape(value) for value in values], [type_.shape for type_ in types]
    if shapes != wanted:
        raise ShapeError(f"the inputs given have shapes {shapes}, and should have {wanted}")
    return [
        rounded(np.asarray(value).astype(working(type_.dtype)), type_.dtype)
        for type_, value in zip(types, values, strict=True)
    ]


def compare_on(
    inputs: Sequence[Array],
    a: RunnableSide,
    b: RunnableSide,
    distribution: str,
    strict: bool,
    tolerance: float | None = None,
) -> Trial:
    """One trial on given `inputs`, which `distribution` names."""
    ours = a.own(inputs)
    theirs = b.own(inputs)
    truth = _truth(a, inputs, ours)
    return compare_outputs(a, lambda: inputs, ours, theirs, truth, distribution, strict, tolerance)


def compare_outputs(
    a: RunnableSide,
    inputs: Callable[[], Sequence[Array]],
    ours: Sequence[Array],
    theirs: Sequence[Array],
    truth: Sequence[NoisyArray],
    distribution: str,
    strict: bool,
    tolerance: float | None = None,
) -> Trial:
    """One trial, of what the original `a` and a candidate gave, and what `a` should give.

    The `inputs` are asked for where a candidate is no number, and it may be by chance.
    """
    dtypes = [type_.dtype for type_ in a.outputs]
    by_chance = cache(lambda: a.is_left_to_rounding(inputs()))
    with np.errstate(all="ignore"):
        outputs = [
            _FloatOutput(number, dtype, a, our, their, real, strict, by_chance)
            for number, (dtype, our, their, real) in enumerate(
                zip(dtypes, ours, theirs, truth, strict=True)
            )
        ]
    return _judged(distribution, outputs, tolerance)


def _truth(a: RunnableSide, inputs: Sequence[Array], ours: list[Array]) -> list[NoisyArray]:
    """What the original should give; not computed where it is nowhere finite."""
    if not any(np.isfinite(value).any() for value in ours):
        return [NoisyArray(value) for value in ours]
    return a.truth(inputs)


class _FloatOutput:
    """One output of one trial: errors of both sides, and what is not compared."""

    def __init__(
        self,
        number: int,
        dtype: DType,
        side: RunnableSide,
        ours: Array,
        theirs: Array,
        truth: NoisyArray,
        strict: bool,
        by_chance: Callable[[], bool],
    ) -> None:
        self.number = number
        facts = side.facts[number]
        # Finite on no input, and the candidate is like it.
        self.never = not ours.size or (facts.never_finite and not np.isfinite(theirs).any())
        self.dtype = dtype
        self.shape = ours.shape
        self.ours = ours.astype(np.float64)
        self.theirs = theirs.astype(np.float64)
        self.truth = truth.value.astype(np.float64)
        unit = side.unit(dtype)
        # What was rounded to a narrow type has no more digits in a wide one.
        self.loss = math.sqrt(max(unit, facts.coarsest))
        finite = np.isfinite(self.ours)
        # An element counts if its noise is small beside the output's largest value: small elements
        # of a large output are compared too, at the output's scale.
        self.added, size = truth.added, truth.size
        noise = np.broadcast_to(truth.spread, finite.shape)
        both_finite = finite & np.isfinite(self.truth)
        # How much of its noise bound each error of the original uses.
        shares = np.abs(self.ours - self.truth) / np.where(noise > 0, noise, np.inf)
        clear = both_finite & (_observed_share(shares, both_finite) * noise <= self.loss * size)
        # One run shows all that there is of a constant: what gives the same is the same.
        self.same = np.equal(self.ours, self.theirs) & facts.constant
        clear |= both_finite & self.same
        self.compared = finite & clear
        self.undetermined = int(np.count_nonzero(finite & ~clear))
        self.newly_defined = int(np.count_nonzero(~finite & np.isfinite(self.theirs)))
        # Broken means refuted whatever the error: a number was there, and is not any more.
        gone = ~np.isfinite(self.theirs)
        self.broken = self.compared & gone
        if (
            both_finite.size >= _MANY
            and both_finite.all()
            and np.count_nonzero(gone) >= _LOST_SHARE * gone.size
            # One root of what is mere rounding makes all of them numbers, or none.
            and not by_chance()
        ):
            self.broken |= gone
        if strict:
            self.broken |= ~finite & ~_same_kind(self.ours, self.theirs)
        # UNIT is half a unit in the last place, the error of one rounding.
        last_place = 2 * UNIT.get(dtype, 0.0) * np.abs(self.truth)
        rough = unit > UNIT.get(dtype, unit)  # the device may round, and need not where it did not
        whole = dtype is DType.F64 or rough
        # The bound is scaled by what is seen of it: an original that is exact where its bound is
        # wide holds the candidate to that. Not in float64, where truth and original round alike.
        explained = noise if whole else _observed_share(shares, self.compared) * noise
        usual = np.maximum(
            np.minimum(noise, _USUAL.get(dtype, 0.0) * last_place), _FLOOR[working(dtype)]
        )
        self.ulp = np.maximum(np.maximum(explained, last_place), usual)
        if dtype is DType.F64:
            # The referee rounds as the programs do: the original's share of the difference is 0.
            self.ulp *= 2
        self.original = self._errors(self.ours)
        self.candidate = self._errors(self.theirs)
        off = np.abs(np.where(self.compared & ~self.same, self.ours - self.truth, 0.0))
        # √unit of the scale is half of the digits: such an original is no measure for a candidate.
        self.lost = bool(np.any(off > self.loss * size))

    def _errors(self, values: Array) -> Array:
        """Errors of `values` in units in the last place, where they are compared."""
        off = np.abs(values - self.truth)
        return np.where(self.compared & ~self.same & (off > 0), off / self.ulp, 0.0)

    @cached_property
    def absolute_error(self) -> float:
        """The largest distance of the candidate from the truth, where it is compared."""
        return _largest(self._off)

    @cached_property
    def relative_error(self) -> float:
        """The largest share of its value, of its output's root mean square, or of what was added up
        there, that an error is."""
        values, off = np.abs(self.truth[self.compared]), self._off
        size = _largest(values)
        # Scaled first: squares of large values overflow.
        usual = size * math.sqrt(float(np.mean(np.square(values / size)))) if size > 0 else 0.0
        # What is left of a sum that cancels is no measure.
        usual = max(usual, self.added)
        # Where all that should be there is 0, any error is infinitely large beside it.
        with np.errstate(all="ignore"):
            return _largest(off / np.where(off > 0, np.maximum(np.abs(self.truth), usual), 1.0))

    @property
    def _off(self) -> Array:
        counted = self.compared & np.isfinite(self.theirs)
        with np.errstate(all="ignore"):
            return np.where(counted, np.abs(self.theirs - self.truth), 0.0)

    def overflows(self, most: float) -> bool:
        """Whether the candidate is within `most` wherever both are finite, or only it is finite."""
        there = np.isfinite(self.theirs)
        lacking = ~there & np.isfinite(self.ours)
        return not np.any(self.broken & ~lacking) and _largest(self.candidate[there]) <= most

    @cached_property
    def strays(self) -> bool:
        """Whether the candidate is visibly wrong and the original visibly right, as a whole.

        Where rounding might decide, it need not have done so. A gradient that is 0 in real numbers
        is no example: there the original is as far from the truth as it is large.
        """
        return self._share_off(self.ours) < _RIGHT and self._share_off(self.theirs) > _ROUGH

    def _share_off(self, values: Array) -> float:
        """The root mean square of the errors of `values`, as a share of that of the truth."""
        off = self._far(values)
        truth = np.where(off >= 0, np.abs(self.truth), 0.0)
        largest = _largest(truth)
        if not largest:
            return 0.0
        # Scaled first, as above.
        with np.errstate(over="ignore"):
            errors, sizes = (np.sum(np.square(part / largest)) for part in (off.clip(0), truth))
        return math.sqrt(float(errors) / float(sizes))

    def _far(self, values: Array) -> Array:
        """The distance of `values` from the truth where all sides are finite, and -1 elsewhere."""
        there = np.isfinite(self.ours) & np.isfinite(self.theirs) & np.isfinite(self.truth)
        with np.errstate(all="ignore"):
            return np.where(there, np.abs(values - self.truth), -1.0)

    def shown_in(self, trial: Trial) -> Trial:
        """`trial`, pointing at the first broken element or the one with the largest error."""
        broken = bool(self.broken.any())
        errors = self._far(self.theirs) if trial.reason == _STRAYS else self.candidate
        where = np.unravel_index(np.argmax(self.broken if broken else errors), self.shape)
        index = tuple(int(coordinate) for coordinate in where)
        expected = float((self.ours if broken else self.truth)[index])
        return replace(
            trial,
            output=self.number,
            index=index,
            expected=expected,
            found=float(self.theirs[index]),
        )


def _observed_share(shares: Array, where: Array) -> float:
    """The share of the noise bound that the original's errors make up `where` they are seen.

    Some originals are far more exact than the bound: differences of neighbours lose nothing.
    """
    largest = float(np.max(shares, where=where, initial=0.0))
    # Never above the bound, never below _LEAST_SEEN of it.
    return min(1.0, max(_LEAST_SEEN, _TYPICAL * largest)) if largest > _LUCK else 1.0


def _same_kind(x: Array, y: Array) -> Array:
    """Where both are NaN, or both the same infinity."""
    return (np.isnan(x) & np.isnan(y)) | (np.isinf(x) & np.equal(x, y))


def _largest(errors: Array) -> float:
    """The largest error, 0 of none."""
    return float(np.max(errors, initial=0.0))


def _judged(distribution: str, outputs: list[_FloatOutput], tolerance: float | None) -> Trial:
    """The trial that all outputs together come to."""
    original = max(_largest(output.original) for output in outputs)
    candidate = max(_largest(output.candidate) for output in outputs)
    if tolerance is None:
        status, reason = _status(outputs, original, candidate)
        # A user looks at these first: what the bound on rounding leaves open is seen here.
        strays = distribution == GIVEN and any(output.strays for output in outputs)
        if strays and status is not FloatStatus.FAILED:
            status, reason = FloatStatus.FAILED, _STRAYS
    else:
        status, reason = _within(outputs, tolerance)
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
            output.number
            for output in outputs
            if output.ours.size and not output.compared.any() and not output.never
        ),
        overflows=status is FloatStatus.FAILED
        and reason != _STRAYS
        and all(output.overflows(most) for output in outputs),
        absolute_error=max(output.absolute_error for output in outputs),
        relative_error=max(output.relative_error for output in outputs),
    )
    # A broken output is worse than any error.
    strayed = reason == _STRAYS
    worst = max(
        outputs,
        key=lambda output: (
            output.broken.any(),
            strayed and output.strays,
            _largest(output.candidate),
        ),
    )
    return worst.shown_in(trial) if worst.ours.size else trial


def _within(outputs: list[_FloatOutput], tolerance: float) -> tuple[FloatStatus, str]:
    """The same, where a user says how large errors may be."""
    if any(output.broken.any() for output in outputs):
        return (
            FloatStatus.FAILED,
            "the candidate is not finite where the original is, or the reverse",
        )
    if any(output.relative_error > tolerance for output in outputs):
        return FloatStatus.FAILED, f"the candidate is off by more than {tolerance:g}"
    if any(output.ours.size and not output.compared.any() for output in outputs):
        return FloatStatus.SKIPPED, "the original is nowhere finite, or rounding decides its value"
    return FloatStatus.PASSED, ""


def _status(
    outputs: list[_FloatOutput], original: float, candidate: float
) -> tuple[FloatStatus, str]:
    """The `FloatStatus` of a trial and its reason, from the worst errors of both sides."""
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
        if all(output.never for output in outputs):
            return FloatStatus.PASSED, "neither is finite, and the original is so on no input"
        return FloatStatus.SKIPPED, "the original is nowhere finite"
    # Errors beyond half of the digits, counted in units.
    if any(original > 1 / output.loss for output in outputs):
        return FloatStatus.SKIPPED, "the original itself is inaccurate"
    if candidate > 2 * original + SLACK:
        return FloatStatus.FAILED, _LOSES_DIGITS
    return FloatStatus.PASSED, ""
