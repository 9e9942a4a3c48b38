"""Are two programs the same? Fields first, then a proof for all shapes, then floats."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..tensor.analysis.generalise import Generalised, generalise, literal_sizes
from ..tensor.analysis.integer_overflow import may_overflow
from ..tensor.errors import TensorError
from ..tensor.labels import explain_labels
from ..tensor.terms import Program, Term
from .counterexample import Counterexample, find_counterexample
from .fields import compare_fields
from .finite_field.rounding_residues import residue
from .floats import FloatEvidence, compare_floats
from .proof import prove
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
) -> Verdict:
    """Whether the candidate `b` may stand in for the original `a`.

    Inputs are matched by position. `strict` also asks for NaN and infinity where the original
    gives them. Without `floats` only real numbers are compared, at shapes of any size.
    """
    require_comparable(a, b)
    judge = _Judge(a, b, seed, draws, strict, floats)
    return judge.verdict()


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
        return self._of_wholes(self._in_floats(self._about_numbers(self._best())))

    def _of_wholes(self, found: Verdict) -> Verdict:
        """Says of what is equal in numbers without end that it is so only where none wraps."""
        if not found.status.accepted or self.a.outputs == self.b.outputs:
            return found
        if not any(may_overflow(one, at_any_size=True) for one in (self.a, self.b)):
            return found
        return replace(found, scope=f"{found.scope}, where no whole number passes 32 bits")

    def _about_numbers(self, found: Verdict) -> Verdict:
        """Takes back what real numbers say of a program about its own rounding."""
        if not found.status.accepted or self.a.outputs == self.b.outputs:
            return found
        if (term := residue(self.a, self.seed)) is None:
            return found
        return replace(found, status=Status.CANNOT_JUDGE, scope="", reason=_about(term))

    def _best(self) -> Verdict:
        """The verdict about all shapes; or about fewer, where it is a better one."""
        programs = [self.a, self.b]
        found = self._in_reals(generalise(programs))
        if found.status is Status.PROVED:
            return found
        said = literal_sizes(programs)
        if said:
            again = self._in_reals(generalise(programs, said))
            found = again if again.status.accepted else found
        if not found.status.accepted:
            again = self._in_reals(generalise(programs, tied=True))
            if again.status.accepted:
                return replace(again, scope=f"{again.scope}, if sizes that are equal here stay so")
        return found

    def _in_reals(self, general: Generalised) -> Verdict:
        """What the first two layers say."""
        ours, theirs = general.reduced()
        fields = compare_fields(ours, theirs, seed=self.seed, draws=self.draws)
        found = Verdict(Status.CANNOT_JUDGE, "", "", general.shape_text(), fields)
        if fields.outcome == "differ":
            return found
        a, b = general.programs
        proof = prove(a, b, general.values)
        found = replace(found, proof=proof)
        if proof.proved:
            return replace(found, status=Status.PROVED, scope=_all_shapes(general))
        if fields.outcome == "agree":
            return replace(found, status=Status.TESTED, scope=f"at {found.shape}")
        return found

    def _in_floats(self, found: Verdict) -> Verdict:
        """Lets floats speak against it; asks them for a counterexample where there is no proof."""
        floats: FloatEvidence | None = None
        if found.status.accepted and self.with_floats:
            floats = compare_floats(self.a, self.b, seed=self.seed, strict=self.strict)
            found = replace(found, floats=floats)
            if floats.undecided and self.a.outputs != self.b.outputs:
                return replace(
                    found, status=Status.CANNOT_JUDGE, scope="", reason=_undecided(floats)
                )
            if floats.outcome != "differ":
                return found
        elif found.status is Status.PROVED:
            return found
        shown = find_counterexample(self.a, self.b, seed=self.seed, strict=self.strict)
        if shown is not None:
            return self._refuted(found, shown)
        if floats is not None:
            why = f"it is less accurate on {', '.join(floats.failed)} inputs"
            return replace(found, status=Status.REFUTED, scope="", reason=why)
        if found.status.accepted or found.reason:
            return found
        return replace(found, reason=_obstacle(found))

    def _refuted(self, found: Verdict, shown: Counterexample) -> Verdict:
        return replace(
            found,
            status=Status.REFUTED,
            scope="",
            reason=str(shown),
            counterexample=shown,
            labels=_labels(self.a, self.b),
        )


def _about(term: Term) -> str:
    return (
        f"the original computes with its own rounding errors: `{term.operator.name}` gives"
        f" {term.type} of which real numbers say that it is zero"
    )


def _undecided(floats: FloatEvidence) -> str:
    outputs = ", ".join(map(str, floats.undecided))
    told = f"on most inputs rounding decides what the original gives in output {outputs}"
    return f"{told}: {floats.remark}" if floats.remark else told


def _labels(a: Program, b: Program) -> str:
    try:
        return str(explain_labels(a, b) or "")
    except TensorError:
        return ""


def _all_shapes(general: Generalised) -> str:
    if not general.fixed:
        return "for all shapes"
    kept = ", ".join(f"{name} = {why.split(':')[0]}" for name, why in general.fixed.items())
    return f"for all shapes with {kept}"


def _obstacle(found: Verdict) -> str:
    """Why nothing could be said."""
    fields = found.fields
    if fields is not None and fields.outcome == "differ":
        return f"the fields differ ({fields.reason}), and no floats were found that show it"
    parts = [fields.reason if fields is not None else "", "no proof was found"]
    if found.proof is not None and found.proof.obstacle:
        parts[1] += f": {found.proof.obstacle}"
    return "; ".join(part for part in parts if part)
