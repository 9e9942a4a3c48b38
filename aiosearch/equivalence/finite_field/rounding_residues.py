"""Detection of programs that compute with their own rounding errors, such as compensated sums.

Problem: Kahan's compensation is `c = sub(sub(t, s), y)` with `t = add(s, y)`. In real numbers c is
0; in floats it is the rounding error of t, and the whole point of the program. A candidate that is
equal in real numbers drops it, and float trials on benign inputs may not notice. Split factors and
numbers rounded by adding a large constant and taking it away are of the same kind.

Method: evaluate the program on random field elements, and look for the first sum or difference that
is zero although none of its operands is. An honest difference vanishes at a random point with a
chance of degree/prime.

Invariant: a program without such a term is judged as usual; with one, `verify` says `CANNOT_JUDGE`.
Cost: one evaluation at a reduced shape, bounded by `_MOST_TERMS` and `_MOST_ELEMENTS`. See
docs/why/verdicts.md.
"""

from __future__ import annotations

import math
from typing import Any

from ...tensor.analysis.abstract_interpretation import sizes
from ...tensor.analysis.generalise import generalise
from ...tensor.errors import TensorError
from ...tensor.evaluation import step
from ...tensor.mugraph import RESULT
from ...tensor.terms import INPUT, Program, Term
from ...tensor.types import EXACT
from . import random_primes
from .array_algebra import Array, Fields, array
from .extension_field import ExtensionField, FieldObstacle

_ADDING = frozenset({"add", "sub", "sum", "mean"})
"""Names of operators whose result is a sum or difference of their operands."""
_MOST_TERMS = 4_000
"""Budget of `ExtensionField` for each value."""
_MOST_ELEMENTS = 1_024
"""Tensors of more elements are left out, with all that is computed from them."""


def residue(program: Program, seed: int) -> Term | None:
    """The first sum or difference that is zero in real numbers, though nothing that it adds is.

    It is a term of `program` at a small shape. What a field cannot decide is no residue.
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
            values[term] = _value(
                field, algebra, term, [values[argument] for argument in term.arguments]
            )
            if term.operator.name in _ADDING and _is_residue(term, values):
                return term
    return None


def _drawn(field: ExtensionField, term: Term, index: int, seed: int) -> Array | None:
    """Random field elements for an input; None for integers and for what is too large."""
    count = math.prod(sizes(term))
    if count > _MOST_ELEMENTS or term.dtype in EXACT:
        return None
    values = random_primes.elements(field.prime, count, "residue", seed, index)
    return array(values).reshape(sizes(term))


def _value(
    field: ExtensionField, algebra: Any, term: Term, operands: list[Array | None]
) -> Array | None:
    """The value of `term`; None where an operand has none, and inside a kernel."""
    arrays = [operand for operand in operands if operand is not None]
    if len(arrays) < len(operands) or term.operator in (INPUT, RESULT):
        return None
    if math.prod(sizes(term)) > _MOST_ELEMENTS:
        return None
    # The budget is for each term: one expensive value must not hide the residues after it.
    field.spent = 0
    try:
        # A value that a field cannot give is no evidence; the terms above it then have none either.
        return step(term, algebra, arrays)  # type: ignore[no-any-return]  # of this algebra
    except (FieldObstacle, ZeroDivisionError, TensorError):
        return None


def _is_residue(term: Term, values: dict[Term, Array | None]) -> bool:
    """Whether the value is zero throughout while every operand is not."""
    value = values[term]
    if value is None or not value.size or any(value.flat) or _vanishes_in_floats(term):
        return False
    # sub(0, 0) is no residue: that some operand is not zero is what makes the sum a cancellation.
    operands = [values[argument] for argument in term.arguments]
    return all(operand is not None and any(operand.flat) for operand in operands)


def _vanishes_in_floats(term: Term) -> bool:
    """Whether a number is taken from itself, which leaves nothing of rounding either."""
    if len(term.arguments) != 2:
        return False
    first, second = term.arguments
    if term.operator.name == "sub":
        return first is second
    return any(
        negated.operator.name == "neg" and negated.arguments[0] is other
        for negated, other in ((first, second), (second, first))
    )
