"""Are two tensor programs the same function? Fields, proofs and floats; counterexamples.

`verify(a, b)` asks all layers; `compare_fields`, `prove` and `compare_floats` ask one. Names are
loaded when they are first used, so that importing the package loads neither NumPy nor z3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .counterexample import Counterexample, find_counterexample
    from .fields import FieldEvidence, compare_fields
    from .floats import FloatEvidence, compare_floats
    from .functions import Runnable, compare_functions, verify_functions
    from .inputs.limits import InputLimits
    from .judging import verify
    from .proof import Proof, ProofWork, Rule, prove
    from .runnables import OutputTypesError
    from .verdict import Status, Verdict

__all__ = [
    "Counterexample",
    "FieldEvidence",
    "FloatEvidence",
    "InputLimits",
    "OutputTypesError",
    "Proof",
    "ProofWork",
    "Rule",
    "Runnable",
    "Status",
    "Verdict",
    "compare_fields",
    "compare_floats",
    "compare_functions",
    "find_counterexample",
    "prove",
    "verify",
    "verify_functions",
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
        "Runnable": ".functions",
        "compare_functions": ".functions",
        "verify_functions": ".functions",
        "Proof": ".proof",
        "Rule": ".proof",
        "ProofWork": ".proof",
        "prove": ".proof",
        "Status": ".verdict",
        "Verdict": ".verdict",
        "verify": ".judging",
        "InputLimits": ".inputs.limits",
        "OutputTypesError": ".runnables",
    },
)
