"""What is known of two programs, and by which layer: the `Verdict` of `verify`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ..documents import Document
from .counterexample import Counterexample
from .fields import FieldEvidence
from .floats import FloatEvidence
from .proof import Proof


class Status(StrEnum):
    """The four things that can be said of a candidate. What is not proved is not refuted."""

    PROVED = "proved"
    """Equal as functions of real numbers, at all shapes in scope; no floats speak against it."""
    TESTED = "tested"
    """Equal but for `FieldEvidence.bound`, at the shape that was tested; no float trial against it.

    Or floats alone speak for it, where `Verdict.scope` says so.
    """
    REFUTED = "refuted"
    """The programs differ, on inputs that can be drawn again; see `Counterexample`."""
    CANNOT_JUDGE = "cannot judge"
    """Something stands in the way, which `Verdict.reason` names."""

    @property
    def accepted(self) -> bool:
        """Whether the candidate may stand in for the original."""
        return self in (Status.PROVED, Status.TESTED)


@dataclass(frozen=True)
class Verdict:
    """A status, its scope, and the evidence of each layer that was asked."""

    status: Status
    reason: str
    """What stands in the way, or where they differ; empty where they are equal."""
    scope: str
    """The shapes that `status` is about."""
    shape: str
    """The reduced shape that `fields` were asked at."""
    fields: FieldEvidence | None = None
    proof: Proof | None = None
    floats: FloatEvidence | None = None
    counterexample: Counterexample | None = None
    labels: str = ""
    """The axes that the second program confuses, if it does."""

    def summary(self) -> list[str]:
        """Lines to show: the verdict, then one for each layer."""
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        """The lines of `summary`."""
        yield f"{self.status} — {self.scope}" if self.status.accepted else f"{self.status}"
        if self.reason:
            yield f"  because {self.reason}"
        if self.labels:
            yield f"  labels: {self.labels}"
        if self.fields is not None:
            yield f"  a fields: {self.fields}, at {self.shape}"
        # What is refuted needs no proof: that none was found is no news.
        if self.proof is not None and (self.proof.proved or self.status is not Status.REFUTED):
            yield f"  b proof: {self.proof}"
        if self.floats is not None:
            yield f"  c floats: {self.floats}"

    def to_dict(self) -> Document:
        """The status and all evidence, for JSON."""
        parts: Document = {
            "verdict": self.status.value,
            "reason": self.reason,
            "scope": self.scope,
            "labels": self.labels,
            "shape": self.shape,
        }
        for name in ("fields", "proof", "floats", "counterexample"):
            evidence = getattr(self, name)
            if evidence is not None:
                parts[name] = evidence.to_dict()
        # Empty strings carry nothing; a reader of the JSON tests for presence.
        return {name: part for name, part in parts.items() if part not in ("", None)}
