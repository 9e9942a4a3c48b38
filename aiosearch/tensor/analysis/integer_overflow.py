"""Detection of 32-bit integers in a program whose sums or products may wrap around.

To the rules of algebra they are numbers like all others: a sum of them is the sum of what they are
as floats. To a processor it is not, where it has no room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ..terms import INPUT, LITERAL, Program, Term, walk
from ..types import NARROW, DType

_ROOM = 2.0**31
"""No number is larger, nor one that is given smaller than its negative."""
_FEW = 2.0**8
"""Nor among those of eight bits."""
_KEEPING = frozenset(
    {
        "broadcast",
        "clamp",
        "concatenate",
        "diagonal",
        "max",
        "maximum",
        "min",
        "minimum",
        "pad",
        "relu",
        "reshape",
        "select",
        "slice",
        "stack",
        "transpose",
    }
)
"""What gives no number that it was not given, but for parameters."""


def may_overflow(program: Program, *, at_any_size: bool = False) -> bool:
    """Whether whole numbers are computed that might find no room.

    Those that are given may be any; how many there are, and their places, depend on the sizes.
    """
    most: dict[Term, float] = {}
    for term in program.terms():
        found = _most(term, most, at_any_size)
        if term.dtype is DType.I32 and found > _ROOM:
            return True
        most[term] = found
    return False


def largest(term: Term) -> float:
    """How large the whole numbers may be that a term of no type yet stands for, either way."""
    most: dict[Term, float] = {}
    for one in walk([term]):
        most[one] = _most(one, most, at_any_size=False)
    return most[term]


def _most(term: Term, most: Mapping[Term, float], at_any_size: bool) -> float:
    """How large it may be, either way; of floats nothing is known."""
    name, own = term.operator.name, [most[one] for one in term.arguments]
    if term.operator is LITERAL:
        return abs(float(term.parameter("value")))
    if term.dtype is DType.BOOL:
        return 1
    if term.dtype in NARROW:
        return _FEW
    if term.operator is INPUT or term.dtype not in (DType.I32, DType.WEAK):
        return _ROOM
    if name in _KEEPING or name == "cast":
        return max(own)
    if name == "mul":
        return math.prod(own)
    if name == "iota":
        return _ROOM if at_any_size else _size(term, [term.parameter("axis")])
    if name == "sum":
        (one,) = term.arguments
        if own[0] == 1 and at_any_size:  # how many truths hold: memory has room for fewer
            return _ROOM
        return math.inf if at_any_size else own[0] * _size(one, term.parameter("axes"))
    if name in ("add", "sub"):
        return sum(own)
    if max(own) < _ROOM and name in ("neg", "abs"):
        return max(own)
    return math.inf if term.dtype is DType.I32 else _ROOM


def _size(term: Term, axes: Iterable[int]) -> float:
    sizes = (term.shape[axis] for axis in axes)
    return math.prod(size if isinstance(size, int) else math.inf for size in sizes)
