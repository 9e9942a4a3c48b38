"""Whole numbers of 32 bits, whose sums and products begin again below behind the largest.

To the rules of algebra they are numbers like all others: a sum of them is the sum of what they are
as floats. To a processor it is not, where it has no room.
"""

from __future__ import annotations

from .terms import INPUT, Program, Term
from .types import DType

_KEEPING = frozenset(
    {
        "broadcast",
        "cast",
        "clamp",
        "concatenate",
        "diagonal",
        "max",
        "maximum",
        "min",
        "minimum",
        "pad",
        "reshape",
        "select",
        "slice",
        "stack",
        "transpose",
    }
)
"""What gives no number that it was not given."""


def may_wrap(program: Program) -> bool:
    """Whether whole numbers are computed of what is given, and might find no room."""
    given: set[Term] = set()
    for term in program.terms():
        if term.operator is not INPUT and given.isdisjoint(term.arguments):
            continue
        given.add(term)
        keeps = term.operator is INPUT or term.operator.name in _KEEPING or _counts(term)
        if term.dtype is DType.I32 and not keeps:
            return True
    return False


def _counts(term: Term) -> bool:
    """Whether it is how many of some truths hold."""
    (first, *_) = term.arguments
    truths = first.operator.name == "cast" and first.arguments[0].dtype is DType.BOOL
    return term.operator.name == "sum" and truths
