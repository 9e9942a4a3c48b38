"""Detection of 32-bit integers in a program whose sums or products may wrap around.

The rules of algebra read integers as numbers without bounds: `a + b - b = a`. In 32 bits that holds
too, but a rewrite that converts to float in between, or sums in another type, differs where an
intermediate value wraps. `may_overflow` bounds every integer term by interval arithmetic: `iota` of
size 8 is at most 8, `mul` multiplies bounds, an input may be anything up to 2^31.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ..terms import INPUT, LITERAL, Program, Term, walk
from ..types import NARROW, DType

_ROOM = 2.0**31
"""The bound of 32-bit integers: no value is above 2^31 in magnitude."""
_FEW = 2.0**8
"""The bound of 8-bit integers."""
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
"""Operators whose results are among their operands, apart from constants in parameters."""


def may_overflow(program: Program, *, at_any_size: bool = False) -> bool:
    """Whether `program` computes an integer that may exceed 32 bits.

    Inputs may be any integers. With `at_any_size`, sums and positions are unbounded, as sizes are.
    """
    most: dict[Term, float] = {}
    for term in program.terms():
        bound = _bound(term, most, at_any_size)
        if term.dtype is DType.I32 and bound > _ROOM:
            return True
        most[term] = bound
    return False


def largest(term: Term) -> float:
    """A bound on the magnitude of a term whose type is not fixed yet."""
    most: dict[Term, float] = {}
    for subterm in walk([term]):
        most[subterm] = _bound(subterm, most, at_any_size=False)
    return most[term]


def _bound(term: Term, most: Mapping[Term, float], at_any_size: bool) -> float:
    """A bound on the magnitude of `term`; for floats nothing is claimed but `_ROOM`."""
    name, bounds = term.operator.name, [most[argument] for argument in term.arguments]
    if term.operator is LITERAL:
        return abs(float(term.parameter("value")))
    if term.dtype is DType.BOOL:
        return 1
    # No arithmetic is done in 8 bits, so the type bounds the value.
    if term.dtype in NARROW:
        return _FEW
    # Inputs may hold any 32-bit value; floats are not checked here.
    if term.operator is INPUT or term.dtype not in (DType.I32, DType.WEAK):
        return _ROOM
    if name in _KEEPING or name == "cast":
        return max(bounds)
    # Interval arithmetic on magnitudes: |x·y| <= |x|·|y|, |x + y| <= |x| + |y|.
    if name == "mul":
        return math.prod(bounds)
    if name == "take":
        return bounds[0]
    if name in ("argmax", "argmin"):
        return _ROOM if at_any_size else _size(term.arguments[0], [term.parameter("axis")])
    if name == "iota":
        return _ROOM if at_any_size else _size(term, [term.parameter("axis")])
    if name == "sum":
        (argument,) = term.arguments
        if bounds[0] == 1 and at_any_size:  # how many truths hold: memory has room for fewer
            return _ROOM
        return math.inf if at_any_size else bounds[0] * _size(argument, term.parameter("axes"))
    if name in ("add", "sub"):
        return sum(bounds)
    # -(-2^31) wraps: only a bound strictly below leaves room for the sign.
    if max(bounds) < _ROOM and name in ("neg", "abs"):
        return max(bounds)
    # An operator that is not listed may give anything.
    return math.inf if term.dtype is DType.I32 else _ROOM


def _size(term: Term, axes: Iterable[int]) -> float:
    """The number of elements along `axes`; infinite for symbolic sizes."""
    sizes = (term.shape[axis] for axis in axes)
    return math.prod(size if isinstance(size, int) else math.inf for size in sizes)
