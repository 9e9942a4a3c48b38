"""Detection of large mask constants in a program that absorb every drawn input by rounding."""

from __future__ import annotations

from ..tensor.terms import LITERAL, Program

LEAST_MASKING_CONSTANT = 1e4
"""What masks are multiplied by at least; scores are seldom larger than some tens."""


def masking_remark(program: Program) -> str:
    """What is multiplied by a number so large that nothing counts beside it, in words, or none."""
    factors = (
        float(one.parameter("value"))
        for term in program.terms()
        if term.operator.name == "mul"
        for one in term.arguments
        if one.operator is LITERAL
    )
    large = next((one for one in factors if abs(one) >= LEAST_MASKING_CONSTANT), None)
    if large is None:
        return ""
    return (
        f"it multiplies by {large:g}, beside which what is added is lost wherever the other factor"
        " is not 0; a mask is judged as truth values that are chosen by, or as numbers that are"
        " added"
    )
