"""Are two tensor programs the same function? Fields, proofs and floats; counterexamples.

`verify(a, b)` asks all layers; `compare_fields`, `prove` and `compare_floats` ask one. Names are
loaded when they are first used, so that importing the package loads neither NumPy nor z3.

What races need to judge arrays that a device gave is here as well: `compare_outputs`, the inputs to
try, and the arithmetic that says what rounding explains. `finite_field` is a facade of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .counterexample import Counterexample, find_counterexample
    from .fields import FieldEvidence, compare_fields
    from .floats import (
        ENOUGH,
        GIVEN,
        FloatEvidence,
        FloatStatus,
        Trial,
        compare_floats,
        compare_outputs,
        in_types,
        usual_distributions,
    )
    from .functions import Runnable, compare_functions, verify_functions
    from .inputs.draws import FLOAT_DISTRIBUTIONS
    from .inputs.limits import InputLimits, Limits
    from .inputs.overflow import overflow_inputs
    from .judging import verify
    from .proof import Proof, ProofWork, Rule, prove
    from .rounding.machine import UNIT, product_unit, rounded
    from .rounding.noise import NoisyArray
    from .runnables import ExecutedProgram, OutputTypesError
    from .verdict import Status, Verdict

__all__ = [
    "ENOUGH",
    "FLOAT_DISTRIBUTIONS",
    "GIVEN",
    "UNIT",
    "Counterexample",
    "ExecutedProgram",
    "FieldEvidence",
    "FloatEvidence",
    "FloatStatus",
    "InputLimits",
    "Limits",
    "NoisyArray",
    "OutputTypesError",
    "Proof",
    "ProofWork",
    "Rule",
    "Runnable",
    "Status",
    "Trial",
    "Verdict",
    "compare_fields",
    "compare_floats",
    "compare_functions",
    "compare_outputs",
    "find_counterexample",
    "in_types",
    "overflow_inputs",
    "product_unit",
    "prove",
    "rounded",
    "usual_distributions",
    "verify",
    "verify_functions",
]

__getattr__ = lazily(
    __name__,
    {
        "ENOUGH": ".floats",
        "FLOAT_DISTRIBUTIONS": ".inputs.draws",
        "GIVEN": ".floats",
        "UNIT": ".rounding.machine",
        "Counterexample": ".counterexample",
        "ExecutedProgram": ".runnables",
        "FieldEvidence": ".fields",
        "FloatEvidence": ".floats",
        "FloatStatus": ".floats",
        "InputLimits": ".inputs.limits",
        "Limits": ".inputs.limits",
        "NoisyArray": ".rounding.noise",
        "OutputTypesError": ".runnables",
        "Proof": ".proof",
        "ProofWork": ".proof",
        "Rule": ".proof",
        "Runnable": ".functions",
        "Status": ".verdict",
        "Trial": ".floats",
        "Verdict": ".verdict",
        "compare_fields": ".fields",
        "compare_floats": ".floats",
        "compare_functions": ".functions",
        "compare_outputs": ".floats",
        "find_counterexample": ".counterexample",
        "in_types": ".floats",
        "overflow_inputs": ".inputs.overflow",
        "product_unit": ".rounding.machine",
        "prove": ".proof",
        "rounded": ".rounding.machine",
        "usual_distributions": ".floats",
        "verify": ".judging",
        "verify_functions": ".functions",
    },
)
