"""Construction of terms from untrusted text and files, with limits on sizes, digits and axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FormatError, ShapeError
from ..mugraph import ACCUMULATE, LOAD, READ, RESULT, WRITE
from ..operator import Operator, OperatorParameter, ParameterKind, find
from ..sizes import Dim, Size
from ..terms import INPUT, LITERAL, Term, apply

MOST_AXES = 32
MOST_BYTES = 1 << 26
MOST_DIGITS = 400
"""Enough for every float, written out."""

_LARGEST = 1 << 60
_MOST_PRODUCTS = 4096
_MOST_POWERS = 16

BLOCK_PARAMETERS = {
    LOAD.name: (
        OperatorParameter("map", ParameterKind.WORD, (), required=False),
        OperatorParameter("loop", ParameterKind.WORD, None, required=False),
    ),
    ACCUMULATE.name: (
        OperatorParameter("kind", ParameterKind.WORD, "none", required=False),
        OperatorParameter("columns", ParameterKind.SIZE, 64, required=False),
    ),
    WRITE.name: (),
}
"""What is written down of a block's own operators; the rest follows from the kernel around."""

KERNEL_PARAMETERS = (
    OperatorParameter("grid", ParameterKind.SHAPE),
    OperatorParameter("range", ParameterKind.SIZE),
)

STORE_PARAMETERS = (OperatorParameter("map", ParameterKind.WORD, (), required=False),)

_STRUCTURAL = (INPUT, LITERAL, LOAD, ACCUMULATE, READ, WRITE, RESULT)


class MisfitError(FormatError, ShapeError):
    """A program that was written down in good form, but whose operands do not fit."""


def declared(name: str) -> Operator | None:
    """The operator of this name; None for those that have a form of their own."""
    operator = find(name)
    return None if operator in _STRUCTURAL else operator


def build(operator: Operator, operands: Sequence[Term], given: Mapping[str, Any]) -> Term:
    """Applies an operator to what was read; raises ShapeError, and that soon."""
    for value in given.values():
        if isinstance(value, (tuple, Size)):
            check_shape(value if isinstance(value, tuple) else (value,))
    return check(apply(operator, *operands, **given))


def check(term: Term) -> Term:
    """Refuses a term too large for any machine, before its sizes are too large to compute with."""
    check_shape(term.shape)
    return term


def check_shape(shape: Sequence[Dim]) -> None:
    if len(shape) > MOST_AXES:
        raise ShapeError(f"{len(shape)} axes: there may be {MOST_AXES}")
    products = 1
    for size in shape:
        if isinstance(size, Size):
            products *= len(size.terms)
            _check_powers(size)
        elif isinstance(size, int) and size >= _LARGEST:
            raise ShapeError("an axis beyond all memory")
    if products > _MOST_PRODUCTS:
        raise ShapeError("sizes with too many sums")


def _check_powers(size: Size) -> None:
    for powers, factor in size.terms:
        if sum(power for _, power in powers) > _MOST_POWERS or abs(factor) >= _LARGEST:
            raise ShapeError("a size beyond all memory")


__all__ = [
    "BLOCK_PARAMETERS",
    "KERNEL_PARAMETERS",
    "MOST_AXES",
    "MOST_BYTES",
    "MOST_DIGITS",
    "STORE_PARAMETERS",
    "MisfitError",
    "build",
    "check",
    "check_shape",
    "declared",
]
