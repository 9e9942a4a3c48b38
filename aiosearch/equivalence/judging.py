"""Are two programs the same? Fields first, then a proof for all shapes, then floats."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..tensor.errors import ShapeError, TensorError
from ..tensor.generalise import Generalised, generalise
from ..tensor.labels import explain_labels
from ..tensor.terms import Program
from .counterexample import Counterexample, find_counterexample
from .fields import FieldEvidence, compare_fields
from .floats import FloatEvidence, compare_floats
from .proof import Proof, prove
from .verdict import Status, Verdict


def verify(
    a: Program,
    b: Program,
    *,
    seed: int = 0,
    draws: int = 2,
    strict: bool = False,
    floats: bool = True,
) -> Verdict:
    """Whether the candidate `b` may stand in for the original `a`.

    Inputs are matched by position. `strict` also asks for NaN and infinity where the original
    gives them. Without `floats` only real numbers are compared, at shapes of any size.
    """
    require_comparable(a, b)
    judge = _Judge(a, b, seed, draws, strict, floats)
    return judge.verdict()


def require_comparable(a: Program, b: Program) -> None:
    """Raises ShapeError unless both take and give the same types."""
    for what, ours, theirs in (
        ("inputs", a.inputs, b.inputs),
        ("outputs", a.outputs, b.outputs),
    ):
        one, two = [str(term.type) for term in ours], [str(term.type) for term in theirs]
        if one != two:
            raise ShapeError(
                f"the programs have other {what}: {', '.join(one)} and {', '.join(two)}"
            )


@dataclass
class _Judge:
    """One comparison."""

    a: Program
    b: Program
    seed: int
    draws: int
    strict: bool
    with_floats: bool

    def verdict(self) -> Verdict:
        general = generalise([self.a, self.b])
        reduced = general.reduced()
        fields = compare_fields(reduced[0], reduced[1], seed=self.seed, draws=self.draws)
        found = Verdict(Status.CANNOT_JUDGE, "", "", general.shape_text(), fields)
        if fields.outcome != "differ":
            found = self._proved(found, general)
        if not found.status.accepted and fields.outcome == "agree":
            found = replace(found, status=Status.TESTED, scope=f"at {found.shape}")
        return self._in_floats(found, reduced)

    def _proved(self, found: Verdict, general: Generalised) -> Verdict:
        """Tries a proof for all shapes, then one for the shape at hand."""
        ours, theirs = general.programs
        proof = prove(ours, theirs, general.values)
        found = replace(found, proof=proof)
        if proof.proved:
            return replace(found, status=Status.PROVED, scope=_all_shapes(general))
        if found.fields is None or found.fields.outcome != "agree" or not general.values:
            return found
        here = prove(self.a, self.b, {})
        found = replace(found, here=here)
        if here.proved:
            return replace(found, status=Status.TESTED, scope="at these sizes, without doubt")
        return found

    def _in_floats(self, found: Verdict, reduced: list[Program]) -> Verdict:
        """Lets floats speak against it; asks them for a counterexample where nothing is known."""
        floats: FloatEvidence | None = None
        if found.status.accepted:
            if not self.with_floats:
                return self._in_reals(found, reduced)
            floats = compare_floats(self.a, self.b, seed=self.seed, strict=self.strict)
            found = replace(found, floats=floats)
            if floats.outcome != "differ":
                return found
        shown = self._counterexample()
        if shown is not None:
            return self._refuted(found, shown)
        if floats is not None:
            return replace(
                found,
                status=Status.REFUTED,
                scope="",
                reason=f"it is less accurate on {', '.join(floats.failed)} inputs",
            )
        return replace(found, reason=_obstacle(found))

    def _in_reals(self, found: Verdict, reduced: list[Program]) -> Verdict:
        """Without floats: what is only tested may still leave the original's domain."""
        if found.status is Status.PROVED or found.proof is None:
            return found
        if find_counterexample(*reduced, seed=self.seed, strict=self.strict) is None:
            return found
        shown = self._counterexample()
        return found if shown is None else self._refuted(found, shown)

    def _counterexample(self) -> Counterexample | None:
        return find_counterexample(self.a, self.b, seed=self.seed, strict=self.strict)

    def _refuted(self, found: Verdict, shown: Counterexample) -> Verdict:
        return replace(
            found,
            status=Status.REFUTED,
            scope="",
            reason=str(shown),
            counterexample=shown,
            labels=_labels(self.a, self.b),
        )


def _labels(a: Program, b: Program) -> str:
    try:
        return str(explain_labels(a, b) or "")
    except TensorError:
        return ""


def _all_shapes(general: Generalised) -> str:
    if not general.fixed:
        return "for all shapes"
    kept = ", ".join(f"{name} = {why}" for name, why in general.fixed.items())
    return f"for all shapes with {kept}"


def _obstacle(found: Verdict) -> str:
    """Why nothing could be said."""
    fields: FieldEvidence | None = found.fields
    if fields is not None and fields.outcome == "differ":
        return f"the fields differ ({fields.reason}), and no floats were found that show it"
    parts = [fields.reason if fields is not None else "", "no proof was found"]
    proof: Proof | None = found.proof
    if proof is not None and proof.obstacle:
        parts[1] += f": {proof.obstacle}"
    return "; ".join(part for part in parts if part)
