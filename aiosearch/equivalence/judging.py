"""The verdict on two programs: fields first, then a proof for all shapes, then floats.

`verify(a, b)` asks the layers in order of cost. Fields find differences of functions; a proof
extends equality to all shapes; floats can only speak against a candidate that the first two accept,
or find a counterexample where they do not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..tensor.analysis.generalise import Generalised, generalise, literal_sizes
from ..tensor.analysis.integer_overflow import may_overflow
from ..tensor.errors import ShapeError, TensorError
from ..tensor.floats import Array
from ..tensor.labels import explain_labels
from ..tensor.terms import Program, Term
from .counterexample import Counterexample, find_counterexample
from .fields import compare_fields
from .finite_field.rounding_residues import residue
from .floats import FloatEvidence, compare_floats
from .functions import verify_functions
from .inputs.limits import NO_LIMITS, Limits, within
from .proof import ProofWork, prove
from .runnables import require_comparable
from .verdict import Status, Verdict


def verify(
    a: Program,
    b: Program,
    *,
    seed: int = 0,
    draws: int = 2,
    strict: bool = False,
    floats: bool = True,
    given: Sequence[Array] | None = None,
    limits: Limits = NO_LIMITS,
    tolerance: float | None = None,
    seconds: float | None = None,
    work: ProofWork | None = None,
    most_elements: int | None = None,
    floats_alone: bool = False,
    tell: Callable[[str], None] | None = None,
    until: float = math.inf,
) -> Verdict:
    """Whether the candidate `b` may stand in for the original `a`.

    Inputs are matched by position. `strict` also asks for NaN and infinity where the original gives
    them. Without `floats` only real numbers are compared, at shapes of any size.

    Inputs that are `given` are tried first. `limits` say which values inputs have, and a
    `tolerance` how far results may be off, as a share of their size: with either, floats decide
    where the programs differ as functions of all real numbers. After `seconds` what is not done in
    floats is left out, and the evidence says so. `work` says how many steps each proof may take,
    and counts those of all: a program whose proof is larger is tested, and that is said.

    Programs with a value of more than `most_elements` are compared in floats at a smaller shape,
    where they are equal there as functions of real numbers; the evidence names it. With
    `floats_alone`, floats decide where the other layers do not tell, as they do of functions that
    can only be run. `tell` hears what each layer says as soon as it has said it. Once the monotonic
    clock has passed `until`, fields say no more, and no counterexample is looked for where they do
    not accept.
    """
    require_comparable(a, b)
    # The types match from here on: each layer may pair inputs and outputs by position.
    judge = _Judge(
        a,
        b,
        seed,
        draws,
        strict,
        floats,
        given,
        limits,
        tolerance,
        seconds,
        work or ProofWork(),
        most_elements,
        floats_alone,
        tell or (lambda text: None),
        until,
    )
    return judge.within() if limits or tolerance is not None else judge.verdict()


_LEAST_SIZE = 16
"""No size is made smaller than this for a comparison in floats: short sums lose nothing."""


@dataclass
class _Judge:
    """One comparison, by layers that each refine a `Verdict`."""

    a: Program
    b: Program
    seed: int
    draws: int
    strict: bool
    with_floats: bool
    given: Sequence[Array] | None
    limits: Limits
    tolerance: float | None
    seconds: float | None
    work: ProofWork
    most_elements: int | None
    floats_alone: bool
    tell: Callable[[str], None]
    until: float
    general: Generalised | None = None
    """Of the shapes for which the programs were accepted as functions of real numbers."""

    def within(self) -> Verdict:
        """The verdict on inputs within limits, or about results within a tolerance.

        What is proved of all numbers holds within limits too. What is not may hold there all the
        same, as |x| = x of positive numbers does, so that floats alone decide.
        """
        exact = self._limited_to_int32(self._without_residues(self._best()))
        floats = self._floats()
        verdict = replace(exact, floats=floats)
        bounds = within(self.limits, self.tolerance)
        if floats.outcome == "differ":
            worst = floats.first_failed
            reason = f"{worst.place}, on {worst.distribution} inputs of seed {self.seed}"
            return replace(verdict, status=Status.REFUTED, scope="", reason=reason)
        if exact.status.accepted:
            # Only what was compared in floats was held to the tolerance.
            return replace(verdict, scope=f"{exact.scope}; in floats{bounds}")
        if floats.outcome == "unknown":
            reason = _undecided(floats) if floats.undecided else str(floats)
            return replace(verdict, status=Status.CANNOT_JUDGE, reason=reason)
        scope = f"in floats only, at these shapes{bounds}"
        return replace(verdict, status=Status.TESTED, scope=scope, reason="")

    def _floats(self) -> FloatEvidence:
        a, b, shape = self._in_size()
        evidence = compare_floats(
            a,
            b,
            seed=self.seed,
            strict=self.strict,
            given=self.given,
            limits=self.limits,
            tolerance=self.tolerance,
            seconds=self.seconds,
            tell=self.tell,
        )
        return replace(evidence, shape=shape)

    def _in_size(self) -> tuple[Program, Program, str]:
        """The programs as they are compared in floats, and their shape where that is smaller."""
        most, general = self.most_elements, self.general
        # Inputs that are given have the shape that they have.
        if most is None or general is None or self.given is not None:
            return self.a, self.b, ""
        sizes = dict(general.values)
        pair = (self.a, self.b)
        while _largest_value(pair) > most:
            name = max(sizes, key=lambda name: sizes[name], default="")
            if not name or sizes[name] <= _LEAST_SIZE:
                break
            sizes[name] = max(sizes[name] // 2, _LEAST_SIZE)
            try:
                ours, theirs = general.at(sizes)
            except ShapeError:
                break
            pair = (ours, theirs)
        return *pair, "" if pair == (self.a, self.b) else general.shape_text(sizes)

    def verdict(self) -> Verdict:
        """The layers in their order."""
        return self._limited_to_int32(self._in_floats(self._without_residues(self._best())))

    def _limited_to_int32(self, verdict: Verdict) -> Verdict:
        """Narrows the scope of an accepted verdict where integers may wrap at 32 bits."""
        if not verdict.status.accepted or self.a.outputs == self.b.outputs:
            return verdict
        if not any(may_overflow(program, at_any_size=True) for program in (self.a, self.b)):
            return verdict
        return replace(verdict, scope=f"{verdict.scope}, where no whole number passes 32 bits")

    def _without_residues(self, verdict: Verdict) -> Verdict:
        """Withdraws acceptance of a program that computes its own rounding; see `residue`."""
        if not verdict.status.accepted or self.a.outputs == self.b.outputs:
            return verdict
        if (term := residue(self.a, self.seed)) is None:
            return verdict
        return replace(verdict, status=Status.CANNOT_JUDGE, scope="", reason=_about(term))

    def _best(self) -> Verdict:
        """The verdict about all shapes; or about fewer, where that is a better one."""
        programs = [self.a, self.b]
        verdict = self._in_reals(generalise(programs))
        # Proved for all shapes: no other generalisation can be better.
        if verdict.status is Status.PROVED:
            return verdict
        said = literal_sizes(programs)
        if said:
            again = self._in_reals(generalise(programs, said))
            # A literal 0.125 may be 1/8 for a size of 8: if the program is wrong at all sizes, it
            # may be right where that size is fixed.
            verdict = again if again.status.accepted else verdict
        if not verdict.status.accepted:
            # Last resort: sizes that happen to be equal here are assumed to be one size.
            again = self._in_reals(generalise(programs, tied=True))
            if again.status.accepted:
                return replace(again, scope=f"{again.scope}, if sizes that are equal here stay so")
        return verdict

    def _in_reals(self, general: Generalised) -> Verdict:
        """The verdict of fields and proof on the programs at general shapes."""
        ours, theirs = general.reduced()
        fields = compare_fields(
            ours,
            theirs,
            seed=self.seed,
            draws=self.draws,
            until=self.until,
            strict=self.strict,
        )
        self.tell(f"a fields: {fields.outcome}")
        verdict = Verdict(Status.CANNOT_JUDGE, "", "", general.shape_text(), fields)
        # Formal difference: a proof cannot exist, only floats can show it on real inputs.
        if fields.outcome == "differ":
            return verdict
        a, b = general.programs
        # Each generalisation has all the steps: the first may spend them where a later one is easy.
        work = ProofWork(self.work.steps, self.work.until)
        proof = prove(a, b, general.values, work, strict=self.strict)
        self.work.spent += work.spent
        self.tell(f"b proof: {'found' if proof.proved else 'none found'}")
        verdict = replace(verdict, proof=proof)
        if proof.proved or fields.outcome == "agree":
            self.general = general
        if proof.proved:
            return replace(verdict, status=Status.PROVED, scope=_all_shapes(general))
        if fields.outcome == "agree":
            scope = f"in exact arithmetic at {verdict.shape}"
            return replace(verdict, status=Status.TESTED, scope=scope)
        return verdict

    def _in_floats(self, verdict: Verdict) -> Verdict:
        """Lets floats speak against `verdict`.

        Asks them for a counterexample where there is no proof.
        """
        floats: FloatEvidence | None = None
        if verdict.status.accepted and self.with_floats:
            floats = self._floats()
            verdict = replace(verdict, floats=floats)
            # Equal output terms are equal in floats, whatever rounding does.
            if floats.undecided and self.a.outputs != self.b.outputs:
                return replace(
                    verdict, status=Status.CANNOT_JUDGE, scope="", reason=_undecided(floats)
                )
            if floats.outcome == "agree" and verdict.status is Status.TESTED:
                at = floats.shape or "the shapes given"
                verdict = replace(verdict, scope=f"{verdict.scope}, and in floats at {at}")
            if floats.outcome != "differ":
                return verdict
        elif verdict.status is Status.PROVED:
            return verdict
        a, b, shape = self._in_size()
        until = None if self.seconds is None else time.monotonic() + self.seconds
        # It is refused either way. What fields accept is never accepted without this.
        is_late = not verdict.status.accepted and time.monotonic() > self.until
        shown = None
        if not is_late:
            shown = find_counterexample(a, b, seed=self.seed, strict=self.strict, until=until)
        if shown is not None:
            return self._refuted(verdict, shown, f", at {shape}" if shape else "")
        if floats is not None:
            why = f"it is less accurate on {', '.join(floats.failed)} inputs"
            return replace(verdict, status=Status.REFUTED, scope="", reason=why)
        if verdict.status.accepted or verdict.reason:
            return verdict
        because = _obstacle(verdict)
        if not self.floats_alone or not self.with_floats or _differ(verdict):
            return replace(verdict, reason=because)
        alone = verify_functions(
            self.a,
            self.b,
            because,
            seed=self.seed,
            strict=self.strict,
            given=self.given,
            seconds=self.seconds,
            tell=self.tell,
        )
        return replace(alone, shape=verdict.shape, fields=verdict.fields, proof=verdict.proof)

    def _refuted(self, verdict: Verdict, shown: Counterexample, where: str) -> Verdict:
        """`verdict` as refuted by a counterexample."""
        return replace(
            verdict,
            status=Status.REFUTED,
            scope="",
            reason=f"{shown}{where}",
            counterexample=shown,
            labels=_labels(self.a, self.b),
        )


def _largest_value(programs: Sequence[Program]) -> int:
    """The elements of the largest value that is computed, inside of kernels too."""
    return max(
        math.prod(size for size in term.shape if isinstance(size, int))
        for program in programs
        for term in program.terms()
    )


def _about(term: Term) -> str:
    """The reason for withdrawing acceptance: the `term` that is a residue."""
    return (
        f"the original computes with its own rounding errors: `{term.operator.name}` gives"
        f" {term.type} of which real numbers say that it is zero"
    )


def _undecided(floats: FloatEvidence) -> str:
    """The reason where rounding decides the original's outputs."""
    outputs = ", ".join(map(str, floats.undecided))
    remark = f"on most inputs rounding decides what the original gives in output {outputs}"
    return f"{remark}: {floats.remark}" if floats.remark else remark


def _labels(a: Program, b: Program) -> str:
    """The axes that `b` confuses, as text; empty where labels do not tell."""
    try:
        return str(explain_labels(a, b) or "")
    except TensorError:
        return ""


def _all_shapes(general: Generalised) -> str:
    """The scope of a proof: all shapes, but for sizes that the programs fix."""
    if not general.fixed:
        return "for all shapes"
    fixed = ", ".join(f"{name} = {why.split(':')[0]}" for name, why in general.fixed.items())
    return f"for all shapes with {fixed}"


def _differ(verdict: Verdict) -> bool:
    """Whether the programs differ as formulas, wherever floats may show it."""
    return verdict.fields is not None and verdict.fields.outcome == "differ"


def _obstacle(verdict: Verdict) -> str:
    """Why nothing could be said of the programs."""
    fields = verdict.fields
    if fields is not None and _differ(verdict):
        return f"the fields differ ({fields.reason}), and no floats were found that show it"
    parts = [fields.reason if fields is not None else "", "no proof was found"]
    if verdict.proof is not None and verdict.proof.obstacle:
        parts[1] += f": {verdict.proof.obstacle}"
    return "; ".join(part for part in parts if part)
