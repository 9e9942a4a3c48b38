"""Detection of large mask constants that absorb every drawn input by rounding.

`add(scores, mul(mask, 1e9))` is 1e9 wherever the mask is 1: float32 keeps no digit of a score
beside it, so that `FloatEvidence` has nothing to compare. `masking_remark` says so to the user.
"""

from __future__ import annotations

from ..tensor.terms import LITERAL, Program

LEAST_MASKING_CONSTANT = 1e4
"""The least factor that counts as a mask constant; scores seldom exceed some tens."""


def masking_remark(program: Program) -> str:
    """A sentence about the first factor of `program` beside which summands are lost.

    Empty if none.
    """
    factors = (
        float(factor.parameter("value"))
        for term in program.terms()
        if term.operator.name == "mul"
        for factor in term.arguments
        if factor.operator is LITERAL
    )
    large = next((factor for factor in factors if abs(factor) >= LEAST_MASKING_CONSTANT), None)
    if large is None:
        return ""
    return (
        f"it multiplies by {large:g}, beside which what is added is lost wherever the other factor"
        " is not 0; a mask is judged as truth values that are chosen by, or as numbers that are"
        " added"
    )
