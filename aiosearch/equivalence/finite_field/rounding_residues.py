"""Detection of programs that compute with their own rounding errors, such as compensated sums.

Compensated sums, split factors, numbers rounded by adding a large one and taking it away: what is
kept there is a difference that is zero in real numbers. A candidate that is equal in real numbers
loses just that, so nothing may stand in for such a program.
"""

from __future__ import annotations

import math
from typing import Any

from ...tensor.analysis.generalise import generalise
from ...tensor.errors import TensorError
from ...tensor.evaluation.evaluate import step
from ...tensor.mugraph import RESULT
from ...tensor.terms import INPUT, Program, Term
from ...tensor.types import EXACT
from ..abstract_interpretation import sizes
from . import random_primes
from .array_algebra import Array, Fields, array
from .extension_field import ExtensionField, FieldObstacle

_ADDING = frozenset({"add", "sub", "sum", "mean"})
_MOST_TERMS = 4_000
_MOST_ELEMENTS = 1_024
"""Values that take longer are left out."""


def residue(program: Program, seed: int) -> Term | None:
    """The first sum or difference that is zero in real numbers, though nothing that it adds is.

    It is a term of the program at a small shape. What a field cannot tell is no residue.
    """
    try:
        (small,) = generalise([program]).reduced()
    except TensorError:
        return None
    field = ExtensionField(random_primes.prime(seed, 0), repr(seed).encode(), _MOST_TERMS)
    algebra: Any = Fields(field)
    values: dict[Term, Array | None] = {
        term: _drawn(field, term, index, seed) for index, term in enumerate(small.inputs)
    }
    for term in small.terms():
        if term not in values:
            values[term] = _value(field, algebra, term, [values[one] for one in term.arguments])
            if term.operator.name in _ADDING and _is_residue(term, values):
                return term
    return None


def _drawn(field: ExtensionField, term: Term, index: int, seed: int) -> Array | None:
    count = math.prod(sizes(term))
    if count > _MOST_ELEMENTS or term.dtype in EXACT:
        return None
    values = random_primes.elements(field.prime, count, "residue", seed, index)
    return array(values).reshape(sizes(term))


def _value(
    field: ExtensionField, algebra: Any, term: Term, operands: list[Array | None]
) -> Array | None:
    """A term's value; nothing above what has none, nor inside a kernel."""
    known = [one for one in operands if one is not None]
    if len(known) < len(operands) or term.operator in (INPUT, RESULT):
        return None
    if math.prod(sizes(term)) > _MOST_ELEMENTS:
        return None
    field.spent = 0
    try:
        return step(term, algebra, known)  # type: ignore[no-any-return]  # of this algebra
    except (FieldObstacle, ZeroDivisionError, TensorError):
        return None


def _is_residue(term: Term, values: dict[Term, Array | None]) -> bool:
    value = values[term]
    if value is None or not value.size or any(value.flat):
        return False
    operands = [values[argument] for argument in term.arguments]
    return all(one is not None and any(one.flat) for one in operands)
