"""Construction of terms from untrusted text and files, with limits on sizes, digits and axes.

A short text can describe a size with very many terms; each limit here bounds memory and time before
they are spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import FormatError, ShapeError
from ..mugraph import ACCUMULATE, LOAD, READ, RESULT, WRITE
from ..operator import Operator, OperatorParameter, ParameterKind, ParameterValue, find
from ..sizes import Dim, Size
from ..terms import INPUT, LITERAL, Term, apply

MOST_AXES = 32
"""The most axes of a tensor, which NumPy's arrays hold as well."""
MOST_BYTES = 1 << 26
"""The largest text or file that is read."""
MOST_DIGITS = 400
"""The most digits of a number: enough for every float, written out."""

_LARGEST = 1 << 60
"""Sizes from here on are refused: no memory holds such an axis."""
_MOST_PRODUCTS = 4096
"""The most terms that the product of a shape may expand to."""
_MOST_POWERS = 16
"""The highest degree of a symbolic size."""

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
"""Parameters that are written for a block's own operators; the kernel implies the others."""

KERNEL_PARAMETERS = (
    OperatorParameter("grid", ParameterKind.SHAPE),
    OperatorParameter("range", ParameterKind.SIZE),
)
"""Parameters of a `kernel`."""

STORE_PARAMETERS = (OperatorParameter("map", ParameterKind.WORD, (), required=False),)
"""Parameters of a `store`."""

_STRUCTURAL = (INPUT, LITERAL, LOAD, ACCUMULATE, READ, WRITE, RESULT)


class MisfitError(FormatError, ShapeError):
    """A program in good form whose operands do not fit: both a format and a shape error."""


def declared(name: str) -> Operator | None:
    """The operator of this name; None for those that have syntax of their own, such as `load`."""
    operator = find(name)
    return None if operator in _STRUCTURAL else operator


def build(
    operator: Operator, operands: Sequence[Term], parameters: Mapping[str, ParameterValue]
) -> Term:
    """Applies an operator to what was read; raises ShapeError before sizes grow too large."""
    for value in parameters.values():
        if isinstance(value, (tuple, Size)):
            check_shape(value if isinstance(value, tuple) else (value,))
    return check(apply(operator, *operands, **parameters))


def check(term: Term) -> Term:
    """Returns `term` unless it is too large for any machine; raises ShapeError."""
    check_shape(term.shape)
    return term


def check_shape(shape: Sequence[Dim]) -> None:
    """Raises ShapeError where a shape has too many axes, or too large or complex sizes."""
    if len(shape) > MOST_AXES:
        raise ShapeError(f"{len(shape)} axes: there may be {MOST_AXES}")
    products = 1
    for size in shape:
        if isinstance(size, Size):
            # The number of elements is the product of the sizes: multiplied out, it has this many
            # terms.
            products *= len(size.terms)
            _check_powers(size)
        # Refused before products of sizes are computed, which would grow without bound.
        elif isinstance(size, int) and size >= _LARGEST:
            raise ShapeError("an axis beyond all memory")
    if products > _MOST_PRODUCTS:
        raise ShapeError("sizes with too many sums")


def _check_powers(size: Size) -> None:
    """Raises ShapeError for a symbolic size of too high a degree."""
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
