"""Are two tensor programs the same: fields, proofs, floats; counterexamples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .counterexample import Counterexample, find_counterexample
    from .fields import FieldEvidence, compare_fields
    from .floats import FloatEvidence, compare_floats
    from .judging import verify
    from .proof import Proof, Rule, prove
    from .verdict import Status, Verdict

__all__ = [
    "Counterexample",
    "FieldEvidence",
    "FloatEvidence",
    "Proof",
    "Rule",
    "Status",
    "Verdict",
    "compare_fields",
    "compare_floats",
    "find_counterexample",
    "prove",
    "verify",
]

__getattr__ = lazily(
    __name__,
    {
        "Counterexample": ".counterexample",
        "find_counterexample": ".counterexample",
        "FieldEvidence": ".fields",
        "compare_fields": ".fields",
        "FloatEvidence": ".floats",
        "compare_floats": ".floats",
        "Proof": ".proof",
        "Rule": ".proof",
        "prove": ".proof",
        "Status": ".verdict",
        "Verdict": ".verdict",
        "verify": ".judging",
    },
)
